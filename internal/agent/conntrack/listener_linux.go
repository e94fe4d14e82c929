package conntrack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
)

// Listener holds the sockets of one network namespace. Read is for one goroutine at a time; all else may be called by any.
type Listener struct {
	namespace *os.File
	events    *socket
	sockets   *sockets
	updates   []uint8
	tellsOld  bool
	taken     bool // the kernel's filter is not of this package
	filter    atomic.Pointer[Filter]

	nap time.Duration
	// looking is held over all that a look at the socket uses, and over handle, which is Read's while one goes on.
	looking sync.Mutex
	batch   *batch
	handle  func(*Event)
	event   Event
	// intactNs is when the last attempt to receive began that found nothing lost; drops is the socket's count up to the last gap's end.
	intactNs int64
	drops    uint32

	closing sync.Once
	closed  chan struct{}

	mu   sync.Mutex
	gaps []Gap

	// setting keeps filter and the kernel's the same.
	setting sync.Mutex
}

// Open begins to listen. What happens from now on waits in the socket for Read. An *Unseen says why a namespace's events cannot be had.
//
// Joining makes a kernel that has nf_conntrack_netlink as a module load it, as every listener to conntrack does.
func Open(o Options) (*Listener, error) {
	namespace, err := os.Open(cmp.Or(o.NetNS, ownNamespace))
	if err != nil {
		return nil, fmt.Errorf("open a network namespace: %w", err)
	}
	l := &Listener{namespace: namespace, updates: slices.Clone(o.Updates), batch: newBatch(), intactNs: clock.MonoNs(), closed: make(chan struct{})}
	if err := within(namespace, func() error { return l.open(o) }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	nap := DefaultNap
	if l.taken {
		nap = takenNap
	}
	l.nap = cmp.Or(o.Nap, nap)
	return l, nil
}

// open does what must be done within the namespace.
func (l *Listener) open(o Options) error {
	mode, err := eventMode()
	if err != nil {
		return err
	}
	l.tellsOld = mode == eventsAlways
	if l.events, err = openSocket(blocking); err != nil {
		return unseen(err)
	}
	// The filter comes first, then room, then messages: none that is not wanted gets in.
	if o.Take != nil {
		if err := l.events.control(func(fd int) (err error) { l.taken, err = o.Take(fd); return err }); err != nil {
			return err
		}
	}
	if err := l.SetFilter(o.Filter); err != nil {
		return err
	}
	groups := []int{unix.NFNLGRP_CONNTRACK_NEW}
	if !o.NoDestroys {
		groups = append(groups, unix.NFNLGRP_CONNTRACK_DESTROY)
	}
	if len(l.updates) > 0 {
		groups = append(groups, unix.NFNLGRP_CONNTRACK_UPDATE)
	}
	err = l.events.control(func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, cmp.Or(o.BufferBytes, DefaultBufferBytes)); err != nil {
			return os.NewSyscallError("setsockopt SO_RCVBUFFORCE", err)
		}
		for _, group := range groups {
			if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
				return os.NewSyscallError("setsockopt NETLINK_ADD_MEMBERSHIP", err)
			}
		}
		return nil
	})
	if err != nil {
		return unseen(err)
	}
	if err := probe(); err != nil {
		return err
	}
	l.sockets, err = openSockets(cmp.Or(o.Proc, "/proc"), l.namespace)
	return err
}

// What net.netfilter.nf_conntrack_events says (Documentation/networking/nf_conntrack-sysctl.rst).
const (
	eventsOff       = "0"
	eventsAlways    = "1"
	eventsForListen = "2"
)

// eventMode reads the sysctl of the calling thread's network namespace.
func eventMode() (string, error) {
	const name = "nf_conntrack_events"
	b, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
	mode := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", &Unseen{Why: "the kernel has no connection tracking loaded, or was built without its events (module nf_conntrack, CONFIG_NF_CONNTRACK_EVENTS)", Cause: err}
	case err != nil:
		return "", fmt.Errorf("read the sysctl net.netfilter.%s: %w", name, err)
	case mode == eventsOff:
		return "", &Unseen{Why: "the sysctl net.netfilter." + name + " is 0: set it to 1 before the connections that are to be seen are made"}
	}
	return mode, nil
}

// unseen tells the errors that an administrator can do something about from others.
func unseen(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &Unseen{Why: "it needs CAP_NET_ADMIN in the network namespace, of the user namespace that made it", Cause: err}
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return &Unseen{Why: "the kernel has no nfnetlink (module nfnetlink)", Cause: err}
	}
	return err
}

// probe asks for conntrack's statistics, a question that costs nothing: joining its groups succeeds also where nobody will ever send to them.
func probe() error {
	s, err := openSocket(unix.SOCK_NONBLOCK)
	if err != nil {
		return unseen(err)
	}
	defer s.close()
	err = s.ask(context.Background(), request(msgGetStats, flagAck, 1, 0), func(header, []byte) error { return nil })
	if errors.Is(err, syscall.EINVAL) {
		return &Unseen{Why: "the kernel does not tell of conntrack over netlink (module nf_conntrack_netlink)", Cause: err}
	}
	return unseen(err)
}

// TellsOld reports whether the kernel surely tells of entries that were made before Open. Where not, as with Linux's default since 5.19
// (net.netfilter.nf_conntrack_events = 2), an entry that was made while nobody listened, in any namespace of the machine, never gets an UPDATE or a DESTROY:
// what becomes of it is only in what Dump gives, and in what it no longer gives.
func (l *Listener) TellsOld() bool { return l.tellsOld }

// SetFilter replaces the filter at once, but for one that Options.Take has attached. Messages that wait already are held to it as well.
func (l *Listener) SetFilter(f Filter) error {
	l.setting.Lock()
	defer l.setting.Unlock()
	f = f.clone()
	var err error
	all := programs(f, l.updates)
	if l.taken {
		all = nil
	}
	for _, program := range all {
		// ENOMEM: it is longer than net.core.optmem_max allows.
		if err = l.events.control(func(fd int) error { return attach(fd, program) }); !errors.Is(err, unix.ENOMEM) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("attach a filter to the conntrack socket: %w", err)
	}
	l.filter.Store(&f)
	return nil
}

func attach(fd int, program []bpf.RawInstruction) error {
	code := make([]unix.SockFilter, len(program))
	for i, ins := range program {
		code[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
	runtime.KeepAlive(code)
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err)
}

// Read gives every event to handle, in the order in which the kernel told them, until ctx ends (nil) or the socket fails. It is not woken for each of
// them, which at thousands per second would cost more than all the rest: it looks when it has napped or CatchUp is called. Handle is called by one goroutine at a time and must not call CatchUp; the event is its only during the
// call, and while it works, messages wait in the socket.
func (l *Listener) Read(ctx context.Context, handle func(*Event)) error {
	l.setHandle(handle)
	defer l.setHandle(nil)
	looks := time.NewTicker(l.nap)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.closed:
			return fmt.Errorf("receive conntrack events: %w", os.ErrClosed)
		case <-looks.C:
		}
		if err := l.look(); err != nil {
			return err
		}
	}
}

func (l *Listener) setHandle(handle func(*Event)) {
	l.looking.Lock()
	defer l.looking.Unlock()
	l.handle = handle
}

// CatchUp returns when every event from before it was called has been given to the Read that goes on; at once where none does.
func (l *Listener) CatchUp() error { return l.look() }

// look receives until the socket is empty.
func (l *Listener) look() error {
	l.looking.Lock()
	defer l.looking.Unlock()
	if l.handle == nil {
		return nil
	}
	for {
		beganNs := clock.MonoNs()
		n, err := l.events.receiveAll(l.batch)
		if n > 0 {
			l.event.MonoNs = clock.MonoNs()
		}
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// It is told before the messages that came before the loss, and once only: the socket then takes nothing in until it is empty.
			l.beginGap()
			continue
		case errors.Is(err, unix.EAGAIN):
			l.intactNs = beganNs
			l.endGap()
			return nil
		case err != nil:
			return fmt.Errorf("receive conntrack events: %w", err)
		}
		l.intactNs = beganNs
		for i := range n {
			datagram, err := l.batch.datagram(i)
			if err != nil {
				l.unreadable(l.event.MonoNs)
			}
			l.read(datagram)
		}
	}
}

// read gives the messages of a datagram to handle.
func (l *Listener) read(datagram []byte) {
	for len(datagram) > 0 {
		h, payload, rest, err := cutMessage(datagram)
		if err == nil {
			err = decodeEvent(h, payload, &l.event)
		}
		if err != nil {
			l.unreadable(l.event.MonoNs)
			return
		}
		datagram = rest
		if l.wants(&l.event) {
			l.handle(&l.event)
		}
	}
}

// wants is for messages that the kernel's filter let through before the present one, or for want of room in it.
func (l *Listener) wants(e *Event) bool {
	return l.filter.Load().matches(&e.Entry) && (e.Kind != Update || slices.Contains(l.updates, e.Entry.Protocol))
}

// maxGaps bounds what is kept of them; the last one grows over those that are too many.
const maxGaps = 1024

// Gaps gives the stretches of time in which messages were lost, in order.
func (l *Listener) Gaps() []Gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.gaps)
}

// openGap gives the gap that lasts, or nil.
func (l *Listener) openGap() *Gap {
	if n := len(l.gaps); n > 0 && l.gaps[n-1].ToNs == 0 {
		return &l.gaps[n-1]
	}
	return nil
}

func (l *Listener) beginGap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.openGap() != nil:
	case len(l.gaps) == maxGaps:
		l.gaps[maxGaps-1].ToNs = 0
	default:
		l.gaps = append(l.gaps, Gap{FromNs: l.intactNs, Why: GapOverrun})
	}
}

// endGap ends the gap that lasts, if one does: the socket is empty, and takes messages in again.
func (l *Listener) endGap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := l.openGap()
	if gap == nil {
		return
	}
	gap.ToNs = clock.MonoNs()
	if drops, ok := l.sockets.drops(l.events.portID); ok {
		gap.Lost += uint64(drops - l.drops)
		l.drops = drops
	}
}

func (l *Listener) unreadable(atNs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gap := l.openGap(); gap != nil {
		gap.Lost++
		return
	}
	if len(l.gaps) == maxGaps {
		l.gaps[maxGaps-1].ToNs = atNs
		l.gaps[maxGaps-1].Lost++
		return
	}
	l.gaps = append(l.gaps, Gap{FromNs: atNs, ToNs: atNs, Lost: 1, Why: GapUnreadable})
}

// Dump gives the entries under test that exist. One that is made or deleted meanwhile may be missing or be there twice.
//
// As every look through the table does, it makes the kernel delete the entries that it finds to be out of time, which
// it would otherwise do within about a minute: their DESTROY follows.
func (l *Listener) Dump(ctx context.Context) ([]Entry, error) {
	// A socket of its own: an interrupted dump leaves its rest in it.
	s, err := openSocketIn(l.namespace)
	if err != nil {
		return nil, err
	}
	defer s.close()
	filter := l.filter.Load()
	var entries []Entry
	err = s.ask(ctx, request(msgGet, flagDump, 1, 0), func(h header, payload []byte) error {
		var e Entry
		if err := decodeEntry(payload, &e); err != nil {
			return err
		}
		if filter.matches(&e) {
			entries = append(entries, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("dump conntrack's table: %w", err)
	}
	return entries, nil
}

// Remember notes which process holds which netlink socket of netfilter in this namespace, for Whose. Call it now and
// then, once a second perhaps: it reads one small file, and looks through the namespace's processes only where a socket is new.
func (l *Listener) Remember() error {
	_, err := l.sockets.look(clock.MonoNs())
	return err
}

// Whose tells which process had the netlink socket of an event's PortID; false where that is not known. Owner.How says how good the answer is.
//
// It cannot know the owner of a socket that was opened and closed between two calls of Remember or Whose (kube-proxy opens
// one for each batch of deletions), except by the number; of one whose holder is in another network namespace now; and none where Options.Proc
// does not show the node's processes. It takes milliseconds on a large node: call it beside Read, not in its handle.
func (l *Listener) Whose(portID uint32) (Owner, bool) {
	return l.sockets.whose(portID, clock.MonoNs())
}

// Close ends listening. A Read that goes on ends with an error (os.ErrClosed).
func (l *Listener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	var errs []error
	if l.events != nil {
		errs = append(errs, l.events.close())
	}
	if l.sockets != nil {
		errs = append(errs, l.sockets.close())
	}
	return errors.Join(append(errs, l.namespace.Close())...)
}
