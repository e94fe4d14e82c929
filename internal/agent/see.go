package agent

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/agent/conntrack"
	"github.com/drainproof/drainproof/internal/agent/dataplane"
	"github.com/drainproof/drainproof/internal/agent/kernel"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// startKernel attaches the programs, so that the first word says what they see.
func (w *watch) startKernel(ctx context.Context, ringBytes int) {
	w.ownNetNs = ownNs("net")
	w.firstPIDs = ownNs("pid") == firstPIDNs
	t, err := kernel.Open(kernel.Options{RingBytes: ringBytes, Nap: 10 * tellEvery})
	if err != nil {
		for _, k := range kernelEvidence {
			w.sights = append(w.sights, Sight{Name: k.name, Why: err.Error()})
		}
		return
	}
	w.tracer = t
	w.sights = kernelSights(t.Sights())
	if i := slices.IndexFunc(w.sights, func(s Sight) bool { return s.Name == SightDeleters && s.Seen }); i >= 0 {
		w.exactDeletions = strings.Contains(w.sights[i].How, "nf_ct_delete")
	}
	w.start(func() {
		if err := t.Read(ctx, w.heard); err != nil && ctx.Err() == nil && !errors.Is(err, kernel.ErrClosed) {
			w.blind(record.FromKernel, err)
		}
	})
}

// kernelEvidence is which events of the kernel make each kind of evidence.
var kernelEvidence = []struct {
	name  string
	kinds []kernel.Kind
}{
	{SightSignals, []kernel.Kind{kernel.SignalSent}},
	{SightExits, []kernel.Kind{kernel.ProcessExited}},
	{SightListeners, []kernel.Kind{kernel.ListenerClosed, kernel.UDPClosed}},
	{SightSockets, []kernel.Kind{kernel.SocketState}},
	{SightResets, []kernel.Kind{kernel.ResetSent, kernel.ResetReceived}},
	{SightICMP, []kernel.Kind{kernel.ICMPSent}},
	{SightDeleters, []kernel.Kind{kernel.EntryDeleted}},
}

// kernelSights sums up the tracer's sources by the kind of evidence: seen where one of its sources is, and why the others are not.
func kernelSights(sources []kernel.Sight) []Sight {
	var sights []Sight
	for _, k := range kernelEvidence {
		s := Sight{Name: k.name}
		var how, why []string
		for _, from := range sources {
			if !slices.ContainsFunc(k.kinds, func(kind kernel.Kind) bool { return slices.Contains(from.Kinds, kind) }) {
				continue
			}
			if from.Seen {
				how = append(how, from.How)
			} else {
				why = append(why, from.What+": "+from.Why)
			}
		}
		s.Seen = len(how) > 0
		s.How, s.Why = strings.Join(slices.Compact(slices.Sorted(slices.Values(how))), ", "), strings.Join(why, "; ")
		sights = append(sights, s)
	}
	return sights
}

// begin watches what is under test. Its order matters: filters first, then what is there already, then news of it.
func (w *watch) begin(ctx context.Context, what Watch) {
	w.fronts = append([]Front{}, what.Fronts...)
	ports := map[uint8][]uint16{}
	for _, f := range what.Fronts {
		ports[f.Protocol] = append(ports[f.Protocol], f.Addr.Port())
	}
	for _, p := range what.Ports {
		ports[p.Protocol] = append(ports[p.Protocol], p.Port)
	}
	if w.tracer != nil {
		for protocol, list := range ports {
			if err := w.tracer.WatchPorts(protocol, list...); err != nil {
				w.blind(record.FromKernel, err)
			}
		}
	}
	w.startConntrack(ctx, ports)
	w.startRules(ctx, what.Fronts)
	w.expect(what.Pods)
	w.look()
}

func (w *watch) startConntrack(ctx context.Context, ports map[uint8][]uint16) {
	o := conntrack.Options{NoDestroys: w.exactDeletions}
	for protocol, list := range ports {
		o.Filter.Protocols = append(o.Filter.Protocols, protocol)
		o.Filter.Ports = append(o.Filter.Ports, list...)
		if protocol == UDP {
			o.Updates = []uint8{UDP}
		}
	}
	if len(ports) == 0 {
		w.sights = append(w.sights, Sight{Name: SightConntrack, Why: "no port is known that the connections under test have"})
		return
	}
	how := "ctnetlink events of the node's network namespace, read from their socket"
	if w.tracer != nil {
		o.Take = func(fd int) (bool, error) {
			taken, err := w.tracer.TakeConntrack(fd)
			if err != nil {
				w.noDeleters(err.Error())
			}
			if taken {
				how = "ctnetlink events of the node's network namespace, taken by a filter of their socket"
			}
			return taken, nil
		}
	}
	l, err := conntrack.Open(o)
	if err != nil {
		w.noDeleters("conntrack's events, by which they are told here, are not seen")
		w.sights = append(w.sights, Sight{Name: SightConntrack, Why: err.Error()})
		return
	}
	w.mu.Lock()
	w.listener = l
	w.mu.Unlock()
	w.sights = append(w.sights, Sight{Name: SightConntrack, Seen: true, How: how})
	// Entries from before the session have no NEW; they count as of now, and may be older.
	if entries, err := l.Dump(ctx); err == nil {
		now := clock.MonoNs()
		for _, e := range entries {
			w.memory.keep(trace{monoNs: now, kind: entryNew, protocol: e.Protocol}, ends(e), note{how: received})
		}
	}
	w.start(func() {
		if err := l.Read(ctx, w.tracked); err != nil && ctx.Err() == nil {
			w.blind(record.FromConntrack, err)
		}
	})
}

// noDeleters takes back that deletions are seen, where it takes conntrack's socket to see them: conntrack's own word on them has to do.
func (w *watch) noDeleters(why string) {
	if w.exactDeletions {
		return
	}
	for i := range w.sights {
		if w.sights[i].Name == SightDeleters && w.sights[i].Seen {
			w.sights[i].Seen, w.sights[i].How, w.sights[i].Why = false, "", why
		}
	}
}

func ends(e conntrack.Entry) [4]netip.AddrPort {
	return [4]netip.AddrPort{e.Original[0], e.Original[1], e.Reply[0], e.Reply[1]}
}

// tracked takes one event of conntrack that came to its socket: where no program takes them there.
func (w *watch) tracked(e *conntrack.Event) {
	t, all := trace{monoNs: e.MonoNs, protocol: e.Entry.Protocol}, ends(e.Entry)
	n := note{how: received}
	switch e.Kind {
	case conntrack.New:
		t.kind = entryNew
	case conntrack.Update:
		t.kind = entryUpdated
	case conntrack.Destroy:
		t.kind = entryDeleted
		switch {
		case e.PortID != 0:
			w.deletedBy(e.PortID, t, all, n)
			return
		case e.Entry.TimeoutS > 0:
			n.by = "kernel" // it had time left, and nobody asked
		}
	}
	w.memory.keep(t, all, n)
}

// deletedBy remembers a deletion with who had that number, which is found beside the reader, whose socket may not wait.
func (w *watch) deletedBy(portID uint32, t trace, ends [4]netip.AddrPort, n note) {
	n.by = "process"
	w.start(func() {
		if o, ok := w.connections().Whose(portID); ok && o.How != conntrack.ByNumber {
			n.comm, n.pid = o.Comm, uint32(o.PID)
		}
		w.memory.keep(t, ends, n)
	})
}

func (w *watch) startRules(ctx context.Context, fronts []Front) {
	if len(fronts) == 0 {
		w.sights = append(w.sights, Sight{Name: SightRules, Why: "the clients go to no Service's address, so that no rule chooses for them"})
		return
	}
	o := dataplane.Options{}
	for _, f := range fronts {
		o.Fronts = append(o.Fronts, dataplane.Front{Protocol: f.Protocol, Addr: f.Addr})
	}
	r, sights, err := dataplane.Open(o)
	s := Sight{Name: SightRules}
	var how, why []string
	for _, x := range sights {
		if x.Seen {
			how = append(how, x.Name+": "+x.How)
		} else if x.Why != "" {
			why = append(why, x.Name+": "+x.Why)
		}
	}
	if err != nil {
		why = append(why, err.Error())
	}
	s.Seen, s.How, s.Why = err == nil && len(how) > 0, strings.Join(how, "; "), strings.Join(why, "; ")
	w.sights = append(w.sights, s)
	if !s.Seen {
		return
	}
	w.mu.Lock()
	w.rules = r
	w.mu.Unlock()
	states := &ruleStates{}
	w.start(func() {
		if err := r.Read(ctx, func(c dataplane.Change) { states.take(c, w.say) }); err != nil && ctx.Err() == nil {
			w.blind(record.FromDataplane, err)
		}
	})
}

// catchUp takes what the kernel had to tell of connections until now: it wakes nobody for them.
func (w *watch) catchUp() {
	if w.tracer != nil {
		if err := w.tracer.CatchUp(); err != nil && !errors.Is(err, kernel.ErrClosed) {
			w.blind(record.FromKernel, err)
		}
	}
	if l := w.connections(); l != nil {
		if err := l.CatchUp(); err != nil && !errors.Is(err, os.ErrClosed) {
			w.blind(record.FromConntrack, err)
		}
	}
}

// connections is the listener, nil before there is one.
func (w *watch) connections() *conntrack.Listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listener
}

// tellGaps tells what conntrack's socket lost.
func (w *watch) tellGaps(last bool) error {
	l := w.connections()
	if l == nil {
		return nil
	}
	w.telling.Lock()
	defer w.telling.Unlock()
	gaps := l.Gaps()
	for _, g := range gaps[min(w.gapsTold, len(gaps)):] {
		if g.ToNs == 0 && !last {
			return nil // it lasts
		}
		w.gapsTold++
		told := Gap{Source: record.FromConntrack, FromMonoNs: g.FromNs, ToMonoNs: g.ToNs, Why: "the socket of conntrack's events overran"}
		if g.Why != conntrack.GapOverrun {
			told.Why = "a message of conntrack could not be read"
		}
		if err := w.out.Write(word{Say: "gap", Gap: &told}); err != nil {
			return err
		}
	}
	return nil
}

// lost counts what was seen and could not be told.
func (w *watch) lost() map[string]uint64 {
	lost := map[string]uint64{}
	if w.tracer != nil {
		if l, err := w.tracer.Lost(); err == nil {
			for kind, n := range l.NoRoom {
				lost[kindNames[kind]] += n
			}
			if l.Nested > 0 {
				lost["nested"] = l.Nested
			}
		}
	}
	if l := w.connections(); l != nil {
		for _, g := range l.Gaps() {
			if g.Lost > 0 {
				lost["conntrack"] += g.Lost
			}
		}
	}
	if n := w.memory.lost(); n > 0 {
		lost["memory"] = n
	}
	for k, n := range lost {
		if n == 0 {
			delete(lost, k)
		}
	}
	return lost
}

var kindNames = map[kernel.Kind]string{
	kernel.SignalSent: "signals", kernel.ProcessExited: "exits", kernel.ListenerOpened: "listeners", kernel.ListenerClosed: "listeners", kernel.SocketState: "sockets",
	kernel.ResetSent: "resets", kernel.ResetReceived: "resets", kernel.ICMPSent: "icmp", kernel.UDPClosed: "listeners",
	kernel.EntryDeleted: "deletions", kernel.EntryNew: "conntrack", kernel.EntryUpdated: "conntrack",
}
