package agent

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/drainproof/drainproof/internal/testkit"
)

// TestNetworkNamespaceInUse: a namespace is in use as long as a process lives in it, and is nobody's afterwards.
func TestNetworkNamespaceInUse(t *testing.T) {
	testkit.Require(t, testkit.Root)
	own := ownNs("net")
	if own == 0 || !inUse(procRoot, own) || !isIn(procRoot, os.Getpid(), own) || isIn(procRoot, os.Getpid(), own+1) {
		t.Fatalf("this process's own namespace (%d) is not in use", own)
	}
	c := exec.CommandContext(t.Context(), "sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	link, err := os.Stat("/proc/" + strconv.Itoa(c.Process.Pid) + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	inode := uint32(link.Sys().(*syscall.Stat_t).Ino)
	if inode == own || !inUse(procRoot, inode) {
		t.Errorf("namespace %d of a process that lives is not in use", inode)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if inUse(procRoot, inode) {
		t.Errorf("namespace %d is in use after its process has ended", inode)
	}
}
