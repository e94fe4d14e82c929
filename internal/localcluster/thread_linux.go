package localcluster

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

func netnsPath(name string) string { return filepath.Join(netnsDir, name) }

// enterNetns moves the calling thread into a named network namespace.
func enterNetns(name string) error { return enter(netnsPath(name), unix.CLONE_NEWNET) }

func enter(path string, kind int) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open a namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), kind); err != nil {
		return fmt.Errorf("enter namespace %s: %w", path, err)
	}
	return nil
}

// enterNode moves the calling thread into the namespaces that pid holds.
func enterNode(pid int) error {
	// Threads share their idea of the root folder until told otherwise, and
	// the kernel lets none that shares it change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("detach the thread's folders: %w", err)
	}
	// It is the thread's own now. The caller's may hide files from Pods.
	unix.Umask(0o022)
	// All are opened first: /proc is another one afterwards.
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	kinds := []struct {
		name string
		flag int
	}{{"net", unix.CLONE_NEWNET}, {"uts", unix.CLONE_NEWUTS}, {"mnt", unix.CLONE_NEWNS}}
	for _, k := range kinds {
		path := fmt.Sprintf("/proc/%d/ns/%s", pid, k.name)
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		fds = append(fds, fd)
	}
	for i, k := range kinds {
		if err := unix.Setns(fds[i], k.flag); err != nil {
			return fmt.Errorf("enter the %s namespace of process %d: %w", k.name, pid, err)
		}
	}
	return nil
}
