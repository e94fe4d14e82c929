package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// A node has these folders to itself; everything else is the machine's.
const (
	nodeRun = "/run"
	nodeLib = "/var/lib"
	nodeLog = "/var/log"
)

// kernelSettings are those that a kubelet insists on. They belong to the whole
// machine, so a node sees files with these values in their place and writes nothing.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// prepareNode makes the folders that will be the node's /var/lib and /var/log.
func prepareNode(n nodePlan) error {
	for _, d := range []string{"lib", "log"} {
		if err := os.MkdirAll(filepath.Join(n.Dir, d), 0o755); err != nil {
			return fmt.Errorf("make a folder of node %s: %w", n.Name, err)
		}
	}
	return nil
}

// enterNewNode gives the calling thread the namespaces of a node that has no
// process yet: its network, and a mount and a host-name namespace of its own.
// The mounts end with the node's last process.
func enterNewNode(p plan, n nodePlan) error {
	if err := enterNetns(n.Netns); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make the namespaces of node %s: %w", n.Name, err)
	}
	unix.Umask(0o022)
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("name node %s: %w", n.Name, err)
	}
	// What the machine unmounts goes away here too; nothing goes the other way.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the mounts of node %s: %w", n.Name, err)
	}
	if err := hideFolders(p, n); err != nil {
		return fmt.Errorf("mount the folders of node %s: %w", n.Name, err)
	}
	if err := fakeSettings(); err != nil {
		return fmt.Errorf("protect the machine's settings from node %s: %w", n.Name, err)
	}
	// Kubernetes wants mounts that its containers' mounts can follow.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts of node %s: %w", n.Name, err)
	}
	return nil
}

// hideFolders puts the node's own folders over the machine's, and then back
// what the node's programs need from there.
func hideFolders(p plan, n nodePlan) error {
	hidden := []string{nodeRun, nodeLib, nodeLog}
	resolv, _ := filepath.EvalSymlinks("/etc/resolv.conf")
	kept, err := cloneKept(keptFolders(p, hidden))
	defer func() {
		for _, k := range kept {
			unix.Close(k.fd)
		}
	}()
	if err != nil {
		return err
	}
	binds := map[string]string{nodeLib: filepath.Join(n.Dir, "lib"), nodeLog: filepath.Join(n.Dir, "log")}
	sources := map[string]int{}
	for at, from := range binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("copy mount %s: %w", from, err)
		}
		defer unix.Close(fd)
		sources[at] = fd
	}
	// Other clusters' namespaces among them would live as long as this node.
	if err := detachBelow(hidden...); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", nodeRun, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", nodeRun, err)
	}
	for at, fd := range sources {
		if err := moveMount(fd, at); err != nil {
			return err
		}
	}
	for _, k := range kept {
		if err := os.MkdirAll(k.path, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", k.path, err)
		}
		if err := moveMount(k.fd, k.path); err != nil {
			return err
		}
	}
	for _, d := range []string{"/run/netns", "/run/lock"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	// containerd copies this file, which may be a link into /run.
	if under(resolv, nodeRun) {
		if err := os.MkdirAll(filepath.Dir(resolv), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", resolv, err)
		}
		return writeFile(resolv, nil, 0o644)
	}
	return nil
}

// keptFolders lists what the node's programs read from folders that the node hides.
func keptFolders(p plan, hidden []string) []string {
	want := []string{p.Dir, p.PartsDir}
	for _, name := range []string{procKubelet, procProxy, procEtcd, procAPIServer, procControllerManager, procScheduler} {
		if real, err := filepath.EvalSymlinks(filepath.Join(p.PartsDir, name)); err == nil {
			want = append(want, filepath.Dir(real))
		}
	}
	if real, err := filepath.EvalSymlinks(p.PartsDir); err == nil {
		want = append(want, real)
	}
	var keep []string
	slices.Sort(want)
	for _, w := range slices.Compact(want) {
		isHidden := slices.ContainsFunc(hidden, func(h string) bool { return under(w, h) })
		covered := slices.ContainsFunc(keep, func(k string) bool { return under(w, k) })
		if isHidden && !covered {
			keep = append(keep, w)
		}
	}
	return keep
}

type keptMount struct {
	path string
	fd   int
}

func cloneKept(paths []string) ([]keptMount, error) {
	var kept []keptMount
	for _, path := range paths {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return kept, fmt.Errorf("copy mount %s: %w", path, err)
		}
		kept = append(kept, keptMount{path, fd})
	}
	return kept, nil
}

func moveMount(fd int, to string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}

func fakeSettings() error {
	const dir = "/run/drainproof/settings"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	for key, value := range kernelSettings {
		file := filepath.Join(dir, filepath.Base(key))
		if err := writeFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		target := "/proc/sys/" + key
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cover %s: %w", target, err)
		}
	}
	return nil
}

// snapshotterFor gives the way of containerd to stack layers that works in dir.
func snapshotterFor(dir string) string {
	var st unix.Statfs_t
	// An overlay cannot be stacked on an overlay (a container's own disk).
	if err := unix.Statfs(dir, &st); err == nil && st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}

// writePause leaves the pause program and its image in the cluster's folder.
func writePause(p plan) error {
	elf, err := pauseELF(runtime.GOARCH)
	if err != nil {
		return err
	}
	if err := writeFile(p.pauseProgram(), elf, 0o755); err != nil {
		return err
	}
	f, err := os.Create(p.pauseArchive())
	if err != nil {
		return fmt.Errorf("write the pause image: %w", err)
	}
	return errors.Join(writePauseArchive(f, runtime.GOARCH), f.Close())
}
