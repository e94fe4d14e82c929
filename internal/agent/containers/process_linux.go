package containers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// process is one of the node's.
type process struct {
	pid int
	// dir identifies the process's folder while the kernel remembers it. startedTicks since boot identifies the process.
	dir          dirID
	startedTicks uint64
	comm         string
	key          key
	// namespaces are inodes by kind; 0 for the kernel's threads, and where they may not be seen.
	namespaces [kinds]uint32
	// firstNs is when it was first seen, sinceNs since when it has been seen with that key and these namespaces.
	firstNs, sinceNs int64
	// settled: it is not read again.
	settled bool
	// round is the last one that met it.
	round uint64
}

// dirID tells one folder of a process from another's of the same number: the kernel makes a new one, with another inode and time, for each process.
type dirID struct {
	inode      uint64
	sec, nsecs int64
}

// before orders by age. Numbers break a tie within one tick.
func (p *process) before(q *process) bool {
	return cmp.Or(cmp.Compare(p.startedTicks, q.startedTicks), cmp.Compare(p.pid, q.pid)) < 0
}

// reader reads processes, and remembers those that it knows.
type reader struct {
	proc      string
	processes map[int]*process
	// round is how many times all were read.
	round  uint64
	buffer []byte
}

// settledTicks is settledAfter in the unit of a stat's start times (USER_HZ), which is a hundredth of a second wherever the product runs.
const settledTicks = uint64(settledAfter / (10 * time.Millisecond))

func newReader(proc string) reader {
	// A process's cgroups are a line for each hierarchy, a dozen at most.
	return reader{proc: proc, processes: map[int]*process{}, buffer: make([]byte, 16<<10)}
}

func (r *reader) open() (fd int, err error) {
	fd, err = unix.Open(r.proc, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return fd, os.NewSyscallError("open "+r.proc, err)
}

// all reads every process that is new or not settled, and forgets those that are gone.
func (r *reader) all(nowNs int64) error {
	fd, err := r.open()
	if err != nil {
		return fmt.Errorf("list the node's processes: %w", err)
	}
	dir := os.NewFile(uintptr(fd), r.proc)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list the node's processes: %w", err)
	}
	r.round++
	var failed error
	failures := 0
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if _, err := r.look(fd, pid, name, nowNs); err != nil && !gone(err) {
			failures++
			failed = err
		}
	}
	var newest uint64
	for pid, p := range r.processes {
		if p.round != r.round {
			delete(r.processes, pid)
			continue
		}
		newest = max(newest, p.startedTicks)
	}
	for _, p := range r.processes {
		// Now is not before the newest one's start: whatever is so much older is old enough. At an agent's start these are nearly all.
		p.settled = p.settled || newest-p.startedTicks >= settledTicks
	}
	if failed != nil {
		return fmt.Errorf("%d processes could not be read, at last: %w", failures, failed)
	}
	return nil
}

// one reads one process.
func (r *reader) one(pid int, nowNs int64) (*process, error) {
	fd, err := r.open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return r.look(fd, pid, strconv.Itoa(pid), nowNs)
}

// gone reports whether an error says that a process has ended.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// look gives a process as it is known, or reads it.
func (r *reader) look(proc, pid int, name string, nowNs int64) (*process, error) {
	known := r.processes[pid]
	if known != nil && known.settled {
		var stat unix.Stat_t
		if err := unix.Fstatat(proc, name, &stat, 0); err != nil {
			return nil, err
		}
		if known.dir == idOf(&stat) {
			known.round = r.round
			return known, nil
		}
	}
	p, err := r.read(proc, pid, name)
	if err != nil {
		return nil, err
	}
	p.firstNs, p.sinceNs, p.round = nowNs, nowNs, r.round
	if known != nil && known.startedTicks == p.startedTicks {
		p.firstNs = known.firstNs
		if known.key == p.key && known.namespaces == p.namespaces {
			p.sinceNs = known.sinceNs
		}
	}
	p.settled = p.settled || nowNs-p.firstNs >= settledAfter.Nanoseconds()
	r.processes[pid] = p
	return p, nil
}

func idOf(stat *unix.Stat_t) dirID {
	sec, nsecs := stat.Ctim.Unix()
	return dirID{stat.Ino, sec, nsecs}
}

// read reads a process, through its folder, which stays its own: another process with its number is not mixed with it.
func (r *reader) read(proc, pid int, name string) (*process, error) {
	fd, err := unix.Openat(proc, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("look at process %d: %w", pid, err)
	}
	p := &process{pid: pid, dir: idOf(&stat)}
	text, err := r.file(fd, "stat")
	if err != nil {
		return nil, fmt.Errorf("read the stat of process %d: %w", pid, err)
	}
	kernel, err := p.parseStat(text)
	if err != nil {
		return nil, fmt.Errorf("read the stat of process %d: %w", pid, err)
	}
	if kernel {
		p.settled = true
		return p, nil
	}
	if text, err = r.file(fd, "cgroup"); err != nil {
		return nil, fmt.Errorf("read the cgroups of process %d: %w", pid, err)
	}
	p.key.pod, p.key.id = FromCgroup(text)
	p.namespaces, err = r.readNamespaces(fd)
	if p.key == node && errors.Is(err, os.ErrPermission) {
		return p, nil // the node is known by others of its processes
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespaces of process %d, of container %q: %w", pid, p.key.id, err)
	}
	return p, nil
}

// file reads a small file of the proc file system, which gives all of it to one read that has room for it. It is valid until the next call.
func (r *reader) file(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, r.buffer)
	if err != nil {
		return nil, err
	}
	return r.buffer[:n], nil
}

// isKernelThread is PF_KTHREAD of include/linux/sched.h.
const isKernelThread = 0x00200000

// parseStat takes the name and the start out of a stat (proc_pid_stat(5)), and whether it is a thread of the kernel.
func (p *process) parseStat(text []byte) (kernel bool, err error) {
	// The second field is a name in parentheses that may hold anything.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return false, errors.New("it has no name")
	}
	p.comm = string(text[open+1 : end])
	fields := bytes.Fields(text[end+1:]) // from the third on
	if len(fields) < 20 {
		return false, errors.New("it is too short")
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	if err != nil {
		return false, fmt.Errorf("its flags: %w", err)
	}
	if p.startedTicks, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return false, fmt.Errorf("its start: %w", err)
	}
	return flags&isKernelThread != 0, nil
}

// readNamespaces reads the links of a process's namespaces, like net:[4026531840].
func (r *reader) readNamespaces(dir int) (inodes [kinds]uint32, err error) {
	for kind, name := range kindNames {
		n, err := unix.Readlinkat(dir, "ns/"+name, r.buffer)
		if err != nil {
			return [kinds]uint32{}, err
		}
		_, number, _ := bytes.Cut(r.buffer[:n], []byte(":["))
		inode, err := strconv.ParseUint(string(bytes.TrimSuffix(number, []byte("]"))), 10, 32)
		if err != nil {
			return [kinds]uint32{}, fmt.Errorf("the link %s: %w", name, err)
		}
		inodes[kind] = uint32(inode)
	}
	return inodes, nil
}
