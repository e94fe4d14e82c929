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
	// A reader that went away or a terminal that was closed must not leave a cluster as it stands.
	// Caught, not ignored: what this program starts would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal asks for an orderly end; a second one ends at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args, cli.System()))
}
