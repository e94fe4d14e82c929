package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
)

// Status is what a look at the cluster found.
type Status struct {
	Name      string
	Phase     string // PhaseCreating or PhaseRunning, as the state says
	ProxyMode string
	// Kubernetes is the version that was asked for, ServerVersion what the API
	// server answers; empty when it does not.
	Kubernetes, ServerVersion string
	Server                    string
	Subnet                    netip.Prefix
	// APIReady says that the API server's /readyz was good.
	APIReady bool
	// Denied: this account may not look; Processes and Nodes say nothing then.
	Denied bool
	// Problem is why the API server could not be asked; empty when it could.
	Problem   string
	Processes []ProcessStatus
	Nodes     []NodeStatus
}

// ProcessStatus is one program of one node.
type ProcessStatus struct {
	Node, Part string
	// PID is 0 when the program was never started.
	PID   int
	Alive bool
}

// NodeStatus is one node as the API server knows it.
type NodeStatus struct {
	Node
	// Ready is nil when the API server could not be asked.
	Ready          *bool
	KubeletVersion string
}

// Healthy says that every program runs and every node is Ready.
func (s Status) Healthy() bool {
	if s.Phase != PhaseRunning || !s.APIReady {
		return false
	}
	for _, p := range s.Processes {
		if !p.Alive {
			return false
		}
	}
	for _, n := range s.Nodes {
		if n.Ready == nil || !*n.Ready {
			return false
		}
	}
	return true
}

// Status looks at every program and asks the API server. A cluster that is
// broken is no error: the status says what is.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	s := Status{
		Name: c.Name(), Phase: c.state.Phase, ProxyMode: c.ProxyMode(), Kubernetes: c.Version(),
		Server: c.Server(), Subnet: c.Subnet(),
	}
	processes, err := processStatus(c.plan)
	if err != nil {
		return s, err
	}
	s.Processes = processes
	nodes, err := c.askAPI(ctx, &s)
	if err != nil {
		if ctx.Err() != nil {
			return s, fmt.Errorf("look at cluster %s: %w", c.Name(), ctx.Err())
		}
		s.Problem, s.Denied = err.Error(), errors.Is(err, fs.ErrPermission)
	}
	for _, n := range c.Nodes() {
		ns := NodeStatus{Node: n}
		if nodes != nil {
			ready := nodes[n.Name].ready()
			ns.Ready, ns.KubeletVersion = &ready, nodes[n.Name].Status.NodeInfo.KubeletVersion
		}
		s.Nodes = append(s.Nodes, ns)
	}
	return s, nil
}

func (c *Cluster) askAPI(ctx context.Context, s *Status) (map[string]apiNode, error) {
	api, err := newAPIClient(c.plan)
	if err != nil {
		return nil, err
	}
	defer api.close()
	if err := api.get(ctx, "/readyz", nil); err != nil {
		return nil, err
	}
	s.APIReady = true
	if s.ServerVersion, err = api.version(ctx); err != nil {
		return nil, err
	}
	return api.nodes(ctx)
}
