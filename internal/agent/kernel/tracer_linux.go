//go:build amd64 || arm64

package kernel

import (
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

// Tracer holds the programs that are attached. Its methods may be used concurrently, Read by one goroutine at a time.
type Tracer struct {
	sights   []Sight
	reasons  map[int32]string
	links    []link.Link
	programs []*ebpf.Program // of the links
	// maps are the shared ones, by name; none where this process or kernel cannot have them. Then nothing is seen.
	maps map[string]*ebpf.Map
	ring *ringbuf.Reader // nil without maps

	closing sync.Once
	closed  chan struct{}
}

// The maps that the programs share with this package: all but the last are in every object.
const (
	mapRing     = "ring"
	mapLost     = "lost"
	mapWatched  = "watched"
	mapPorts    = "ports"
	mapFollowed = "followed"
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
	t := &Tracer{closed: make(chan struct{})}
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
	if t.ring, err = ringbuf.NewReader(t.maps[mapRing]); err != nil {
		return nil, errors.Join(fmt.Errorf("kernel: the ring of events: %w", err), t.Close())
	}
	t.reasons = resetReasons(kernel)
	for _, s := range sources {
		t.sights = append(t.sights, l.see(s))
	}
	t.links, t.programs = l.links, l.programs
	return t, nil
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
		for _, name := range []string{mapRing, mapLost, mapWatched, mapPorts, mapFollowed} {
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

// attach loads one program and attaches it to the hook that its section names.
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

// FollowConntrack names a netlink socket of this process, by its cookie (SO_COOKIE), that receives a network namespace's conntrack
// events, deletions among them; one per namespace, and before the connections of interest begin. Where functions cannot be traced,
// EntryDeleted is told by it, for what a process asked for over netlink; of two deletions at one instant on two processors, one may be
// told twice in place of the other. Elsewhere it changes nothing.
func (t *Tracer) FollowConntrack(cookie uint64) error {
	if t.maps == nil {
		return nil
	}
	if err := t.maps[mapFollowed].Put(cookie, uint8(1)); err != nil {
		return fmt.Errorf("kernel: follow netlink socket %d: %w", cookie, err)
	}
	return nil
}

// gather is how long Read lets events come together once it has told all. The kernel wakes a reader that waits for each single event:
// at thousands per second that would cost more than all the rest.
const gather = 5 * time.Millisecond

// Read calls tell for each event, about in the order of their times and some milliseconds late, until ctx ends, and then for those
// that happened before. The event is valid during the call only. It returns ctx's error, or ErrClosed.
func (t *Tracer) Read(ctx context.Context, tell func(*Event)) error {
	if t.ring == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.closed:
			return ErrClosed
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = t.ring.Flush() }) // it fails only when closed, and then the read below ends too
	defer stop()
	var (
		record ringbuf.Record
		event  Event
	)
	d := newDecoder(t.reasons)
	for {
		switch err := t.ring.ReadInto(&record); {
		case errors.Is(err, ringbuf.ErrFlushed):
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue // the end of an earlier Read's context
		case errors.Is(err, ringbuf.ErrClosed):
			return ErrClosed
		case err != nil:
			return fmt.Errorf("kernel: read events: %w", err)
		}
		if err := d.decode(record.RawSample, &event); err != nil {
			return err
		}
		tell(&event)
		if record.Remaining == 0 {
			time.Sleep(gather)
		}
	}
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
		if t.ring != nil {
			errs = append(errs, t.ring.Close())
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
