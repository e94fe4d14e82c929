package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/vantage"
)

const (
	agentsTimeout    = 2 * time.Minute
	agentsGoneWithin = time.Minute
)

func (a *app) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Kernel evidence: an agent on every node that says who did it",
		Long: `An agent on every node (a DaemonSet, privileged) tells during a trial what its kernel saw:
signals and exits, listening sockets, resets and ICMP errors, the rules of kube-proxy, and
conntrack's entries. It only reads. Nothing is loaded into a kernel while no trial runs, and
what a trial loads ends with it.

On a local cluster "drainproof run" and "drainproof test" install it by themselves; on any other it
is yours to install and to remove.`,
		Args: exactArgs(),
		RunE: a.needsSubcommand,
		Example: `  drainproof agent install --context staging
  drainproof test deploy/web --context staging
  drainproof agent uninstall --context staging`,
	}
	cmd.AddCommand(a.agentInstall(), a.agentUninstall(), a.agentStatus(), a.agentHold(), a.agentWatch())
	return cmd
}

func (a *app) agentInstall() *cobra.Command {
	var f clusterFlags
	var image string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "install", Short: "Put the agent on every node, or bring it to this version", Args: exactArgs(),
		Long: `Makes the namespace ` + kube.NamespaceAgents + ` with a DaemonSet in it and waits until the agent of every node is
ready. Its Pods are privileged, in the node's network and process namespaces.`,
		Example: `  drainproof agent install --context staging --image registry.example/team/drainproof:1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			on, err := a.choose(ctx, f, "put a privileged agent on every node")
			if err != nil {
				return err
			}
			if image, err = a.ensureImage(ctx, on, image); err != nil {
				return err
			}
			agents, _, err := on.api.InstallAgents(ctx, image, timeout)
			if err != nil {
				return err
			}
			return a.printAgents(agents)
		},
	}
	f.bind(cmd)
	cmd.Flags().StringVar(&image, "image", "", "image of the agent (default: this very binary's, loaded into local clusters by itself)")
	cmd.Flags().DurationVar(&timeout, "timeout", agentsTimeout, "how long to wait until they are ready")
	return cmd
}

func (a *app) agentUninstall() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Remove the agents and their namespace", Args: exactArgs(),
		Example: `  drainproof agent uninstall --context staging`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			on, err := a.choose(cmd.Context(), f, "remove the agents")
			if err != nil {
				return err
			}
			was, err := on.api.UninstallAgents(cmd.Context(), agentsGoneWithin)
			if err == nil && !was {
				a.progress("there were none")
			}
			return err
		},
	}
	f.bind(cmd)
	return cmd
}

func (a *app) agentStatus() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use: "status", Short: "List the agent of each node", Args: exactArgs(),
		Example: `  drainproof agent status --context staging`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			on, err := a.choose(cmd.Context(), f, "")
			if err != nil {
				return err
			}
			agents, err := on.api.Agents(cmd.Context())
			if err != nil {
				return err
			}
			if len(agents) == 0 {
				return fault.Inconclusivef("install them with `drainproof agent install`", "no agents are installed")
			}
			return a.printAgents(agents)
		},
	}
	f.bind(cmd)
	return cmd
}

func (a *app) printAgents(agents []kube.AgentPod) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tPOD\tIMAGE\tSTATE")
	for _, x := range agents {
		state := "ready"
		if x.Missing != "" {
			state = x.Missing
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", x.Node, x.Pod, x.Image, state)
	}
	return w.Flush()
}

// agentHold is what the DaemonSet's container does between trials.
func (a *app) agentHold() *cobra.Command {
	return &cobra.Command{
		Use: "hold", Short: "Keep the agent's container alive until it is told to end", Hidden: true, Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}

// ringVariable sets the size of the buffer between a node's kernel and its agent, for nodes where it overran.
const ringVariable = "DRAINPROOF_AGENT_RING_BYTES"

// What an agent takes of its node's memory is bounded: it makes little garbage, but when it starts and when it tells what it was asked for.
const (
	agentGCPercent = 50
	agentMemory    = 48 << 20
)

// agentWatch is one session: a trial starts it in the agent's container and speaks to it over its streams.
func (a *app) agentWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch", Short: "Watch this node for one trial: obey its harness on stdin and stdout", Hidden: true, Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			debug.SetGCPercent(agentGCPercent)
			debug.SetMemoryLimit(agentMemory)
			o := agent.Options{Version: versionString()}
			if text := a.Getenv(ringVariable); text != "" {
				var err error
				if o.RingBytes, err = strconv.Atoi(text); err != nil || o.RingBytes < 1 {
					return fault.Usagef("set it to a number of bytes in the agent's DaemonSet, or take it out", "%s is %q", ringVariable, text)
				}
			}
			return agent.Serve(cmd.Context(), a.In, a.bareOut(), o)
		},
	}
}

// Words of --agent.
const (
	agentAuto     = "auto"
	agentNone     = "none"
	agentRequired = "required"
)

// agentFlag is --agent, as run and test know it.
type agentFlag struct{ mode string }

func (f *agentFlag) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "agent", agentAuto, "evidence from the nodes' kernels: auto (where agents are installed; a local cluster gets them), required, or none")
}

// check also fills what a command without the flag leaves empty.
func (f *agentFlag) check() error {
	if f.mode == "" {
		f.mode = agentAuto
	}
	return oneOf("agent", f.mode, agentAuto, agentRequired, agentNone)
}

// agents gives what lists a cluster's agents for a trial; nil for none. A local cluster gets them now.
func (a *app) agents(ctx context.Context, f agentFlag, on *chosen, image string) (evidence.Lister, error) {
	if f.mode == agentNone {
		return nil, nil
	}
	list := func(ctx context.Context) ([]evidence.Place, error) {
		agents, err := on.api.Agents(ctx)
		var places []evidence.Place
		for _, x := range agents {
			p := evidence.Place{Node: x.Node, Missing: x.Missing}
			if x.Missing == "" {
				p.Dial = func(ctx context.Context, heard agent.Heard) (*agent.Session, error) {
					return vantage.Watch(ctx, on.api, x.Namespace, x.Pod, versionString(), heard)
				}
			}
			places = append(places, p)
		}
		return places, err
	}
	if on.local != nil {
		if err := a.installLocal(ctx, on, image); err != nil && f.mode == agentRequired {
			return nil, err
		} else if err != nil {
			a.progress("no agents: %v", err)
		}
	}
	return list, nil
}

// installLocal sees to it that the nodes of a local cluster have agents of this version.
func (a *app) installLocal(ctx context.Context, on *chosen, image string) error {
	image, err := a.ensureImage(ctx, on, image)
	if err != nil {
		return err
	}
	_, changed, err := on.api.InstallAgents(ctx, image, agentsTimeout)
	if changed && err == nil {
		a.progress("the nodes of cluster %s have their agents now (drainproof agent uninstall removes them)", on.cluster)
	}
	return err
}
