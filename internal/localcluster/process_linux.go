package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/osthread"
)

// pidRecord is a pid file: a number alone would mean another process once it is used again.
type pidRecord struct {
	PID int `json:"pid"`
	// Start is the process's start time in clock ticks since the machine's boot.
	Start uint64 `json:"start_ticks"`
	Boot  string `json:"boot_id"`
}

// alive says whether that very process runs. A process that has ended and that
// nobody has waited for is not alive.
func (r pidRecord) alive() bool {
	boot, err := bootID()
	if err != nil || boot != r.Boot {
		return false
	}
	start, zombie, err := procStat(r.PID)
	return err == nil && !zombie && start == r.Start
}

// procStat reads a process's start time and whether it has ended.
func procStat(pid int) (start uint64, zombie bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	// The name may hold anything, so count from its closing parenthesis.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return 0, false, fmt.Errorf("read /proc/%d/stat: unexpected format", pid)
	}
	_, err = fmt.Sscan(f[19], &start)
	return start, f[0] == "Z" || f[0] == "X", err
}

func readPID(p plan, n nodePlan, name string) (pidRecord, bool) {
	return readPIDFile(p.pidFile(n, name))
}

func readPIDFile(path string) (pidRecord, bool) {
	var r pidRecord
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &r) != nil || r.PID <= 0 {
		return r, false
	}
	return r, true
}

// deadProcesses lists the programs that should run and do not.
func deadProcesses(p plan) []process {
	var dead []process
	for _, n := range p.Nodes {
		for _, name := range n.processes() {
			if r, ok := readPID(p, n, name); !ok || !r.alive() {
				dead = append(dead, process{n.Name, name})
			}
		}
	}
	return dead
}

// start starts one program of a node, detached from the caller: in the node's
// namespaces and cgroup, a session of its own, with a log file.
func start(p plan, n nodePlan, name string) error {
	err := osthread.Run(func() error { return startOnThread(p, n, name) })
	if err != nil {
		return fmt.Errorf("start %s of node %s: %w", name, n.Name, err)
	}
	return nil
}

func startOnThread(p plan, n nodePlan, name string) error {
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	if err := joinV1(hs, p.partsCgroup(n)); err != nil {
		return err
	}
	group, err := openV2(hs, p.partsCgroup(n))
	if err != nil {
		return err
	}
	if group != nil {
		defer group.Close()
	}
	log, err := os.OpenFile(p.logFile(n, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	defer log.Close()
	program, args := command(p, n, name)
	if !strings.Contains(program, "/") {
		if program, err = lookProgram(program); err != nil {
			return err
		}
	}
	if name == procNode {
		err = enterNewNode(p, n)
	} else if holder, ok := readPID(p, n, procNode); ok && holder.alive() {
		err = enterNode(holder.PID)
	} else {
		err = fmt.Errorf("the process that holds the node's namespaces is gone")
	}
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	if name == procNode {
		cmd.Args[0] = "drainproof-node " + n.Name
	}
	cmd.Dir = "/"
	cmd.Env = append(nodeEnv(), "TMPDIR=/tmp")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	prefer(pid, name)
	// It outlives this process; reap collects it if it ends before.
	if err := cmd.Process.Release(); err != nil {
		return fmt.Errorf("let go of process %d: %w", pid, err)
	}
	ticks, _, err := procStat(pid)
	if err != nil {
		return fmt.Errorf("read the start time of process %d: %w", pid, err)
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	b, err := json.Marshal(pidRecord{PID: pid, Start: ticks, Boot: boot})
	if err != nil {
		return fmt.Errorf("encode a pid file: %w", err)
	}
	// The thread is in the node's mount namespace, where the cluster's folder is kept.
	return writeFile(p.pidFile(n, name), b, 0o644)
}

// autogroupNice is how much a program and what it starts outrank the others on a
// machine that groups processes by session (sched(7), autogroup). On real nodes
// the kubelet and the runtime do not wait for the control plane or for the
// kube-proxies of other nodes; here they share its processors with all of them. On
// two cores a SIGTERM came 133 to 261 ms after the delete without this, 51 to 82
// ms with it, measured in turn on one idle machine. Pods are not touched: each is
// a session and a group of its own.
var autogroupNice = map[string]int{procContainerd: -15, procKubelet: -10}

// prefer gives a program's session its rank. Where the kernel has no autogroups, or the
// caller's own group comes first, it changes nothing and that is no error.
func prefer(pid int, name string) {
	if nice, ok := autogroupNice[name]; ok {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(nice)), 0o644)
	}
}

// systemPath is searched after the caller's PATH, which often lacks sbin.
var systemPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

func searchPath() []string {
	return append(filepath.SplitList(os.Getenv("PATH")), systemPath...)
}

// nodeEnv is the whole environment of a node's programs: the caller's proxy
// settings and the like are not theirs.
func nodeEnv() []string {
	env := []string{"PATH=" + strings.Join(searchPath(), ":"), "HOME=/root", "LANG=C.UTF-8"}
	if runtime.GOARCH == "arm64" {
		env = append(env, "ETCD_UNSUPPORTED_ARCH=arm64") // Debian's etcd 3.4 asks for it there
	}
	return env
}

func lookProgram(name string) (string, error) {
	for _, dir := range searchPath() {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("find program %s: %w", name, exec.ErrNotFound)
}

// reap collects an ended child, if pid is one.
func reap(pid int) {
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
}

// checkAlive fails with the end of the log when a program that was started has ended.
func checkAlive(p plan, n nodePlan, name string) error {
	r, ok := readPID(p, n, name)
	if !ok || r.alive() {
		return nil
	}
	return fmt.Errorf("%s of node %s ended: %s", name, n.Name, logTail(p.logFile(n, name)))
}

// logTail gives the last lines of a log, which will be removed with the cluster.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	defer f.Close()
	const limit = 1500
	if st, err := f.Stat(); err == nil && st.Size() > limit {
		_, _ = f.Seek(-limit, io.SeekEnd)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "its log is empty"
	}
	lines := strings.Split(text, "\n")
	return "the end of its log:\n" + strings.Join(lines[max(0, len(lines)-6):], "\n")
}

// errStillThere is why a kill was not complete.
var errStillThere = errors.New("processes of the cluster do not end")

func processStatus(p plan) ([]ProcessStatus, error) {
	var all []ProcessStatus
	for _, n := range p.Nodes {
		for _, name := range n.processes() {
			s := ProcessStatus{Node: n.Name, Part: name}
			if r, ok := readPID(p, n, name); ok {
				s.PID, s.Alive = r.PID, r.alive()
			}
			all = append(all, s)
		}
	}
	return all, nil
}
