//go:build !linux

package localcluster

import (
	"context"

	"github.com/drainproof/drainproof/internal/fault"
)

func errNotLinux() *fault.Error {
	return fault.Measuref(nil, "use a Linux machine, or any cluster of yours with --kubeconfig", "a local cluster runs on Linux only")
}

func up(context.Context, Options) (*Cluster, error)                 { return nil, errNotLinux() }
func down(context.Context, string, string) error                    { return errNotLinux() }
func loadImage(context.Context, plan, string) error                 { return errNotLinux() }
func processStatus(plan) ([]ProcessStatus, error)                   { return nil, errNotLinux() }
func check(context.Context, Options) []*fault.Error                 { return []*fault.Error{errNotLinux()} }
func missingPackages() []string                                     { return nil }
func installPackages(context.Context, []string, func(string)) error { return errNotLinux() }
