//go:build amd64 || arm64

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Tracer holds the programs that are attached. Its methods may be used concurrently.
type Tracer struct {
	sights   []Sight
	links    []link.Link
	programs []*ebpf.Program // of the links
	// filter is for a socket that conntrack tells; nil where this kernel cannot have it.
	filter *ebpf.Program
	// maps are the shared ones, by name; none where this process or kernel cannot have them. Then nothing is seen.
	maps map[string]*ebpf.Map
	ring *ringbuf.Reader // nil without maps
	// wakes is the ring once more, for the runtime to wait for: its own reader blocks a thread.
	wakes *os.File

	// looking is held over the reading of the ring, and over tell, which is Read's while one goes on.
	nap        time.Duration
	looking    sync.Mutex
	ringClosed bool
	failed     error // of a look: it fails for good
	decoder    *decoder
	record     ringbuf.Record
	event      Event
	tell       func(*Event)
	toldRare   bool // something for which the kernel wakes the reader was told, and woke was not called since

	closing sync.Once
	closed  chan struct{}
}

// The maps that the programs share with this package.
const (
	mapRing    = "ring"
	mapLost    = "lost"
	mapWatched = "watched"
	mapPorts   = "ports"
)

// Open loads and attaches every program that this kernel and this process's rights allow. What they do not allow is no error: Sights
// says it. Nothing is watched yet. The caller closes the Tracer.
func Open(o Options) (*Tracer, error) {
	mask, err := o.mask()
	if err != nil {
		return nil, err
	}
	size, err := o.ringBytes(os.Getpagesize())
	if err != nil {
		return nil, err
	}
	byProgram, err := specs()
	if err != nil {
		return nil, err
	}
	t := &Tracer{nap: cmp.Or(o.Nap, DefaultNap), closed: make(chan struct{})}
	l := loader{specs: byProgram, types: btf.NewCache(), without: o.without, done: make(map[string]error)}
	kernel, err := l.types.Kernel()
	if err != nil {
		t.seeNothing(whyNoBTF)
		return t, nil
	}
	for _, spec := range byProgram {
		if v := spec.Variables["signals"]; v != nil {
			if err := v.Set(mask); err != nil {
				return nil, fmt.Errorf("kernel: the signals to tell of: %w", err)
			}
		}
		spec.Maps[mapRing].MaxEntries = size
	}
	if l.maps, err = createMaps(byProgram); err != nil {
		t.seeNothing(whyNoMaps(err))
		return t, nil
	}
	t.maps = l.maps
	if err := t.openRing(); err != nil {
		return nil, errors.Join(fmt.Errorf("kernel: the ring of events: %w", err), t.Close())
	}
	t.decoder = newDecoder(resetReasons(kernel))
	for _, s := range sources {
		t.sights = append(t.sights, l.see(s))
	}
	t.links, t.programs, t.filter = l.links, l.programs, l.filter
	return t, nil
}

// openRing prepares what Read reads and waits for.
func (t *Tracer) openRing() (err error) {
	if t.ring, err = ringbuf.NewReader(t.maps[mapRing]); err != nil {
		return err
	}
	t.ring.SetDeadline(time.Unix(1, 0)) // it never waits
	fd, err := unix.FcntlInt(uintptr(t.maps[mapRing].FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // without it the runtime would not wait for it
		return errors.Join(os.NewSyscallError("fcntl F_SETFL", err), unix.Close(fd))
	}
	t.wakes = os.NewFile(uintptr(fd), "ring of events")
	return t.wakes.SetReadDeadline(time.Time{}) // it fails where the runtime cannot wait for it
}

// seeNothing makes every sight one that is not seen, for the same reason.
func (t *Tracer) seeNothing(why string) {
	for _, s := range sources {
		t.sights = append(t.sights, Sight{What: s.what, Kinds: s.kinds, Why: why})
	}
}

// createMaps makes the shared maps, as the objects describe them alike.
func createMaps(specs map[string]*ebpf.CollectionSpec) (map[string]*ebpf.Map, error) {
	shared := make(map[string]*ebpf.MapSpec)
	for _, spec := range specs {
		for _, name := range []string{mapRing, mapLost, mapWatched, mapPorts} {
			if m := spec.Maps[name]; m != nil {
				shared[name] = m
			}
		}
	}
	created := make(map[string]*ebpf.Map)
	for name, spec := range shared {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			for _, m := range created {
				m.Close()
			}
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
		created[name] = m
	}
	return created, nil
}

func whyNoMaps(err error) string {
	if errors.Is(err, unix.EPERM) {
		return whyNoRights
	}
	return err.Error()
}

// resetReasons are the names of enum sk_rst_reason, which is not a stable interface: each kernel has its own numbers. Nil before Linux 6.10.
func resetReasons(kernel *btf.Spec) map[int32]string {
	var reasons *btf.Enum
	if err := kernel.TypeByName("sk_rst_reason", &reasons); err != nil {
		return nil
	}
	names := make(map[int32]string, len(reasons.Values))
	for _, v := range reasons.Values {
		names[int32(v.Value)] = strings.TrimPrefix(v.Name, "SK_RST_REASON_")
	}
	return names
}

// loader attaches programs, each once.
type loader struct {
	specs   map[string]*ebpf.CollectionSpec // by program
	maps    map[string]*ebpf.Map
	types   *btf.Cache
	without []string
	done    map[string]error

	links    []link.Link
	programs []*ebpf.Program // of the links
	filter   *ebpf.Program
}

// see attaches the first program that can observe the source.
func (l *loader) see(s source) Sight {
	var whys []string
	for _, name := range s.ways {
		err, tried := l.done[name]
		if !tried {
			err = l.attach(name)
			l.done[name] = err
		}
		hook := l.specs[name].Programs[name].SectionName
		if err == nil {
			return Sight{What: s.what, Kinds: s.kinds, Seen: true, How: hook}
		}
		if reason := why(hook, err, len(l.links) > 0); !slices.Contains(whys, reason) {
			whys = append(whys, reason)
		}
	}
	return Sight{What: s.what, Kinds: s.kinds, Why: strings.Join(whys, "; ")}
}

// attach loads one program and attaches it to the hook that its section names; the filter of sockets waits for one.
func (l *loader) attach(name string) error {
	if slices.Contains(l.without, name) {
		return errLeftOut
	}
	one := l.specs[name].Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{name: one.Programs[name]}
	replacements := maps.Clone(l.maps)
	maps.DeleteFunc(replacements, func(name string, _ *ebpf.Map) bool { return one.Maps[name] == nil })
	collection, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{MapReplacements: replacements, Cache: l.types})
	if err != nil {
		return err
	}
	defer collection.Close() // what is attached holds what it needs
	program := collection.DetachProgram(name)
	if name == socketFilter {
		l.filter = program
		return nil
	}
	var attached link.Link
	switch kind, hook, _ := strings.Cut(one.Programs[name].SectionName, "/"); kind {
	case "raw_tp":
		attached, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: hook, Program: program})
	default:
		attached, err = link.AttachTracing(link.TracingOptions{Program: program})
	}
	if err != nil {
		program.Close()
		return fmt.Errorf("attach: %w", err)
	}
	l.links, l.programs = append(l.links, attached), append(l.programs, program)
	return nil
}

// Sights says what is seen and what is not, the same as long as the Tracer lives.
func (t *Tracer) Sights() []Sight { return slices.Clone(t.sights) }

// Watch begins to tell of a namespace: of the network namespace with this inode the Sockets, of a network or PID namespace the Processes.
// A network namespace that others share too (that of the node, for Pods with hostNetwork) is better watched for Sockets only, and the
// PID namespaces of its containers for Processes. Watching again replaces what was watched.
func (t *Tracer) Watch(inode uint32, what Subject) error {
	if t.maps == nil {
		return nil
	}
	if err := t.maps[mapWatched].Put(inode, uint32(what)); err != nil {
		return fmt.Errorf("kernel: watch namespace %d: %w", inode, err)
	}
	return nil
}

// Unwatch ends what Watch began. A namespace that is not watched is no error.
func (t *Tracer) Unwatch(inode uint32) error {
	if t.maps == nil {
		return nil
	}
	if err := t.maps[mapWatched].Delete(inode); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("kernel: unwatch namespace %d: %w", inode, err)
	}
	return nil
}

// WatchPorts adds ports of an IP protocol (6 TCP, 17 UDP). Told are then, in every namespace, deletions of conntrack entries whose
// original destination or reply source has such a port, and resets and ICMP errors about packets from or to one; and in watched
// network namespaces closings of UDP sockets bound to one.
func (t *Tracer) WatchPorts(protocol uint8, ports ...uint16) error {
	if t.maps == nil {
		return nil
	}
	for _, port := range ports {
		if err := t.maps[mapPorts].Put(uint32(protocol)<<16|uint32(port), uint8(1)); err != nil {
			return fmt.Errorf("kernel: watch port %d of protocol %d: %w", port, protocol, err)
		}
	}
	return nil
}

// TakeConntrack makes a program the filter of a netlink socket of this process that is to join the groups of a network namespace's conntrack events; false
// where this kernel cannot have it. From then on EntryNew, EntryUpdated and EntryDeleted tell of the entries of watched ports what the kernel tells that
// socket, at the time at which it does: within the call, packet or timer that it is about. The socket itself gets only messages that the program cannot read.
// Give it one socket per namespace, and attach no other filter to that one.
func (t *Tracer) TakeConntrack(fd int) (bool, error) {
	if t.filter == nil {
		return false, nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, t.filter.FD()); err != nil {
		return false, fmt.Errorf("kernel: attach the filter of conntrack's messages: %w", os.NewSyscallError("setsockopt SO_ATTACH_BPF", err))
	}
	return true, nil
}

// gather is how long a program that has woken the reader does not wake it again (GATHER_NS of bpf/trace.h): processes may begin and end by the
// thousand.
const gather = 5 * time.Millisecond

// Read calls tell for each event, about in the order of their times, until ctx ends, and then for those that happened before. For signals, exits and
// listeners the kernel wakes it; what connections have, at thousands per second, it looks for when it has napped or CatchUp is called. Tell is called by one goroutine at a time and must not call Read, CatchUp or Close; the event is valid during the call only.
// Read returns ctx's error, or ErrClosed. It is for one goroutine at a time.
func (t *Tracer) Read(ctx context.Context, tell func(*Event)) error {
	if t.ring == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.closed:
			return ErrClosed
		}
	}
	raw, err := t.wakes.SyscallConn()
	if err != nil {
		return fmt.Errorf("kernel: wait for events: %w", err)
	}
	t.setTell(tell)
	defer t.setTell(nil)
	stop := context.AfterFunc(ctx, func() { _ = t.wakes.SetReadDeadline(time.Unix(1, 0)) }) // it fails only when closed, and then the wait ends too
	defer stop()
	for pause := t.nap; ; {
		if err := t.wakes.SetReadDeadline(time.Now().Add(pause)); err != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return cmp.Or(t.look(), ctx.Err())
		}
		looked, quiet := false, false
		var failed error
		// The look is within the wait, so that a wake-up after it is not missed: the function is called again for one. A wake-up before it may be
		// forgotten, and shows in what is told.
		err := raw.Read(func(uintptr) bool {
			if looked {
				quiet = true
				return true
			}
			looked = true
			if failed = t.look(); failed == nil && t.woke() {
				quiet = true
				if t.wakes.SetReadDeadline(time.Now().Add(min(gather, pause))) != nil {
					failed = ErrClosed
				}
			}
			return failed != nil
		})
		switch {
		case failed != nil:
			return failed
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return ErrClosed
		}
		// An event that began within the time without wake-ups may be put into the ring after the look at its end, by a processor that was taken away in
		// between: so the first naps after that time are short.
		pause = min(2*pause, t.nap)
		if quiet {
			pause = min(gather, t.nap)
		}
	}
}

func (t *Tracer) setTell(tell func(*Event)) {
	t.looking.Lock()
	defer t.looking.Unlock()
	t.tell = tell
}

// CatchUp returns when all that happened before it was called has been told to the Read that goes on; at once where none does.
func (t *Tracer) CatchUp() error { return t.look() }

// look tells what is in the ring.
func (t *Tracer) look() error {
	t.looking.Lock()
	defer t.looking.Unlock()
	if t.ring == nil || t.tell == nil {
		return nil
	}
	if t.ringClosed {
		return ErrClosed
	}
	if t.failed != nil {
		return t.failed
	}
	// Asked first, the reader of the ring makes no system call, but for one in its life.
	for t.ring.AvailableBytes() > 0 {
		if err := t.ring.ReadInto(&t.record); err != nil {
			t.failed = fmt.Errorf("kernel: read events: %w", err)
			return t.failed
		}
		if t.failed = t.decoder.decode(t.record.RawSample, &t.event); t.failed != nil {
			return t.failed
		}
		t.tell(&t.event)
		t.toldRare = t.toldRare || !ofConnection(t.event.Kind)
	}
	return nil
}

// woke reports whether something was told, since it was last called, for which the kernel wakes the reader: for some time after that it does not again.
func (t *Tracer) woke() bool {
	t.looking.Lock()
	defer t.looking.Unlock()
	rare := t.toldRare
	t.toldRare = false
	return rare
}

// ofConnection is is_of_connection of bpf/trace.h.
func ofConnection(k Kind) bool {
	switch k {
	case SocketState, ResetSent, ResetReceived, ICMPSent, EntryDeleted, EntryNew, EntryUpdated:
		return true
	}
	return false
}

// Lost counts what was not told so far.
func (t *Tracer) Lost() (Loss, error) {
	loss := Loss{NoRoom: make(map[Kind]uint64)}
	if t.maps == nil {
		return loss, nil
	}
	for kind := SignalSent; int(kind) < kinds; kind++ {
		var perCPU []uint64
		if err := t.maps[mapLost].Lookup(uint32(kind), &perCPU); err != nil {
			return Loss{}, fmt.Errorf("kernel: count lost events: %w", err)
		}
		for _, n := range perCPU {
			if n > 0 {
				loss.NoRoom[kind] += n
			}
		}
	}
	for _, p := range t.programs {
		stats, err := p.Stats()
		if err != nil {
			return Loss{}, fmt.Errorf("kernel: count what program %s missed: %w", p, err)
		}
		loss.Nested += stats.RecursionMisses
	}
	return loss, nil
}

// Close detaches and unloads all programs, and ends a Read. Closing again does nothing.
func (t *Tracer) Close() error {
	var errs []error
	t.closing.Do(func() {
		close(t.closed)
		for _, l := range t.links {
			errs = append(errs, l.Close())
		}
		for _, p := range t.programs {
			errs = append(errs, p.Close())
		}
		if t.wakes != nil {
			errs = append(errs, t.wakes.Close())
		}
		if t.ring != nil {
			t.looking.Lock()
			t.ringClosed = true
			errs = append(errs, t.ring.Close())
			t.looking.Unlock()
		}
		if t.filter != nil {
			errs = append(errs, t.filter.Close())
		}
		for _, m := range t.maps {
			errs = append(errs, m.Close())
		}
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kernel: close: %w", err)
	}
	return nil
}
