package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
)

func (a *app) cleanupCommand() *cobra.Command {
	var f clusterFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove and put back what interrupted trials left in a cluster",
		Long: `A trial removes what it made and puts back what it changed, also when it is interrupted.
Where it could not (a kill -9, an API server that was gone), this finds everything that
carries the label drainproof.dev/trial and removes it, and finds the workloads and nodes
that a test has marked and puts them back: replicas, cordons, the mark. It cannot tell a
test that was killed from one that somebody runs right now: look with --dry-run first.`,
		Example: `  drainproof cleanup --dry-run
  drainproof cleanup --context kind-lab`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			change := "remove every object that carries drainproof's label, and put back workloads and nodes that dead tests left marked"
			if dryRun {
				change = ""
			}
			on, err := a.choose(cmd.Context(), f, change)
			if err != nil {
				return err
			}
			find := on.api.Cleanup
			if dryRun {
				find = on.api.Leftovers
			}
			left, err := find(cmd.Context())
			what := "removed"
			switch {
			case dryRun:
				what = "would remove"
			case err != nil:
				what = "found" // some of it may still be there
			}
			if werr := writeLeftovers(a.Out, what, left); werr != nil {
				return werr
			}
			if err != nil {
				return fault.Measuref(err, "this account must be able to list and delete namespaces, deployments, services and pods, and to list and patch workloads and nodes (docs/permissions.md)", "cleaning up")
			}
			if len(left) == 0 {
				a.progress("nothing was left")
			}
			return nil
		},
	}
	f.bind(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be removed")
	return cmd
}

// writeLeftovers prints a line for each object, with what was done to it.
func writeLeftovers(out io.Writer, what string, left []kube.Leftover) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, l := range left {
		created := "-" // a cordon does not tell
		if !l.Created.IsZero() {
			created = l.Created.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\ttrial %s\t%s\n", verb(what, l.Kind), l.Kind, l.Namespace, l.Name, l.Trial, created)
	}
	return w.Flush()
}

// verb says what was done to a leftover: what is the user's own is put back, not removed.
func verb(what, kind string) string {
	if kind != "claim" && kind != "cordon" {
		return what
	}
	return strings.Replace(strings.Replace(what, "removed", "put back", 1), "remove", "put back", 1)
}
