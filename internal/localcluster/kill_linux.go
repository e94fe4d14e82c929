package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// remains name what there may be of a cluster; they follow from its identity alone.
type remains struct {
	cgroup, netnsPrefix, link, dir string
}

func (p plan) remains() remains {
	return remains{cgroup: p.cgroup(), netnsPrefix: p.netnsPrefix(), link: p.hostLink(), dir: p.Dir}
}

// killAll ends every process of the cluster: those in its cgroups (whatever
// they are: programs, shims, containers), those in its network namespaces, and
// those of its pid files.
func killAll(ctx context.Context, r remains) error {
	spared := ownFamily()
	// An ending process leaves its cgroup and namespaces before it has ended.
	seen := map[pidRecord]bool{}
	boot, err := bootID()
	if err != nil {
		return err
	}
	var left []int
	err = poll(ctx, 20*time.Millisecond, 20*time.Second, func() (bool, error) {
		pids, err := clusterProcesses(r)
		if err != nil {
			return false, err
		}
		for pid := range pids {
			if ticks, _, err := procStat(pid); err == nil && !spared[pid] {
				seen[pidRecord{pid, ticks, boot}] = true
			}
		}
		left = left[:0]
		for r := range seen {
			reap(r.PID)
			if !r.alive() {
				delete(seen, r)
				continue
			}
			_ = unix.Kill(r.PID, unix.SIGKILL)
			left = append(left, r.PID)
		}
		return len(left) == 0, nil
	})
	if err != nil && len(left) > 0 {
		slices.Sort(left)
		return fmt.Errorf("%w (%v): %w", errStillThere, left, err)
	}
	return err
}

func clusterProcesses(r remains) (map[int]bool, error) {
	hs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	pids := map[int]bool{}
	cgroupProcs(cgroupDirs(hs, r.cgroup), pids)
	names, err := clusterNetns(r.netnsPrefix)
	if err != nil {
		return nil, err
	}
	var inodes []uint64
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Stat(netnsPath(name), &st); err == nil && isNamespace(netnsPath(name)) {
			inodes = append(inodes, st.Ino)
		}
	}
	if len(inodes) > 0 {
		if err := netnsProcs(inodes, pids); err != nil {
			return nil, err
		}
	}
	for _, rec := range pidFiles(r.dir) {
		if rec.alive() {
			pids[rec.PID] = true
		}
	}
	return pids, nil
}

func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}

// netnsProcs adds the processes whose network namespace is one of those.
func netnsProcs(inodes []uint64, pids map[int]bool) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+e.Name()+"/ns/net", &st) == nil && slices.Contains(inodes, st.Ino) {
			pids[pid] = true
		}
	}
	return nil
}

// pidFiles reads what Up noted about the programs that it started.
func pidFiles(dir string) []pidRecord {
	files, _ := filepath.Glob(filepath.Join(dir, "pids", "*.json"))
	var rs []pidRecord
	for _, f := range files {
		if r, ok := readPIDFile(f); ok {
			rs = append(rs, r)
		}
	}
	return rs
}

// ownFamily is this process and its ancestors: whoever asks for the clean-up
// from inside a node is not part of the cluster.
func ownFamily() map[int]bool {
	family := map[int]bool{}
	for pid := os.Getpid(); pid > 1 && !family[pid]; {
		family[pid] = true
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) < 2 {
			break
		}
		pid, _ = strconv.Atoi(f[1])
	}
	return family
}
