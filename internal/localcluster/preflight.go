package localcluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

// minimumSpace is what a cluster's folder needs: logs, images, etcd.
const minimumSpace = 2 << 30

// Preflight says all at once what keeps this machine from running a local
// cluster; nil when nothing does. It changes nothing.
func Preflight(ctx context.Context, o Options) error {
	o, err := o.normalize()
	if err != nil {
		return err
	}
	return oneFault(Check(ctx, o))
}

// Check lists what Preflight found, one fault for each thing.
func Check(ctx context.Context, o Options) []*fault.Error {
	o, err := o.normalize()
	if err != nil {
		return []*fault.Error{fault.Usagef(fault.NextOf(err), "%v", err)}
	}
	return check(ctx, o)
}

// MissingPackages lists the Debian packages that have the programs that are
// missing, each once.
func MissingPackages() []string { return missingPackages() }

// InstallPackages installs them with apt-get, as root, without a question.
// Lines of apt-get go to progress.
func InstallPackages(ctx context.Context, packages []string, progress func(line string)) error {
	if len(packages) == 0 {
		return nil
	}
	return installPackages(ctx, packages, progress)
}

// oneFault makes one error of several, whose advice has them all.
func oneFault(all []*fault.Error) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	var what, next []string
	for _, f := range all {
		what = append(what, "- "+f.Error())
		if f.Next != "" {
			next = append(next, f.Next)
		}
	}
	return fault.Measuref(nil, strings.Join(next, "; then "),
		"%d things keep this machine from running a local cluster:\n%s", len(all), strings.Join(what, "\n"))
}

func installCommand(packages []string) string {
	return "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
}

func errNotRoot() *fault.Error {
	return fault.Measuref(nil, "run it as root: sudo drainproof cluster ...", "a local cluster needs root: it makes network namespaces, mounts and cgroups")
}

func errNoSpace(dir string, free uint64) *fault.Error {
	return fault.Measuref(nil, fmt.Sprintf("free %d MiB there, or choose another folder", (minimumSpace-free)>>20+1),
		"%s has %d MiB of free space; a local cluster needs %d MiB", dir, free>>20, uint64(minimumSpace)>>20)
}
