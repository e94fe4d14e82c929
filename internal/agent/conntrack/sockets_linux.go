package conntrack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sockets knows the netlink sockets of netfilter in one network namespace, and whose they are or were.
type sockets struct {
	// proc shows the node's processes; link is what their ns/net says if they are in the namespace.
	proc, link string

	// table is /proc/net/netlink of the namespace. It stays that namespace's, whichever thread reads it.
	table   *os.File
	reading sync.Mutex

	mu sync.Mutex // for all that follows
	// seen is the last holder of each port id.
	seen map[uint32]holder
	// numbered are answers by number, which take long to find.
	numbered map[uint32]numbered
}

// holder is the process that a socket was found open in; pid 0: none was found.
type holder struct {
	inode  uint64
	pid    int
	comm   string
	seenNs int64
}

// numbered is an answer by number and when it was found.
type numbered struct {
	owner Owner
	ok    bool
}

// Bounds of what is remembered, and how long an answer by number holds.
const (
	maxSeen     = 4096
	maxNumbered = 256
	numberedFor = time.Second
)

// openSockets is to be called on a thread in the namespace.
func openSockets(proc string, namespace *os.File) (*sockets, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(namespace.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("look at network namespace %s: %w", namespace.Name(), err)
	}
	table, err := os.Open("/proc/thread-self/net/netlink")
	if err != nil {
		return nil, fmt.Errorf("open the table of netlink sockets: %w", err)
	}
	return &sockets{
		proc: proc, link: fmt.Sprintf("net:[%d]", stat.Ino), table: table,
		seen: map[uint32]holder{}, numbered: map[uint32]numbered{},
	}, nil
}

func (s *sockets) close() error { return s.table.Close() }

// row is a socket in the table.
type row struct {
	portID uint32
	inode  uint64
	// drops is how many messages it lost.
	drops uint32
}

// rows reads the table's sockets of netfilter.
func (s *sockets) rows() ([]row, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	b, err := io.ReadAll(io.NewSectionReader(s.table, 0, math.MaxInt64))
	if err != nil {
		return nil, fmt.Errorf("read the table of netlink sockets: %w", err)
	}
	return parseRows(b), nil
}

// parseRows reads the lines of /proc/net/netlink (net/netlink/af_netlink.c, netlink_native_seq_show):
//
//	sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
//
// where Eth is the netlink protocol and Pid the port id.
func parseRows(b []byte) []row {
	var rows []row
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[1] != strconv.Itoa(unix.NETLINK_NETFILTER) {
			continue
		}
		portID, err1 := strconv.ParseUint(f[2], 10, 32)
		drops, err2 := strconv.ParseUint(f[8], 10, 32)
		inode, err3 := strconv.ParseUint(f[9], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			rows = append(rows, row{uint32(portID), inode, uint32(drops)})
		}
	}
	return rows
}

// drops gives how many messages the socket lost since it was opened, modulo 2^32. It waits for no search for owners.
func (s *sockets) drops(portID uint32) (uint32, bool) {
	rows, err := s.rows()
	if err != nil {
		return 0, false
	}
	for _, r := range rows {
		if r.portID == portID {
			return r.drops, true
		}
	}
	return 0, false
}

// look reads the table and finds the holders of the sockets that are new in it.
func (s *sockets) look(nowNs int64) ([]row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookLocked(nowNs)
}

func (s *sockets) lookLocked(nowNs int64) ([]row, error) {
	rows, err := s.rows()
	if err != nil {
		return nil, err
	}
	unknown := map[uint64]uint32{}
	for _, r := range rows {
		h, ok := s.seen[r.portID]
		switch {
		case r.portID == 0: // the kernel's own
		case ok && h.inode == r.inode:
			h.seenNs = nowNs
			s.seen[r.portID] = h
		default:
			unknown[r.inode] = r.portID
		}
	}
	if len(unknown) == 0 {
		return rows, nil
	}
	for inode, portID := range unknown {
		// Also where nobody is found to hold it: it is not looked for again.
		s.seen[portID] = holder{inode: inode, seenNs: nowNs}
	}
	s.eachProcess(func(pid int, dir string) bool {
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			return true // it ended
		}
		for _, fd := range fds {
			target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil {
				continue
			}
			inode, ok := socketInode(target)
			portID, wanted := unknown[inode]
			if !ok || !wanted {
				continue
			}
			s.seen[portID] = holder{inode: inode, pid: pid, comm: comm(dir), seenNs: nowNs}
			delete(unknown, inode)
		}
		return len(unknown) > 0
	})
	for len(s.seen) > maxSeen {
		s.forgetOldest()
	}
	return rows, nil
}

func (s *sockets) forgetOldest() {
	var oldest uint32
	at := int64(math.MaxInt64)
	for portID, h := range s.seen {
		if h.seenNs < at {
			oldest, at = portID, h.seenNs
		}
	}
	delete(s.seen, oldest)
}

// whose answers for Listener.Whose.
func (s *sockets) whose(portID uint32, nowNs int64) (Owner, bool) {
	if portID == 0 {
		return Owner{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := s.lookLocked(nowNs)
	h, seen := s.seen[portID]
	if err == nil {
		for _, r := range rows {
			if r.portID == portID {
				// A socket that is open and held by nobody in sight is not that of the process with its number either.
				return Owner{h.pid, h.comm, ByHeld, nowNs}, h.pid != 0
			}
		}
	}
	if seen && h.pid != 0 {
		return Owner{h.pid, h.comm, ByRemembered, h.seenNs}, true
	}
	answer, known := s.numbered[portID]
	if !known || nowNs-answer.owner.SeenNs > numberedFor.Nanoseconds() {
		answer = s.byNumber(portID, nowNs)
		if len(s.numbered) >= maxNumbered {
			clear(s.numbered)
		}
		s.numbered[portID] = answer
	}
	return answer.owner, answer.ok
}

// maxPID is the kernel's limit for numbers of processes (PID_MAX_LIMIT).
const maxPID = 4 << 20

// byNumber looks for the one process of the network namespace whose own number is the port id (netlink_autobind).
func (s *sockets) byNumber(portID uint32, nowNs int64) numbered {
	answer := numbered{owner: Owner{How: ByNumber, SeenNs: nowNs}}
	if portID > maxPID {
		return answer
	}
	found := 0
	s.eachProcess(func(pid int, dir string) bool {
		if innerPID(dir) == int(portID) {
			found++
			answer.owner.PID, answer.owner.Comm = pid, comm(dir)
		}
		return found < 2
	})
	answer.ok = found == 1
	return answer
}

// eachProcess visits the processes of the network namespace until visit says false.
func (s *sockets) eachProcess(visit func(pid int, dir string) bool) {
	proc, err := os.Open(s.proc)
	if err != nil {
		return // nobody is in sight
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		dir := filepath.Join(s.proc, name)
		if link, err := os.Readlink(filepath.Join(dir, "ns", "net")); err != nil || link != s.link {
			continue
		}
		if !visit(pid, dir) {
			return
		}
	}
}

// socketInode reads a link of /proc/PID/fd.
func socketInode(target string) (uint64, bool) {
	rest, ok := strings.CutPrefix(target, "socket:[")
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
	return inode, err == nil
}

func comm(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// innerPID gives a process's number in its own PID namespace, the last of NSpid (proc_pid_status(5)); 0 where it ended.
func innerPID(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if numbers := strings.Fields(rest); len(numbers) > 0 {
				n, err := strconv.Atoi(numbers[len(numbers)-1])
				if err == nil {
					return n
				}
			}
		}
	}
	return 0
}
