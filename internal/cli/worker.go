package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/traffic"
)

func (a *app) workerCommand() *cobra.Command {
	var idle, lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Be a client elsewhere: obey a coordinator on stdin and stdout",
		Long: `The same client that runs in the process of "drainproof run" (vantage host), for
another place: it obeys one coordinator on its stdin and stdout, and ends with them.
"drainproof run" starts it by itself in a Pod (vantage pod).`,
		Example: `  kubectl exec -i worker -- /drainproof worker`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if idle > 0 {
				select {
				case <-cmd.Context().Done():
				case <-time.After(idle):
				}
				return nil
			}
			if lifetime <= 0 {
				return fault.Usagef("give a duration such as 1h", "--lifetime %v is not positive", lifetime)
			}
			return traffic.Serve(cmd.Context(), a.In, a.bareOut(), versionString(), lifetime)
		},
	}
	cmd.Flags().DurationVar(&idle, "idle", 0, "only keep the container alive for this long")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 2*time.Hour, "end after this long in any case")
	return cmd
}
