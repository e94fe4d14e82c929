package localcluster

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
)

// need is a program and the Debian and Ubuntu package that has it.
type need struct{ Program, Package string }

var needs = []need{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"iptables-save", "iptables"},
	{"iptables-restore", "iptables"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"mount", "mount"},
	{"umount", "mount"},
}

var (
	cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	cniPlugins = []string{"ptp", "host-local", "loopback"}
)

// missingPrograms takes how to look for them, so that tests can hide some.
func missingPrograms(look func(program string) (string, error), cni func() (string, error)) []need {
	var missing []need
	for _, n := range needs {
		if _, err := look(n.Program); err != nil {
			missing = append(missing, n)
		}
	}
	if _, err := cni(); err != nil {
		missing = append(missing, need{"the CNI plugins " + strings.Join(cniPlugins, ", "), "containernetworking-plugins"})
	}
	return missing
}

func missingPackages() []string { return packagesOf(missingHere()) }

func missingHere() []need {
	return missingPrograms(lookProgram, cniFolder)
}

func packagesOf(missing []need) []string {
	var packages []string
	for _, n := range missing {
		packages = append(packages, n.Package)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

func check(ctx context.Context, o Options) []*fault.Error {
	var found []*fault.Error
	add := func(f *fault.Error) {
		if f != nil {
			found = append(found, f)
		}
	}
	if os.Geteuid() != 0 {
		add(errNotRoot())
	}
	add(programsFault(missingHere()))
	add(checkSpace(o.StateDir))
	add(checkCgroups())
	if s, err := readState(o.StateDir, o.Name); err != nil || s == nil {
		// A cluster that is there has what it needs of these.
		add(checkAddresses(o))
		add(checkWatches(o))
	}
	if ctx.Err() != nil {
		add(fault.Measuref(context.Cause(ctx), "", "the check was interrupted"))
	}
	return found
}

func programsFault(missing []need) *fault.Error {
	if len(missing) == 0 {
		return nil
	}
	var names []string
	for _, n := range missing {
		names = append(names, fmt.Sprintf("%s (package %s)", n.Program, n.Package))
	}
	return fault.Measuref(nil, "on Debian or Ubuntu: apt-get update && "+installCommand(packagesOf(missing)),
		"missing programs: %s", strings.Join(names, ", "))
}

// checkSpace looks at the nearest folder that exists already.
func checkSpace(dir string) *fault.Error {
	for at := dir; ; at = filepath.Dir(at) {
		var st unix.Statfs_t
		err := unix.Statfs(at, &st)
		if err == nil {
			if free := st.Bavail * uint64(st.Bsize); free < minimumSpace {
				return errNoSpace(at, free)
			}
			return nil
		}
		if at == filepath.Dir(at) {
			return fault.Measuref(err, "choose another folder", "the free space of %s is not known", dir)
		}
	}
}

// checkCgroups asks for the controllers without which a kubelet does not start.
func checkCgroups() *fault.Error {
	hs, err := hierarchies()
	if err != nil {
		return fault.Measuref(err, "", "the cgroups of this machine are not known")
	}
	have := map[string]bool{}
	for _, h := range hs {
		for _, c := range h.Options {
			have[c] = true
		}
		if h.V2 {
			b, err := os.ReadFile(filepath.Join(h.Mount, "cgroup.controllers"))
			if err != nil {
				return fault.Measuref(err, "", "the cgroups of this machine are not known")
			}
			for _, c := range strings.Fields(string(b)) {
				have[c] = true
			}
		}
	}
	var missing []string
	for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
		if !have[c] {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.Measuref(nil, "enable them on the kernel's command line (cgroup_enable=memory), or run outside of a container that hides them",
		"cgroup controllers are missing below /sys/fs/cgroup: %s", strings.Join(missing, ", "))
}

// checkAddresses asks whether a range is free.
func checkAddresses(o Options) *fault.Error {
	used, err := usedPrefixes()
	if err != nil {
		return fault.Measuref(err, "", "the addresses of this machine are not known")
	}
	claimed, err := claimedSubnets(o.StateDir)
	if err != nil {
		return fault.Measuref(err, "", "the addresses of the local clusters are not known")
	}
	if _, err := pickSubnet(append(used, claimed...)); err != nil {
		return fault.Measuref(nil, fault.NextOf(err), "%v", err)
	}
	return nil
}

// watchesPerNode is about what one node's programs keep open, of the few that
// the kernel grants root in all; without them a kubelet ends as if broken.
const watchesPerNode = 12

func checkWatches(o Options) *fault.Error {
	const key = "fs.inotify.max_user_instances"
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return nil // a kernel that has no such limit
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fault.Measuref(err, "", "the limit %s is not known", key)
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	used := 0
	for _, fd := range open {
		// The limit is per user; these are root's.
		var owner unix.Stat_t
		if unix.Stat(filepath.Dir(filepath.Dir(fd)), &owner) != nil || owner.Uid != 0 {
			continue
		}
		if to, err := os.Readlink(fd); err == nil && to == "anon_inode:inotify" {
			used++
		}
	}
	if want := watchesPerNode * (o.Workers + 1); used+want > limit {
		return fault.Measuref(nil, fmt.Sprintf("raise it: sysctl -w %s=%d", key, max(1024, 2*limit)),
			"%d of %d file watches (%s) are in use, and this cluster needs up to %d", used, limit, key, want)
	}
	return nil
}

func installPackages(ctx context.Context, packages []string, progress func(line string)) error {
	if os.Geteuid() != 0 {
		return errNotRoot()
	}
	apt, err := lookProgram("apt-get")
	if err != nil {
		return fault.Measuref(nil, "install the programs with this system's own means: containerd, runc, the CNI plugins, iptables, nftables, conntrack",
			"this machine has no apt-get to install %s", strings.Join(packages, ", "))
	}
	for _, args := range [][]string{
		{"-o", "DPkg::Lock::Timeout=300", "update"},
		append([]string{"-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"}, packages...),
	} {
		if err := runLines(ctx, progress, apt, args...); err != nil {
			return fault.Measuref(err, "see what it says: apt-get update && "+installCommand(packages),
				"packages %s could not be installed", strings.Join(packages, ", "))
		}
	}
	return nil
}

// runLines runs a program and passes on each line that it prints.
func runLines(ctx context.Context, progress func(string), program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "PATH="+strings.Join(searchPath(), ":"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if progress != nil {
			progress(last)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(program), args[0], err, last)
	}
	return nil
}
