//go:build e2e

package localcluster

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

var clusterMark = regexp.MustCompile(`dp-?([0-9a-f]{8})|/drainproof/[^/]+-([0-9a-f]{8})`)

// lookAround lists everything on the machine that clusters of those names
// could leave. Other local clusters, which may come and go meanwhile, are not looked at.
func lookAround(t *testing.T, dir string, names []string) map[string]bool {
	t.Helper()
	var ids []string
	for _, name := range names {
		if name == "" {
			name = DefaultName
		}
		ids = append(ids, clusterID(dir, name))
	}
	seen := map[string]bool{}
	add := func(kind, what string) {
		if m := clusterMark.FindStringSubmatch(what); m != nil && !slices.Contains(ids, m[1]+m[2]) {
			return
		}
		seen[kind+" "+what] = true
	}
	lookAtKernel(t, dir, ids, add)
	for _, folder := range []string{"/run", "/run/netns", "/var/lib", "/var/lib/kubelet", "/var/lib/cni", "/var/log", "/var/log/pods", "/opt", "/etc", "/etc/cni", "/usr/libexec", "/usr/libexec/kubernetes", dir} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		add("folder", folder)
		for _, e := range entries {
			if folder == "/var/lib" && strings.HasPrefix(e.Name(), "drainproof") && filepath.Join(folder, e.Name()) != dir {
				continue
			}
			if folder == "/run" && e.Name() == "netns" {
				continue // others come and go; what is in it counts
			}
			add("file", filepath.Join(folder, e.Name()))
		}
	}
	delete(seen, "folder /run/netns")
	return seen
}

func lookAtKernel(t *testing.T, dir string, ids []string, add func(kind, what string)) {
	t.Helper()
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		add("mount", m.Point)
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		add("link", l.Attrs().Name)
		routes, err := netlink.RouteList(l, netlink.FAMILY_V4)
		if err != nil {
			continue // it has just gone
		}
		for _, r := range routes {
			add("route", fmt.Sprintf("%v dev %s", r.Dst, l.Attrs().Name))
		}
	}
	for key := range kernelSettings {
		b, err := os.ReadFile("/proc/sys/" + key)
		if err != nil {
			t.Fatal(err)
		}
		add("setting", key+"="+strings.TrimSpace(string(b)))
	}
	hs, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hs {
		_ = filepath.WalkDir(h.Mount, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(path, id) }) {
				add("cgroup", path)
			}
			return nil
		})
	}
	lookAtProcesses(t, dir, ids, add)
}

// lookAtProcesses adds those that name the cluster's folder, or are in its cgroups.
func lookAtProcesses(t *testing.T, dir string, ids []string, add func(kind, what string)) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || len(line) == 0 {
			continue
		}
		groups, _ := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		mine := slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(string(groups), id) })
		if mine || strings.Contains(string(line), dir) {
			add("process", e.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}
