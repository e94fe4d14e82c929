package agent

import (
	"github.com/drainproof/drainproof/internal/agent/containers"
	"github.com/drainproof/drainproof/internal/agent/kernel"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// procRoot is where the processes of the whole node are seen: the agent's Pod shares the node's PID namespace.
const procRoot = "/proc"

// expect names Pods that are under test, which may not be there yet.
func (w *watch) expect(pods []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range pods {
		if !w.tested[uid] {
			w.tested[uid], w.pending[uid] = true, true
		}
	}
}

// under reports whether a Pod is under test.
func (w *watch) under(uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tested[uid]
}

// podOf gives the Pod under test whose network namespace that is.
func (w *watch) podOf(netNs uint32) (uid string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, ok = w.watched[netNs]
	return uid, ok
}

// find looks for the Pods that were named and are not watched yet.
func (w *watch) find() {
	w.finding.Lock()
	defer w.finding.Unlock()
	w.mu.Lock()
	pending := make([]string, 0, len(w.pending))
	for uid := range w.pending {
		pending = append(pending, uid)
	}
	w.mu.Unlock()
	if len(pending) == 0 {
		return
	}
	_ = w.owners.Scan(clock.MonoNs()) // what could not be read is looked for again
	for _, uid := range pending {
		if found := w.owners.Containers(uid); len(found) > 0 {
			if err := w.watchPod(uid, found); err != nil {
				w.broke(err)
			}
		}
	}
}

// watchPod begins to watch a Pod that has a process. Sockets that listen already are told as such.
func (w *watch) watchPod(uid string, found []containers.Container) error {
	for _, c := range found {
		w.mu.Lock()
		_, known := w.watched[c.NetNs]
		if !known && c.NetNs != 0 {
			w.watched[c.NetNs] = uid
		}
		delete(w.pending, uid)
		w.mu.Unlock()
		if known || w.tracer == nil {
			continue
		}
		if c.NetNs == 0 {
			// It shares the node's network: its sockets cannot be told from others', its processes can.
			if err := w.tracer.Watch(c.PIDNs, kernel.Processes); err != nil {
				return err
			}
			continue
		}
		if err := w.tracer.Watch(c.NetNs, kernel.Sockets|kernel.Processes); err != nil {
			return err
		}
		now := clock.MonoNs()
		addresses, err := listeners(procRoot, c.PID)
		if err != nil {
			continue // it has just ended
		}
		for _, a := range addresses {
			w.say(Fact{MonoNs: now, Event: record.Event{
				Source: record.FromKernel, Kind: record.ListenerOpened, Bound: record.Upper, PodUID: uid,
				Detail: map[string]any{"address": a.String(), "protocol": "tcp", "first": true}, // it was so when it was first looked at
			}})
		}
	}
	return nil
}

// ownerOf gives whose process that is; one that is new is looked at now.
func (w *watch) ownerOf(p kernel.Process) (containers.Container, bool) {
	c, known := w.owners.Lookup(p.NetNs, p.MntNs, p.PIDNs)
	if known && c.ID != "" || !w.firstPIDs {
		return c, known
	}
	if seen, ok := w.owners.See(int(p.PID), clock.MonoNs()); ok {
		return seen, true
	}
	return c, known
}
