package localcluster

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/osthread"
	"github.com/drainproof/drainproof/internal/testkit"
)

// The pause program is run: it must neither end nor use the processor.
func TestPauseRuns(t *testing.T) {
	b, err := pauseELF(runtime.GOARCH)
	if err != nil {
		t.Fatal(err) // every platform that the product is built for has one
	}
	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asleep := func() bool {
		state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "stat"))
		return err == nil && bytes.Contains(state, []byte(") S "))
	}
	if err := poll(t.Context(), time.Millisecond, 5*time.Second, func() (bool, error) { return asleep(), nil }); err != nil {
		t.Errorf("it does not sleep: %v", err)
	}
	// A signal that does not end it only wakes it: it sleeps again.
	for _, s := range []os.Signal{syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGCONT} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := poll(t.Context(), time.Millisecond, 5*time.Second, func() (bool, error) { return asleep(), nil }); err != nil {
		t.Errorf("it does not go on sleeping: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exit, _ := errors.AsType[*exec.ExitError](cmd.Wait())
	if exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", exit)
	}
}

func TestPauseELFs(t *testing.T) {
	for arch, want := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		b, err := pauseELF(arch)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != want || f.Type != elf.ET_EXEC || f.Progs[0].Flags != elf.PF_R|elf.PF_X {
			t.Errorf("%s: %+v", arch, f.FileHeader)
		}
		if code := b[f.Entry-f.Progs[0].Vaddr:]; !bytes.Equal(code, pauseCode[arch].code) {
			t.Errorf("%s begins with % x", arch, code)
		}
	}
	if _, err := pauseELF("mips"); err == nil {
		t.Error("mips has a pause program")
	}
}

func TestPauseArchive(t *testing.T) {
	var b bytes.Buffer
	if err := writePauseArchive(&b, "arm64"); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Architecture != "arm64" || !slices.Equal(config.Config.Entrypoint, []string{"/pause"}) {
		t.Errorf("the image says %+v, %v", config, err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("the image has layers %v, %v", layers, err)
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("21 26 0:20 / /proc rw - proc proc rw\n" +
		"30 26 0:25 /a /var/with\\040blank rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n" +
		"31 26 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"garbage\n")
	want := []mount{{"/proc", "proc", "rw"}, {"/var/with blank", "ext4", "rw"}, {"/sys/fs/cgroup/cpu", "cgroup", "rw,cpu,cpuacct"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestUnder(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{{"/run", "/run", true}, {"/run/a", "/run", true}, {"/runner", "/run", false}, {"/", "/run", false}, {"/a", "/", true}} {
		if got := under(c.path, c.dir); got != c.want {
			t.Errorf("under(%q, %q) is %v", c.path, c.dir, got)
		}
	}
}

func TestKeptFolders(t *testing.T) {
	p := testPlan(1)
	p.PartsDir = "/root/.cache/parts"
	if got := keptFolders(p, []string{"/run", "/var/lib"}); !slices.Equal(got, []string{p.Dir}) {
		t.Errorf("kept %v", got)
	}
	p.PartsDir = p.Dir + "/parts"
	if got := keptFolders(p, []string{"/run", "/var/lib"}); !slices.Equal(got, []string{p.Dir}) {
		t.Errorf("kept %v", got)
	}
}

func TestCgroupsInheritProcessors(t *testing.T) {
	root := t.TempDir()
	for file, content := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hs := []hierarchy{{Mount: root, Options: []string{"rw", "cpuset", "cpu"}}}
	for range 2 {
		if err := makeCgroup(hs, "/drainproof/a/b"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(root, "drainproof/a/b/cpuset.cpus"))
	if err != nil || string(b) != "0-1\n" {
		t.Errorf("it has %q, %v", b, err)
	}
	if err := setShares(hs, "/drainproof/a", 3); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "drainproof/a/cpu.shares")); err != nil || string(b) != "3072" {
		t.Errorf("it weighs %q, %v", b, err)
	}
}

// A version 2 cgroup enables what is missing, and fails only where a kubelet would.
func TestDelegate(t *testing.T) {
	dir := t.TempDir()
	write := func(file, content string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("cgroup.controllers", "cpu memory pids\n")
	write("cgroup.subtree_control", "cpu memory\n")
	if err := delegate(dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")); err != nil || string(b) != "+pids" {
		t.Errorf("wrote %q, %v", b, err)
	}
	if err := delegate(filepath.Join(dir, "missing")); err == nil {
		t.Error("a cgroup that is not there can be delegated")
	}
}

func TestPidRecordsKnowTheirProcess(t *testing.T) {
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	start, _, err := procStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	me := pidRecord{os.Getpid(), start, boot}
	if !me.alive() {
		t.Error("this process is not alive")
	}
	for name, other := range map[string]pidRecord{
		"another start": {me.PID, start + 1, boot},
		"another boot":  {me.PID, start, "then"},
		"no process":    {1 << 22, start, boot},
	} {
		if other.alive() {
			t.Errorf("%s is alive", name)
		}
	}
	if !ownFamily()[os.Getppid()] {
		t.Error("the parent is not family")
	}
}

func TestZombieIsDead(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	err := poll(t.Context(), time.Millisecond, 5*time.Second, func() (bool, error) {
		_, zombie, err := procStat(pid)
		return zombie, err
	})
	if err != nil {
		t.Fatal(err)
	}
	reap(pid)
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err == nil {
		t.Error("it was not reaped")
	}
	_ = cmd.Wait()
}

// Many lock, none is ever inside with another, and no file is left.
func TestLock(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "state", "clusters", "blue.lock")
	var inside, worst int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := lock(t.Context(), path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inside++
			worst = max(worst, inside)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			inside--
			mu.Unlock()
			unlock()
		})
	}
	wg.Wait()
	if worst != 1 {
		t.Errorf("%d held the lock at once", worst)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "clusters", "blue.lock")
	unlock, err := lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Every step of Up that makes something has its undo, and the first thing made
// is the state that announces the rest.
func TestStepsOfUp(t *testing.T) {
	b := &builder{plan: testPlan(1)}
	var undone []string
	for _, s := range b.steps() {
		if s.Name == "" || s.Do == nil {
			t.Errorf("step %+v does nothing", s)
		}
		if s.Undo != nil {
			undone = append(undone, s.Name)
		}
	}
	want := []string{"taking the addresses 198.18.32.0/20", "making cgroups", "making the network", "making the nodes"}
	if !slices.Equal(undone, want) {
		t.Errorf("undone are %v", undone)
	}
}

func TestThreadsKeepTheirNamespaces(t *testing.T) {
	testkit.Require(t, testkit.Root)
	inode := func() uint64 {
		var st unix.Stat_t
		if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
			t.Error(err)
		}
		return st.Ino
	}
	before := inode()
	var within uint64
	err := osthread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		within = inode()
		return nil
	})
	if err != nil || within == before {
		t.Fatalf("no new namespace: %v", err)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if err := osthread.Run(func() error { return unix.Unshare(unix.CLONE_NEWNET) }); err != nil {
				t.Error(err)
			}
			if inode() != before {
				t.Error("another goroutine runs in the namespace")
			}
		})
	}
	wg.Wait()
	// The first thread stands for the process in the eyes of others.
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil || st.Ino != before {
		t.Errorf("the process is in another namespace: %v", err)
	}
}
