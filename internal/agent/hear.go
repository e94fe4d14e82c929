package agent

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/agent/kernel"
	"github.com/drainproof/drainproof/internal/record"
)

// heard takes one event of the kernel: what is rare goes out at once, what every connection has is remembered.
func (w *watch) heard(e *kernel.Event) {
	switch e.Kind {
	case kernel.SignalSent, kernel.ProcessExited:
		w.process(e)
	case kernel.ListenerOpened, kernel.ListenerClosed, kernel.UDPClosed:
		w.listening(e)
	case kernel.SocketState, kernel.ResetSent, kernel.ResetReceived, kernel.ICMPSent, kernel.EntryNew, kernel.EntryUpdated, kernel.EntryDeleted:
		w.connection(e)
	}
}

// process tells of a signal to a process, or of its end.
func (w *watch) process(e *kernel.Event) {
	of := e.By
	if e.Kind == kernel.SignalSent {
		of = e.To
	}
	owner, known := w.ownerOf(of)
	if !known || !w.under(owner.PodUID) {
		return // a process of the node, or of a Pod that is not under test
	}
	first := w.isFirst(of, owner)
	if !first && w.stray() {
		return
	}
	f := Fact{MonoNs: e.MonoNs, Container: owner.ID, Event: record.Event{Source: record.FromKernel, Bound: record.Exact, PodUID: owner.PodUID}}
	f.Event.Detail = map[string]any{"comm": of.Comm, "pid": of.PID, "first_process": first}
	if e.Kind == kernel.ProcessExited {
		f.Event.Kind = record.ProcessExited
		f.Event.Detail["exit_code"] = e.ExitCode
		if e.Signal != 0 {
			f.Event.Detail["signal"], f.Event.Detail["signal_name"] = e.Signal, signalName(e.Signal)
		}
	} else {
		f.Event.Kind = record.SignalSent
		f.Event.Detail["signal"], f.Event.Detail["signal_name"] = e.Signal, signalName(e.Signal)
		f.Event.Detail["result"] = results[e.Result]
		f.Event.Detail["from_kernel"] = e.FromKernel
		if !e.FromKernel && !e.Bystander {
			f.Event.Detail["sender_comm"], f.Event.Detail["sender_pid"] = e.By.Comm, e.By.PID
		}
	}
	w.say(f)
	if e.Kind == kernel.ProcessExited && of.NsPID == 1 {
		w.start(func() { w.leave(owner.PodUID) })
	}
}

// stray counts a fact of a process that is not its container's first, and reports whether there were too many. That is told once, as a gap.
func (w *watch) stray() (tooMany bool) {
	w.mu.Lock()
	w.strays++
	n := w.strays
	w.mu.Unlock()
	if n == maxStrays+1 {
		w.blind(record.FromKernel, fmt.Errorf("more than %d signals and exits of processes that are not their containers' first: the others are left out", maxStrays))
	}
	return n > maxStrays
}

var results = map[kernel.SignalResult]string{
	kernel.SignalDelivered: "delivered", kernel.SignalIgnored: "ignored", kernel.SignalAlreadyPending: "already-pending",
	kernel.SignalOverflowed: "overflowed", kernel.SignalLostInfo: "delivered",
}

func signalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

// listening tells of a listening socket of a watched namespace.
func (w *watch) listening(e *kernel.Event) {
	uid, ok := w.podOf(e.NetNs)
	if !ok {
		return
	}
	f := Fact{MonoNs: e.MonoNs, Event: record.Event{
		Source: record.FromKernel, Kind: record.ListenerClosed, Bound: record.Exact, PodUID: uid,
		Detail: map[string]any{"address": e.Local.String(), "protocol": protocolName(e.Protocol)},
	}}
	if e.Kind == kernel.ListenerOpened {
		f.Event.Kind = record.ListenerOpened
	}
	if !e.Bystander {
		w.ownerOf(e.By) // a process that begins to listen is seen before it ends
		f.Event.Detail["by_comm"], f.Event.Detail["by_pid"] = e.By.Comm, e.By.PID
	}
	w.say(f)
}

// TCP states of include/net/tcp_states.h.
const (
	stateFinWait1 = 4
	stateListen   = 10
)

// connection remembers what happened to one connection.
func (w *watch) connection(e *kernel.Event) {
	t := trace{monoNs: e.MonoNs, protocol: e.Protocol}
	two := [4]netip.AddrPort{e.Local, e.Remote}
	uid, isPods := w.podOf(e.NetNs)
	if !isPods && e.NetNs != w.ownNetNs {
		return // another node's on the same kernel, or a Pod that is not under test
	}
	n := note{podUID: uid}
	switch e.Kind {
	case kernel.SocketState:
		if !isPods {
			return // the node's own sockets are nobody's under test
		}
		t.kind, n.how = socketClosed, "reset"
		if e.NewState == stateFinWait1 {
			n.how = "fin"
		}
	case kernel.ResetSent:
		t.kind = resetSent
		n.how, n.reason = "socket", e.Reason
		switch {
		case e.ByRule:
			n.how = "rule"
		case e.OldState == 0 || e.OldState == stateListen:
			n.how = "no-socket"
		}
	case kernel.ResetReceived:
		t.kind = resetReceived
	case kernel.ICMPSent:
		t.kind, n.icmpType, n.icmpCode, n.icmpTo = icmpSent, e.Type, e.Code, e.Local.Addr()
	case kernel.EntryNew, kernel.EntryUpdated, kernel.EntryDeleted:
		if e.NetNs != w.ownNetNs {
			return
		}
		t.kind, n = entryOf(e)
		two = [4]netip.AddrPort{e.Original[0], e.Original[1], e.Reply[0], e.Reply[1]}
	}
	w.memory.keep(t, two, n)
}

// entryOf says what became of an entry, and of a deletion who did it, as far as that is known.
func entryOf(e *kernel.Event) (traceKind, note) {
	switch e.Kind {
	case kernel.EntryNew:
		return entryNew, note{}
	case kernel.EntryUpdated:
		return entryUpdated, note{}
	}
	switch {
	case e.NetlinkPortID != 0:
		return entryDeleted, note{by: "process", comm: e.By.Comm, pid: e.By.PID}
	case e.Early:
		return entryDeleted, note{by: "kernel"}
	case e.Expired:
		return entryDeleted, note{by: "timeout"}
	}
	return entryDeleted, note{}
}
