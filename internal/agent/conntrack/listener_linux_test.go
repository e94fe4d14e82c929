package conntrack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/osthread"
	"github.com/drainproof/drainproof/internal/testkit"
)

// patience bounds every wait of these tests: what is waited for takes milliseconds.
const patience = 30 * time.Second

// place is a network namespace of a test's own, which ends with it.
type place struct {
	t    *testing.T
	file *os.File
}

// newPlace makes one in which connections to port 8080 of the loopback addresses are served by port 9090, and which tracks connections.
func newPlace(t *testing.T) place {
	t.Helper()
	testkit.Require(t, testkit.Root, testkit.Program("nft"))
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	p := place{t: t}
	err = osthread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		p.file, err = os.Open(ownNamespace)
		return err
	})
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make a network namespace: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.file.Close() })
	p.do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		cmd := exec.CommandContext(t.Context(), nft, "-f", "-")
		cmd.Stdin = strings.NewReader(`
table inet t {
	chain out {
		type nat hook output priority -100
		meta nfproto ipv4 meta l4proto { tcp, udp } th dport 8080 dnat ip to 127.0.0.1:9090
		meta nfproto ipv6 meta l4proto { tcp, udp } th dport 8080 dnat ip6 to [::1]:9090
	}
}`)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	return p
}

func (p place) path() string { return fmt.Sprintf("/proc/self/fd/%d", p.file.Fd()) }

func (p place) do(f func() error) {
	p.t.Helper()
	if err := within(p.file, f); err != nil {
		p.t.Fatal(err)
	}
}

// sysctl sets one of netfilter's, of this namespace.
func (p place) sysctl(name, value string) {
	p.t.Helper()
	p.do(func() error { return os.WriteFile("/proc/sys/net/netfilter/"+name, []byte(value), 0) })
}

func (p place) open(o Options) *Listener {
	p.t.Helper()
	o.NetNS = p.path()
	l, err := Open(o)
	if unseen, ok := errors.AsType[*Unseen](err); ok {
		p.t.Skip("this kernel does not tell: ", unseen)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			p.t.Error(err)
		}
	})
	return l
}

// listen serves a port until the test ends, without a word.
func (p place) listen(network, addr string) {
	p.t.Helper()
	p.do(func() error {
		switch network {
		case "udp":
			c, err := net.ListenPacket(network, addr)
			if err == nil {
				p.t.Cleanup(func() { _ = c.Close() })
			}
			return err
		default:
			l, err := net.Listen(network, addr)
			if err == nil {
				p.t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}
	})
}

// connect begins a connection, and gives its client's end.
func (p place) connect(network, addr string) netip.AddrPort {
	p.t.Helper()
	var client netip.AddrPort
	p.do(func() error {
		c, err := net.DialTimeout(network, addr, patience)
		if err != nil {
			return err
		}
		p.t.Cleanup(func() { _ = c.Close() })
		client = netip.MustParseAddrPort(c.LocalAddr().String())
		if network == "udp" {
			_, err = c.Write([]byte("hello"))
		}
		return err
	})
	return client
}

// erase deletes an entry as a program does, and gives the port id of the socket that asked for it, which stays open.
func (p place) erase(protocol uint8, original [2]netip.AddrPort) uint32 {
	p.t.Helper()
	s, err := openSocketIn(p.file)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = s.close() })
	m := encode(msgDelete, flagRequest|flagAck, 0, tuple(attrOriginal, protocol, original))
	m[headerLen] = unix.AF_INET
	if original[0].Addr().Is6() {
		m[headerLen] = unix.AF_INET6
	}
	if err := s.ask(p.t.Context(), m, func(header, []byte) error { return nil }); err != nil {
		p.t.Fatal("delete an entry: ", err)
	}
	return s.portID
}

// reading reads a listener in the background until the test ends.
func reading(t *testing.T, l *Listener) <-chan Event {
	ctx, cancel := context.WithCancel(context.Background())
	events, ended := make(chan Event, 1000), make(chan error, 1)
	go func() { ended <- l.Read(ctx, func(e *Event) { events <- *e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return events
}

func next(t *testing.T, events <-chan Event) Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		t.Fatal("no event came")
		return Event{}
	}
}

func TestEventsTellBothDirectionsAndWhoAsked(t *testing.T) {
	p := newPlace(t)
	for _, network := range []string{"udp", "tcp"} {
		for _, host := range []string{"127.0.0.1", "[::1]"} {
			p.listen(network, host+":9090")
			p.listen(network, host+":7070")
		}
	}
	l := p.open(Options{Filter: Filter{Ports: []uint16{8080}}})
	events := reading(t, l)
	for _, tt := range []struct {
		network, host string
		protocol      uint8
	}{{"udp", "127.0.0.1", 17}, {"udp", "[::1]", 17}, {"tcp", "127.0.0.1", 6}, {"tcp", "[::1]", 6}} {
		t.Run(tt.network+" "+tt.host, func(t *testing.T) {
			before := clock.MonoNs()
			p.connect(tt.network, tt.host+":7070") // not under test: the next event is not of it
			client := p.connect(tt.network, tt.host+":8080")
			asked, served := netip.MustParseAddrPort(tt.host+":8080"), netip.MustParseAddrPort(tt.host+":9090")
			got := next(t, events)
			if got.Kind != New || got.PortID != 0 || got.MonoNs < before || got.MonoNs > clock.MonoNs() ||
				got.Entry.Protocol != tt.protocol || got.Entry.ID == 0 || got.Entry.TimeoutS == 0 ||
				got.Entry.Original != [2]netip.AddrPort{client, asked} || got.Entry.Reply != [2]netip.AddrPort{served, client} {
				t.Errorf("the first event is %+v; want a NEW of %v that asked %v and got %v", got, client, asked, served)
			}
			if tt.protocol == 6 && got.Entry.TCPState == 0 {
				t.Errorf("%+v has no state of TCP", got.Entry)
			}

			entries, err := l.Dump(t.Context())
			if err != nil || len(entries) != 1 || entries[0].Original != got.Entry.Original || entries[0].Reply != got.Entry.Reply || entries[0].ID != got.Entry.ID {
				t.Errorf("dumped %+v, %v; want the one of the event", entries, err)
			}

			asker := p.erase(tt.protocol, got.Entry.Original)
			gone := next(t, events)
			if gone.Kind != Destroy || gone.PortID != asker || gone.Entry.ID != got.Entry.ID || gone.Entry.Original != got.Entry.Original || gone.Entry.Reply != got.Entry.Reply {
				t.Errorf("then %+v; want its DESTROY for %d", gone, asker)
			}
		})
	}
	if gaps := l.Gaps(); len(gaps) != 0 {
		t.Errorf("gaps %+v", gaps)
	}
}

// A TCP connection that lives and ends makes UPDATEs: UDP's alone are told where only they are wanted.
func TestUpdatesAreToldOfWantedProtocols(t *testing.T) {
	p := newPlace(t)
	p.listen("tcp", "127.0.0.1:9090")
	var echo net.PacketConn
	p.do(func() (err error) {
		echo, err = net.ListenPacket("udp", "127.0.0.1:9090")
		return err
	})
	t.Cleanup(func() { _ = echo.Close() })
	l := p.open(Options{Filter: Filter{Protocols: []uint8{6, 17}, Ports: []uint16{9090}}, Updates: []uint8{17}})
	events := reading(t, l)
	p.connect("tcp", "127.0.0.1:8080")
	client := p.connect("udp", "127.0.0.1:8080")
	buffer := make([]byte, 100)
	_, from, err := echo.ReadFrom(buffer)
	if err == nil {
		_, err = echo.WriteTo(buffer[:1], from)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		protocol uint8
		kind     Kind
	}{{6, New}, {17, New}, {17, Update}} {
		if got := next(t, events); got.Entry.Protocol != want.protocol || got.Kind != want.kind {
			t.Errorf("event %d is %+v; want %+v", i, got, want)
		} else if got.Kind == Update && (got.Entry.Original[0] != client || got.Entry.Status&statusSeenReply == 0) {
			t.Errorf("the UPDATE is %+v; want one of %v with a reply seen", got, client)
		}
	}
}

// statusSeenReply is IPS_SEEN_REPLY of include/uapi/linux/netfilter/nf_conntrack_common.h.
const statusSeenReply = 2

func TestTimeoutHasNoAsker(t *testing.T) {
	p := newPlace(t)
	p.sysctl("nf_conntrack_udp_timeout", "1")
	l := p.open(Options{Filter: Filter{Protocols: []uint8{17}}})
	events := reading(t, l)
	p.connect("udp", "127.0.0.1:8080")
	if e := next(t, events); e.Kind != New {
		t.Fatalf("first %+v", e)
	}
	// The kernel finds it out of time when somebody looks through the table.
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := l.Dump(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-events:
			if e.Kind != Destroy || e.PortID != 0 || e.Entry.TimeoutS != 0 {
				t.Errorf("%+v; want a DESTROY that nobody asked for", e)
			}
			return
		default:
		}
	}
	t.Error("the entry stays")
}

func TestOverrunIsAGap(t *testing.T) {
	p := newPlace(t)
	l := p.open(Options{Filter: Filter{Protocols: []uint8{17}, Ports: []uint16{8080}}, BufferBytes: 1})
	opened := clock.MonoNs()
	const sent = 50
	for range sent {
		p.connect("udp", "127.0.0.1:8080")
	}
	full := clock.MonoNs()
	if gaps := l.Gaps(); len(gaps) != 0 {
		t.Errorf("nothing was read, and still gaps: %+v", gaps)
	}
	events := reading(t, l)
	told := uint64(1)
	next(t, events)
	var gaps []Gap
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if gaps = l.Gaps(); len(gaps) == 1 && gaps[0].ToNs != 0 {
			break
		}
	}
	for range len(events) {
		<-events
		told++
	}
	if len(gaps) != 1 || gaps[0].Why != GapOverrun || gaps[0].Lost == 0 || gaps[0].Lost+told != sent || gaps[0].FromNs > opened || gaps[0].ToNs < full {
		t.Errorf("gaps %+v with %d events of %d, sent from %d to %d", gaps, told, sent, opened, full)
	}
	// And it goes on.
	client := p.connect("udp", "127.0.0.1:8080")
	if e := next(t, events); e.Entry.Original[0] != client {
		t.Errorf("after the gap %+v; want one of %v", e, client)
	}
}

func TestFilterIsReplaced(t *testing.T) {
	p := newPlace(t)
	l := p.open(Options{Filter: Filter{Ports: []uint16{8080}}})
	p.connect("udp", "127.0.0.1:8080") // waits in the socket, and is not wanted when it is read
	if err := l.SetFilter(Filter{Ports: []uint16{7070}, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}); err != nil {
		t.Fatal(err)
	}
	events := reading(t, l)
	p.connect("udp", "127.0.0.1:7070")
	client := p.connect("udp", "127.0.0.2:7070")
	if e := next(t, events); e.Entry.Original[0] != client || e.Entry.Original[1] != netip.MustParseAddrPort("127.0.0.2:7070") {
		t.Errorf("the first event is %+v; want one of %v", e, client)
	}
}

func TestEntriesFromBefore(t *testing.T) {
	for _, tt := range []struct {
		mode string
		told bool
	}{{eventsAlways, true}, {eventsForListen, false}} {
		t.Run("nf_conntrack_events="+tt.mode, func(t *testing.T) {
			p := newPlace(t)
			p.sysctl("nf_conntrack_events", tt.mode)
			old := p.connect("udp", "127.0.0.1:8080")
			l := p.open(Options{Filter: Filter{Protocols: []uint8{17}}})
			if l.TellsOld() != tt.told {
				t.Errorf("TellsOld says %v", l.TellsOld())
			}
			entries, err := l.Dump(t.Context())
			if err != nil || len(entries) != 1 || entries[0].Original[0] != old {
				t.Fatalf("dumped %+v, %v; want the one of %v", entries, err, old)
			}
			events := reading(t, l)
			p.erase(17, entries[0].Original)
			young := p.connect("udp", "127.0.0.1:8080")
			first := next(t, events)
			// Where it is not sure, it is told all the same if anybody listened in any namespace of this machine when the entry was made.
			if told := first.Kind == Destroy && first.Entry.Original[0] == old; tt.told && !told || !told && first.Entry.Original[0] != young {
				t.Errorf("the first event is %+v", first)
			}
			if entries, err := l.Dump(t.Context()); err != nil || len(entries) != 1 || entries[0].Original[0] != young {
				t.Errorf("dumped %+v, %v; want the one of %v", entries, err, young)
			}
		})
	}
}

func TestUnseenWhereEventsAreOff(t *testing.T) {
	p := newPlace(t)
	p.sysctl("nf_conntrack_events", eventsOff)
	_, err := Open(Options{NetNS: p.path()})
	if unseen, ok := errors.AsType[*Unseen](err); !ok || !strings.Contains(unseen.Why, "nf_conntrack_events is 0") {
		t.Errorf("Open: %v", err)
	}
	if _, err := Open(Options{NetNS: "/proc/self/fd/none"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no namespace: %v", err)
	}
}

func TestWhoseAndRemember(t *testing.T) {
	p := newPlace(t)
	l := p.open(Options{})
	s, err := openSocketIn(p.file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	// This process holds it, but is not in that namespace with its first thread: nobody is found, also not later.
	if o, ok := l.Whose(s.portID); ok {
		t.Errorf("%+v", o)
	}

	// A process that is in it, with a socket that it was given.
	if s, err = openSocketIn(p.file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.ExtraFiles = []*os.File{s.file}
	p.do(cmd.Start)
	pid := cmd.Process.Pid
	if err := errors.Join(s.close(), l.Remember()); err != nil {
		t.Fatal(err)
	}
	// Until it is sleep it is still a copy of this program, whose name it has: that is remembered.
	if o, ok := l.Whose(s.portID); !ok || o.PID != pid || o.How != ByHeld || o.Comm == "" {
		t.Errorf("an open socket: %+v, %v; want %d", o, ok, pid)
	}
	if o, ok := l.Whose(uint32(pid)); !ok || o.PID != pid || o.How != ByNumber {
		t.Errorf("its number: %+v, %v; want %d", o, ok, pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if o, ok := l.Whose(s.portID); !ok || o.PID != pid || o.How != ByRemembered {
		t.Errorf("a closed socket: %+v, %v; want %d", o, ok, pid)
	}
	for _, none := range []uint32{0, maxPID, 1<<31 | 5} {
		if o, ok := l.Whose(none); ok {
			t.Errorf("port id %d: %+v", none, o)
		}
	}
}

func TestReadEnds(t *testing.T) {
	p := newPlace(t)
	l := p.open(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // once more: the first end leaves no mark
		if err := l.Read(ctx, func(*Event) {}); err != nil {
			t.Errorf("an ended context: %v", err)
		}
	}
	if _, err := l.Dump(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a dump of an ended context: %v", err)
	}
	if _, err := l.Dump(t.Context()); err != nil {
		t.Errorf("the dump after it: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Read(t.Context(), func(*Event) {}) }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed under Read: %v", err)
	}
}

// What waits in the socket is read when it is asked for, also more than one call takes.
func TestCatchUp(t *testing.T) {
	p := newPlace(t)
	l := p.open(Options{Filter: Filter{Protocols: []uint8{17}, Ports: []uint16{8080}}, Nap: time.Hour})
	if err := l.CatchUp(); err != nil {
		t.Errorf("while nobody reads: %v", err)
	}
	events := reading(t, l)
	var clients []netip.AddrPort
	for range 3*batchDatagrams + 1 {
		clients = append(clients, p.connect("udp", "127.0.0.1:8080"))
	}
	for end := time.Now().Add(patience); len(events) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) { // until Read has begun
		if err := l.CatchUp(); err != nil {
			t.Fatal(err)
		}
	}
	if len(events) != len(clients) {
		t.Fatalf("%d events of %d", len(events), len(clients))
	}
	for i, client := range clients {
		if e := next(t, events); e.Entry.Original[0] != client {
			t.Errorf("event %d is of %v, not %v", i, e.Entry.Original[0], client)
		}
	}
}

func TestNoDestroys(t *testing.T) {
	p := newPlace(t)
	l := p.open(Options{Filter: Filter{Protocols: []uint8{17}}, NoDestroys: true})
	events := reading(t, l)
	p.connect("udp", "127.0.0.1:8080")
	first := next(t, events)
	p.erase(17, first.Entry.Original)
	client := p.connect("udp", "127.0.0.1:8080")
	if e := next(t, events); first.Kind != New || e.Kind != New || e.Entry.Original[0] != client {
		t.Errorf("told were %+v and, after its deletion, %+v; want the next entry of %v", first, e, client)
	}
}

// A socket with a filter that another attached keeps it, and what comes through is held to the listener's own.
func TestTaken(t *testing.T) {
	p := newPlace(t)
	refused := errors.New("refused")
	if _, err := Open(Options{NetNS: p.path(), Take: func(int) (bool, error) { return false, refused }}); !errors.Is(err, refused) {
		t.Errorf("Take's error: %v", err)
	}
	for name, c := range map[string]struct {
		lets  uint32 // how much of a message the other filter lets through
		taken bool
		told  []string
	}{
		"all":              {math.MaxUint32, true, []string{"127.0.0.1:8080"}},
		"nothing":          {0, true, nil},
		"it was not to be": {0, false, []string{"127.0.0.1:8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			other, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: c.lets}})
			if err != nil {
				t.Fatal(err)
			}
			l := p.open(Options{Filter: Filter{Protocols: []uint8{17}, Ports: []uint16{8080}}, Take: func(fd int) (bool, error) {
				return c.taken, attach(fd, other)
			}})
			events := reading(t, l)
			for reads := false; !reads; { // before it reads, CatchUp has nothing to wait for
				l.looking.Lock()
				reads = l.handle != nil
				l.looking.Unlock()
			}
			p.connect("udp", "127.0.0.1:9090")
			p.connect("udp", "127.0.0.1:8080")
			if err := l.CatchUp(); err != nil {
				t.Fatal(err)
			}
			var told []string
			for len(events) > 0 {
				if e := <-events; e.Kind == New {
					told = append(told, e.Entry.Original[1].String())
				}
			}
			if !slices.Equal(told, c.told) {
				t.Errorf("told are entries to %v, not %v", told, c.told)
			}
		})
	}
}

func TestDatagramsOfABatch(t *testing.T) {
	b := newBatch()
	b.headers[0].length, b.headers[1].length, b.headers[2].length = 20, 20, datagramBytes+1
	b.senders[1].Pid = 7
	if d, err := b.datagram(0); err != nil || len(d) != 20 {
		t.Errorf("the kernel's: %d bytes, %v", len(d), err)
	}
	if d, err := b.datagram(1); err != nil || len(d) != 0 {
		t.Errorf("another process's: %d bytes, %v", len(d), err)
	}
	if d, err := b.datagram(2); !errors.Is(err, errTooLong) {
		t.Errorf("one that is too long: %d bytes, %v", len(d), err)
	}
}
