// Command drainproof measures, explains, fixes and proves lossless Pod
// termination on Kubernetes. All of it is in internal/; here a signal becomes
// a cancelled context, and a result an exit code.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/drainproof/drainproof/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one ends at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args, cli.System()))
}
