package kill

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
)

const proc = "/proc"

// Container sends sig to the first process of the container with that id, and gives its process id in the namespace
// of the caller and when it was signalled (clock.MonoNs). The caller must see the node's processes and be allowed to signal them. Its errors are faults: no such
// container on this node, or no right to signal it.
func Container(id string, sig syscall.Signal) (pid int, atMonoNs int64, err error) {
	id, err = bareID(id)
	if err != nil {
		return 0, 0, err
	}
	pid, err = find(proc, id)
	if err != nil {
		return 0, 0, err
	}
	// Found again through a handle (a pidfd): what is signalled is the process that was looked at, not one that got its number since.
	p, err := os.FindProcess(pid)
	if err != nil {
		return 0, 0, fault.Measuref(err, "", "process %d of container %s", pid, id)
	}
	defer p.Release()
	if again, err := find(proc, id); err != nil || again != pid {
		return 0, 0, fault.Measuref(err, "run it again", "process %d of container %s ended just now", pid, id)
	}
	atMonoNs = clock.MonoNs()
	if err := p.Signal(sig); err != nil {
		return 0, 0, fault.Measuref(err, "this must run as root, in a privileged Pod with hostPID, on the container's node", "sending %s to process %d of container %s", sig, pid, id)
	}
	return pid, atMonoNs, nil
}

// process is one of the container's.
type process struct {
	pid int
	// inner is its number in the innermost namespace of processes that it is in.
	inner int
	// started is in clock ticks since boot.
	started uint64
}

// find gives the container's first process: the one that is number 1 in its own namespace of processes, or the
// oldest where the container shares another's (hostPID, shareProcessNamespace).
func find(proc, id string) (int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, fault.Measuref(err, "", "listing the node's processes")
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		cgroups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !inCgroup(cgroups, id) {
			continue // a process that has ended since is none of it
		}
		p, err := read(dir, pid)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH):
			continue
		case err != nil:
			return 0, fault.Measuref(err, "", "reading process %d of container %s", pid, id)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return 0, fault.Measuref(nil, "check that it still runs, and that this is its node with all of its processes in sight (hostPID)",
			"none of the %d processes in sight is of container %s", countProcesses(entries), id)
	}
	return slices.MinFunc(all, before).pid, nil
}

// before puts a namespace's first process first, and then the older one. Process ids break a tie within one clock tick.
func before(a, b process) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.started, b.started), cmp.Compare(a.pid, b.pid))
}

func rank(p process) int {
	if p.inner == 1 {
		return 0
	}
	return 1
}

func countProcesses(entries []os.DirEntry) (n int) {
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			n++
		}
	}
	return n
}

// inCgroup reports whether a line of /proc/PID/cgroup has the container's own group, or one below it, in its path. Runtimes name it
// in several ways: ID (cgroupfs), cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope (systemd). CRI-O's
// crio-conmon-ID.scope is that of the container's guard, not of the container.
func inCgroup(cgroups []byte, id string) bool {
	lines := bufio.NewScanner(bytes.NewReader(cgroups))
	for lines.Scan() {
		// hierarchy:controllers:path; in version 2 there is one line, 0::path.
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for element := range strings.SplitSeq(parts[2], "/") {
			name := strings.TrimSuffix(element, ".scope")
			before, ok := strings.CutSuffix(name, id)
			if ok && (before == "" || strings.HasSuffix(before, "-") && !strings.HasSuffix(before, "conmon-")) {
				return true
			}
		}
	}
	return false
}

// read takes what find needs from a process's status and stat.
func read(dir string, pid int) (process, error) {
	p := process{pid: pid}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(status)) {
		// NSpid: the numbers from this namespace inwards (proc_pid_status(5), Linux 4.1).
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			rest = strings.TrimSpace(rest)
			if p.inner, err = strconv.Atoi(rest[strings.LastIndexAny(rest, " \t")+1:]); err != nil {
				return p, fmt.Errorf("its NSpid: %w", err)
			}
		}
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, err
	}
	// The second field is a name in parentheses that may hold anything; starttime is the 22nd (proc_pid_stat(5)).
	_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return p, errors.New("its stat is too short")
	}
	p.started, err = strconv.ParseUint(fields[19], 10, 64)
	return p, err
}
