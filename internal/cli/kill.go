package cli

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/kill"
)

// killCommand is what --trigger kill runs on the node of the Pod, in the node's process namespace.
func (a *app) killCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "kill-container ID",
		Short:  "Send SIGKILL to the first process of a container, from its node",
		Long:   `Finds the first process of the container and kills it. It prints the process and when it was killed (CLOCK_MONOTONIC, nanoseconds).`,
		Hidden: true,
		Args:   exactArgs("ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			pid, at, err := kill.Container(args[0], syscall.SIGKILL)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, pid, at)
			return err
		},
	}
}
