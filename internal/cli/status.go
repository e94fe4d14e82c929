package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/drainproof/drainproof/internal/localcluster"
	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

// statusView is the JSON of `cluster status`.
type statusView struct {
	Name       string          `json:"name"`
	State      string          `json:"state"`
	Kubernetes string          `json:"kubernetes"`
	ProxyMode  string          `json:"proxy_mode"`
	Server     string          `json:"server"`
	Subnet     string          `json:"subnet"`
	Kubectl    string          `json:"kubectl"`
	Kubeconfig string          `json:"kubeconfig"`
	Problem    string          `json:"problem"`
	Nodes      []statusNode    `json:"nodes"`
	Processes  []statusProcess `json:"processes"`
}

type statusNode struct {
	Name         string `json:"name"`
	ControlPlane bool   `json:"control_plane"`
	Address      string `json:"address"`
	Pods         string `json:"pods"`
	// Ready is null where the API server could not be asked.
	Ready   *bool  `json:"ready"`
	Kubelet string `json:"kubelet"`
}

type statusProcess struct {
	Node  string `json:"node"`
	Part  string `json:"part"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
}

func (a *app) statusOf(ctx context.Context, c *localcluster.Cluster) (statusView, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return statusView{}, err
	}
	v := statusView{
		Name: s.Name, State: stateWord(s), Kubernetes: s.Kubernetes, ProxyMode: s.ProxyMode, Server: s.Server, Subnet: s.Subnet.String(),
		Kubectl: parts.Set{Dir: c.PartsDir()}.Path(parts.Kubectl), Kubeconfig: c.KubeconfigPath(), Problem: s.Problem,
		Nodes: []statusNode{}, Processes: []statusProcess{},
	}
	for _, n := range s.Nodes {
		v.Nodes = append(v.Nodes, statusNode{
			Name: n.Name, ControlPlane: n.ControlPlane, Address: n.Addr.String(), Pods: n.Pods.String(), Ready: n.Ready, Kubelet: n.KubeletVersion,
		})
	}
	for _, p := range s.Processes {
		v.Processes = append(v.Processes, statusProcess{Node: p.Node, Part: p.Part, PID: p.PID, Alive: p.Alive})
	}
	return v, nil
}

func stateWord(s localcluster.Status) string {
	if s.Healthy() {
		return "running"
	}
	if s.Denied {
		return "not known (needs root)"
	}
	alive := slices.ContainsFunc(s.Processes, func(p localcluster.ProcessStatus) bool { return p.Alive })
	switch {
	case !alive:
		return "stopped"
	case s.Phase == localcluster.PhaseCreating:
		return "unfinished" // being made, or left half made: up finishes it
	}
	return "damaged"
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (a *app) printStatus(v statusView) error {
	fmt.Fprintf(a.Out, "cluster %s  %s  Kubernetes %s  kube-proxy %s  %s\n\n", v.Name, v.State, v.Kubernetes, v.ProxyMode, v.Server)
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tREADY\tADDRESS\tPODS\tDEAD PROGRAMS")
	for _, n := range v.Nodes {
		ready := "not known"
		if n.Ready != nil {
			ready = fmt.Sprint(*n.Ready)
		}
		dead := ""
		for _, p := range v.Processes {
			if p.Node == n.Name && !p.Alive {
				dead += p.Part + " "
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", n.Name, ready, n.Address, n.Pods, dead)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if v.Problem != "" {
		fmt.Fprintf(a.Out, "\nproblem: %s\n", v.Problem)
		if v.State != "running" {
			fmt.Fprintf(a.Out, "repair:  drainproof cluster up %s\n", v.Name)
		}
		return nil
	}
	fmt.Fprintf(a.Out, "\nkubectl: %s --kubeconfig %s\n", v.Kubectl, v.Kubeconfig)
	return nil
}
