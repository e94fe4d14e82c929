package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/localcluster"
)

// clusterFlags say which cluster a command works on.
type clusterFlags struct {
	cluster, kubeconfig, context string
	yes                          bool
}

func (f *clusterFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "a local cluster, by name (see drainproof cluster list)")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "path of a kubeconfig, for any other cluster")
	cmd.Flags().StringVar(&f.context, "context", "", "a context of the kubeconfig")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask before touching a cluster that is not local")
	cmd.MarkFlagsMutuallyExclusive("cluster", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("cluster", "context")
}

// chosen is the cluster that a command was pointed at.
type chosen struct {
	// local is nil for a cluster of a kubeconfig.
	local *localcluster.Cluster
	api   *kube.Cluster
	// name of the local cluster or context of the kubeconfig; one is empty.
	cluster, context string
}

// choose finds the cluster: the one that the flags name, else the only local one that runs.
// change says what the command is about to do to it; "" for commands that only look.
func (a *app) choose(ctx context.Context, f clusterFlags, change string) (*chosen, error) {
	if f.kubeconfig != "" || f.context != "" {
		return a.chooseContext(ctx, f, change)
	}
	name := f.cluster
	if name == "" {
		only, err := a.onlyLocal(ctx)
		if err != nil {
			return nil, err
		}
		name = only
	}
	local, err := localcluster.Open(a.stateDir(), name)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := local.Kubeconfig()
	if err != nil {
		return nil, err
	}
	api, err := kube.Connect(ctx, kube.Options{Kubeconfig: kubeconfig, UserAgent: "drainproof/" + versionString()})
	if err != nil {
		return nil, err
	}
	return &chosen{local: local, api: api, cluster: name}, nil
}

func (a *app) chooseContext(ctx context.Context, f clusterFlags, change string) (*chosen, error) {
	o := kube.Options{KubeconfigPath: f.kubeconfig, Context: f.context, UserAgent: "drainproof/" + versionString()}
	if change != "" {
		o.Confirm = func(name, server string) error {
			return a.confirm(ctx, f.yes, "%s on context %q (%s)", change, name, server)
		}
	}
	api, err := kube.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return &chosen{api: api, context: api.Context()}, nil
}

// onlyLocal names the one local cluster that runs, or says how to choose.
func (a *app) onlyLocal(ctx context.Context) (string, error) {
	all, err := localcluster.List(a.stateDir())
	if err != nil {
		return "", err
	}
	var running []string
	for _, c := range all {
		s, err := c.Status(ctx)
		if err != nil {
			return "", err
		}
		if stateWord(s) != "stopped" {
			running = append(running, c.Name())
		}
	}
	switch len(running) {
	case 1:
		return running[0], nil
	case 0:
		return "", fault.Usagef("start a local one with `drainproof cluster up`, or point at yours with --context", "no cluster was named, and no local cluster runs")
	default:
		return "", fault.Usagef("name one with --cluster, or point at another with --context", "no cluster was named, and several local ones run: %s", strings.Join(running, ", "))
	}
}

// confirm asks on a terminal; without one it demands --yes.
func (a *app) confirm(ctx context.Context, yes bool, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if yes {
		a.progress("about to %s", what)
		return nil
	}
	if !a.InIsTerminal {
		return fault.Usagef("add --yes if that is what you want", "this would %s, and there is no terminal to ask on", what)
	}
	fmt.Fprintf(a.Err, "This will %s. Go on? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.In).ReadString('\n') // no answer is a no
		answer <- line
	}()
	line := ""
	select {
	case line = <-answer:
	case <-ctx.Done():
	}
	if s := strings.ToLower(strings.TrimSpace(line)); s != "y" && s != "yes" {
		return fault.Usagef("answer y, or give --yes", "not confirmed, nothing was touched")
	}
	return nil
}

// stateDir is where local clusters live; the default is the library's.
func (a *app) stateDir() string { return a.Getenv("DRAINPROOF_STATE_DIR") }

// cacheDir is where downloaded and built programs live; the default is the library's.
func (a *app) cacheDir() string { return a.Getenv("DRAINPROOF_CACHE_DIR") }

// isFolder tells a path from a word such as auto.
func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
