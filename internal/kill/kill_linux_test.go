package kill

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

var (
	one = strings.Repeat("0123456789abcdef", 4)
	two = strings.Repeat("fedcba9876543210", 4)
)

// fakeProc makes a /proc of processes.
type fakeProc struct {
	t   *testing.T
	dir string
}

// add puts a process there; nspid are its numbers from outside in.
func (f fakeProc) add(pid int, cgroup, nspid string, started int) {
	f.t.Helper()
	dir := filepath.Join(f.dir, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	// A name with a parenthesis and blanks, as any program may give itself.
	stat := fmt.Sprintf("%d (a) b (c) S 1 1 1 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 %d 1000 100\n", pid, started)
	for name, text := range map[string]string{"cgroup": cgroup, "status": "Name:\tx\nNSpid:\t" + nspid + "\nThreads:\t1\n", "stat": stat} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestInCgroup(t *testing.T) {
	tests := []struct {
		name, cgroups string
		want          bool
	}{
		{"containerd, version 2, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + one + ".scope\n", true},
		{"containerd, version 2, seen from a namespace beside it", "0::/../../kubepods-pod1.slice/cri-containerd-" + one + ".scope\n", true},
		{"containerd, version 1, cgroupfs", "5:memory:/kubepods/besteffort/pod1/" + one + "\n4:cpu,cpuacct:/kubepods/besteffort/pod1/" + one + "\n", true},
		{"CRI-O", "0::/kubepods.slice/kubepods-pod1.slice/crio-" + one + ".scope\n", true},
		{"CRI-O's guard", "0::/kubepods.slice/kubepods-pod1.slice/crio-conmon-" + one + ".scope\n", false},
		{"CRI-O, a group of the container's own", "0::/kubepods.slice/kubepods-pod1.slice/crio-" + one + ".scope/container\n", true},
		{"Docker", "0::/system.slice/docker-" + one + ".scope\n", true},
		{"Docker, version 1", "1:name=systemd:/docker/" + one + "\n", true},
		{"a systemd within", "0::/kubepods/pod1/" + one + "/init.scope\n", true},
		{"another container", "0::/kubepods/pod1/" + two + "\n", false},
		{"an id that ends so", "0::/kubepods/pod1/ff" + one + "\n", false},
		{"no container", "0::/user.slice\n", false},
		{"nothing", "", false},
	}
	for _, tt := range tests {
		if got := inCgroup([]byte(tt.cgroups), one); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestFindTakesTheFirstProcess(t *testing.T) {
	mine, other := "0::/kubepods/pod1/"+one+"\n", "0::/kubepods/pod1/"+two+"\n"
	f := fakeProc{t, t.TempDir()}
	f.add(100, other, "100\t1", 10)
	f.add(300, mine, "300\t7", 20) // an exec in it
	f.add(310, mine, "310\t1", 30)
	f.add(320, mine, "320\t8", 40)
	if err := os.Mkdir(filepath.Join(f.dir, "999"), 0o755); err != nil { // ended while it was looked at
		t.Fatal(err)
	}
	if pid, err := find(f.dir, one); err != nil || pid != 310 {
		t.Errorf("pid %d, %v; want 310, the namespace's first", pid, err)
	}
	shared := fakeProc{t, t.TempDir()}
	shared.add(500, mine, "500\t21", 50)
	shared.add(400, mine, "400\t22", 60)
	shared.add(510, mine, "510\t23", 50)
	if pid, err := find(shared.dir, one); err != nil || pid != 500 {
		t.Errorf("pid %d, %v; want 500, the oldest", pid, err)
	}
	if _, err := find(f.dir, strings.Repeat("a", 64)); fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "none of the 5 processes") {
		t.Errorf("no such container: %v", err)
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []string{one, "containerd://" + one, "cri-o://" + one, "docker://" + one} {
		if got, err := bareID(id); err != nil || got != one {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	for _, id := range []string{"", "containerd://", one[:12], strings.ToUpper(one), one + "0", "../" + one} {
		if _, err := bareID(id); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v, want wrong use", id, err)
		}
		if _, _, err := Container(id, syscall.SIGKILL); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v, want wrong use", id, err)
		}
	}
}

// A process of this machine is read as one of a container is.
func TestReadOfARealProcess(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	child, err := read(filepath.Join(proc, fmt.Sprint(cmd.Process.Pid)), cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	own, err := read(filepath.Join(proc, "self"), os.Getpid())
	if err != nil || own.started == 0 || child.started < own.started || child.inner == 0 || child.inner == own.inner {
		t.Errorf("child %+v, own %+v, %v", child, own, err)
	}
	if _, _, err := Container(one, syscall.SIGKILL); fault.CodeOf(err) != fault.Unmeasurable {
		t.Errorf("a container that is not here: %v", err)
	}
}
