package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
)

// hierarchy is one mounted tree of cgroups. Machines have one of version 2, several
// of version 1, or both.
type hierarchy struct {
	Mount string
	V2    bool
	// Options holds the controllers of a version 1 hierarchy.
	Options []string
}

func hierarchies() ([]hierarchy, error) {
	mounts, err := readMounts("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	var hs []hierarchy
	for _, m := range mounts {
		if !strings.HasPrefix(m.Point, "/sys/fs/cgroup") {
			continue
		}
		switch m.Type {
		case "cgroup2":
			hs = append(hs, hierarchy{Mount: m.Point, V2: true})
		case "cgroup":
			hs = append(hs, hierarchy{Mount: m.Point, Options: strings.Split(m.SuperOptions, ",")})
		}
	}
	return hs, nil
}

// makeCgroup makes path in every hierarchy, with every controller usable in it.
func makeCgroup(hs []hierarchy, path string) error {
	return withSharedParent(func() error { return makeCgroupOnce(hs, path) })
}

// withSharedParent tries again what failed because another cluster that ends
// just now took the empty folder away that both have in common.
func withSharedParent(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == 5 || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

func makeCgroupOnce(hs []hierarchy, path string) error {
	for _, h := range hs {
		at := h.Mount
		for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
			if h.V2 {
				if err := delegate(at); err != nil {
					return err
				}
			}
			parent := at
			at = filepath.Join(at, name)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup %s: %w", at, err)
			}
			if slices.Contains(h.Options, "cpuset") {
				// A new cpuset has no processors until it is given some.
				for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
					if err := inheritFile(parent, at, f); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func inheritFile(parent, child, file string) error {
	have, err := os.ReadFile(filepath.Join(child, file))
	if err == nil && strings.TrimSpace(string(have)) != "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(parent, file))
	if err == nil {
		err = os.WriteFile(filepath.Join(child, file), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("set %s of cgroup %s: %w", file, child, err)
	}
	return nil
}

// delegate lets the children of a version 2 cgroup use all its controllers.
func delegate(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the controllers of cgroup %s: %w", dir, err)
	}
	on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("read the controllers of cgroup %s: %w", dir, err)
	}
	enabled := strings.Fields(string(on))
	for _, c := range strings.Fields(string(b)) {
		if slices.Contains(enabled, c) {
			continue
		}
		// Some (cpu beside real-time processes) may refuse; the kubelet needs these.
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644)
		if err != nil && slices.Contains([]string{"cpu", "cpuset", "memory", "pids", "hugetlb"}, c) {
			return fault.Measuref(err, "run it on the machine itself: in a container, cgroups can often not be divided further",
				"controller %s cannot be enabled below cgroup %s", c, dir)
		}
	}
	return nil
}

// runningWeight is what all clusters together weigh once they run, in ordinary
// processes: enough to be a good cluster beside other work, not so much that a client on this machine starves.
const runningWeight = 4

// setShares gives the processor time of path's processes, when others want it
// too, the weight of that many ordinary processes. Version 1 weighs a group
// like one process of its parent; version 2 has no processes beside groups and
// needs nothing.
func setShares(hs []hierarchy, path string, processes int) error {
	for _, h := range hs {
		if !slices.Contains(h.Options, "cpu") {
			continue
		}
		file := filepath.Join(h.Mount, path, "cpu.shares")
		if err := os.WriteFile(file, []byte(strconv.Itoa(1024*processes)), 0o644); err != nil {
			return fmt.Errorf("weigh cgroup: %w", err)
		}
	}
	return nil
}

// joinV1 moves the calling thread, and so what it starts, into path of every
// version 1 hierarchy but that of the processors' time: a program that wakes up five groups deep waits for all
// that ran beside it in each of them. On two cores a SIGTERM came 150 to 370 ms after the delete with the
// programs at the top and 560 to 720 ms with them in groups, measured in turn on one busy machine. The Pods have
// their groups there all the same, from the kubelet. Version 2 moves whole processes: see openV2.
func joinV1(hs []hierarchy, path string) error {
	for _, h := range hs {
		if h.V2 || slices.Contains(h.Options, "cpu") {
			continue
		}
		if err := os.WriteFile(filepath.Join(h.Mount, path, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0o644); err != nil {
			return fmt.Errorf("join cgroup %s: %w", filepath.Join(h.Mount, path), err)
		}
	}
	return nil
}

// openV2 opens path in the version 2 hierarchy for a new process to start in; nil without one.
func openV2(hs []hierarchy, path string) (*os.File, error) {
	for _, h := range hs {
		if h.V2 {
			f, err := os.Open(filepath.Join(h.Mount, path))
			if err != nil {
				return nil, fmt.Errorf("open cgroup: %w", err)
			}
			return f, nil
		}
	}
	return nil, nil
}

// cgroupDirs lists the cgroups at and below path in every hierarchy, deepest first.
func cgroupDirs(hs []hierarchy, path string) []string {
	var dirs []string
	for _, h := range hs {
		root := filepath.Join(h.Mount, path)
		var tree []string
		// A cgroup may vanish during the walk; the caller looks again.
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				tree = append(tree, p)
			}
			return nil
		})
		slices.Reverse(tree)
		dirs = append(dirs, tree...)
	}
	return dirs
}

// cgroupProcs adds the processes of all those cgroups to pids.
func cgroupProcs(dirs []string, pids map[int]bool) {
	for _, d := range dirs {
		b, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids[pid] = true
			}
		}
	}
}

// removeCgroup removes path in every hierarchy, and the parent if that leaves it empty.
func removeCgroup(ctx context.Context, path string) error {
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	err = poll(ctx, 10*time.Millisecond, 10*time.Second, func() (bool, error) {
		left := false
		for _, d := range cgroupDirs(hs, path) {
			// A killed process leaves its cgroup a moment later.
			if err := unix.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				left = true
			}
		}
		return !left, nil
	})
	if err != nil {
		return fmt.Errorf("remove cgroup %s: %w", path, err)
	}
	for _, h := range hs {
		// Other clusters may be in it.
		_ = unix.Rmdir(filepath.Join(h.Mount, cgroupParent))
	}
	return nil
}
