package conntrack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const heading = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"

// fakeNode is a /proc and a table of netlink sockets that a test makes up.
type fakeNode struct {
	t *testing.T
	*sockets
}

func newFakeNode(t *testing.T) fakeNode {
	dir := t.TempDir()
	path := filepath.Join(dir, "netlink")
	if err := os.WriteFile(path, []byte(heading), 0o600); err != nil {
		t.Fatal(err)
	}
	namespace, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSockets(filepath.Join(dir, "proc"), namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s.link, s.table = "net:[1]", namespace
	t.Cleanup(func() { _ = s.close() })
	return fakeNode{t, s}
}

// process puts one there: its number, its own number, its network namespace, and the sockets that it holds.
func (n fakeNode) process(pid, inner, netns int, inodes ...int) {
	n.t.Helper()
	dir := filepath.Join(n.proc, fmt.Sprint(pid))
	link := func(target string, path ...string) error {
		return os.Symlink(target, filepath.Join(append([]string{dir}, path...)...))
	}
	errs := []error{
		os.MkdirAll(filepath.Join(dir, "ns"), 0o700), os.MkdirAll(filepath.Join(dir, "fd"), 0o700),
		link(fmt.Sprintf("net:[%d]", netns), "ns", "net"), link("/dev/null", "fd", "0"), link("pipe:[7]", "fd", "1"),
		os.WriteFile(filepath.Join(dir, "comm"), fmt.Appendf(nil, "p%d\n", pid), 0o600),
		os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\tx\nNSpid:\t%d\t%d\nThreads:\t1\n", pid, inner), 0o600),
	}
	for i, inode := range inodes {
		errs = append(errs, link(fmt.Sprintf("socket:[%d]", inode), "fd", fmt.Sprint(i+2)))
	}
	for _, err := range errs {
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// open says which sockets of netfilter there are: port id, inode.
func (n fakeNode) open(sockets ...[2]int) {
	n.t.Helper()
	text := heading + "0000000000000000 0   77         00000000 0        0        0     2        0        4\n"
	for _, s := range sockets {
		text += fmt.Sprintf("0000000000000000 12  %-10d 00000005 0        0        0     2        3        %d\n", s[0], s[1])
	}
	if err := os.WriteFile(n.table.Name(), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func TestWhose(t *testing.T) {
	n := newFakeNode(t)
	n.process(100, 1, 1, 5000)
	n.process(200, 1, 1, 5001, 5002)
	n.process(300, 7, 1)
	n.process(400, 8, 2, 5003)
	n.open([2]int{11, 5001}, [2]int{12, 5002}, [2]int{13, 5003}, [2]int{8, 5004})
	check := func(when string, portID uint32, atNs int64, want Owner) {
		t.Helper()
		if got, ok := n.whose(portID, atNs); ok != (want.PID != 0) || ok && got != want {
			t.Errorf("%s, port id %d: %+v, %v; want %+v", when, portID, got, ok, want)
		}
	}
	check("open", 11, 1, Owner{200, "p200", ByHeld, 1})
	check("open", 12, 2, Owner{200, "p200", ByHeld, 2})
	check("open, of a process elsewhere", 13, 2, Owner{})
	check("open, of nobody, whatever its number", 8, 2, Owner{})
	check("never seen, one process's own number", 7, 2, Owner{300, "p300", ByNumber, 2})
	check("never seen, two processes' own number", 1, 2, Owner{})
	check("never seen, nobody's number", 99, 2, Owner{})

	n.open([2]int{12, 5000}) // a new socket with that number
	check("closed", 11, 3, Owner{200, "p200", ByRemembered, 2})
	check("another's now", 12, 3, Owner{100, "p100", ByHeld, 3})
	if err := os.RemoveAll(filepath.Join(n.proc, "300")); err != nil {
		t.Fatal(err)
	}
	check("soon after", 7, 2+numberedFor.Nanoseconds(), Owner{300, "p300", ByNumber, 2})
	check("later", 7, 3+numberedFor.Nanoseconds(), Owner{})
}

func TestRememberIsBounded(t *testing.T) {
	n := newFakeNode(t)
	var open [][2]int
	for i := range maxSeen + 10 {
		open = append(open, [2]int{i + 1, 10_000 + i})
	}
	for at, half := range [][][2]int{open[:20], open[20:]} {
		n.open(half...)
		if _, err := n.look(int64(at + 1)); err != nil {
			t.Fatal(err)
		}
	}
	old := slices.Collect(func(yield func(uint32) bool) {
		for portID, h := range n.seen {
			if h.seenNs == 1 && !yield(portID) {
				return
			}
		}
	})
	if len(n.seen) != maxSeen || len(old) != 10 {
		t.Errorf("%d remembered, %d of the first look; want %d and 10", len(n.seen), len(old), maxSeen)
	}
	n.open()
	for i := range uint32(2 * maxNumbered) {
		n.whose(1<<20+i, int64(time.Second))
	}
	if len(n.numbered) > maxNumbered {
		t.Errorf("%d answers by number are kept", len(n.numbered))
	}
}

func TestParseRows(t *testing.T) {
	text := heading +
		"000000003a64a50b 0   0          00000000 0        0        0     2        0        4       \n" +
		"00000000a09b222a 12  4294963200 00000007 212992   0        0     2        17       1437    \n" +
		"00000000a09b222a 12  1          00000000 0        0        0     2        0        99      \n" +
		"00000000a09b222a 12  x          00000000 0        0        0     2        0        99      \n" +
		"12 12 12\n"
	want := []row{{4294963200, 1437, 17}, {1, 99, 0}}
	if got := parseRows([]byte(text)); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
