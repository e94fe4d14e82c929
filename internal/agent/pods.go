package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/drainproof/drainproof/internal/agent/containers"
	"github.com/drainproof/drainproof/internal/agent/kernel"
	"github.com/drainproof/drainproof/internal/agent/sockdiag"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// procRoot is where the processes of the whole node are seen: the agent's Pod shares the node's PID namespace.
const procRoot = "/proc"

// soon is how long a Pod that was named is looked for at every turn; from then on it is a matter of seconds.
const soon = 15 * time.Second

// leaving is how long a process may take from the news of its exit to leaving its namespaces.
const leaving = 20 * time.Millisecond

// pods is what is known of the Pods under test. Guarded by watch.mu.
type pods struct {
	// named is when each was named, by UID; found are those of which a namespace was ever watched.
	named map[string]time.Time
	found map[string]bool
	// networks and processes are the namespaces that are watched, by inode, and whose they are. An inode is given again once its namespace
	// is gone, so that both are checked at each look.
	networks, processes map[uint32]string
}

// expect names Pods that are under test, which may not be there yet.
func (w *watch) expect(uids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range uids {
		if _, known := w.pods.named[uid]; !known {
			w.pods.named[uid] = time.Now()
		}
	}
}

// under reports whether a Pod is under test.
func (w *watch) under(uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, named := w.pods.named[uid]
	return named
}

// podOf gives the Pod under test whose network namespace that is.
func (w *watch) podOf(netNs uint32) (uid string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, ok = w.pods.networks[netNs]
	return uid, ok
}

// awaited reports whether a Pod that was named lately has no namespace that is watched yet.
func (w *watch) awaited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, at := range w.pods.named {
		if !w.pods.found[uid] && time.Since(at) < soon {
			return true
		}
	}
	return false
}

// unfound lists the Pods that were named and never found: they never had a process here, or it was gone before it was looked for.
func (w *watch) unfound() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var uids []string
	for uid := range w.pods.named {
		if !w.pods.found[uid] {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// look takes in what processes there are, lets go of namespaces that are another's now, and watches those of the Pods under test that are new:
// of a Pod that comes, of a container that is started again, of a sandbox that is made anew.
func (w *watch) look() {
	w.looking.Lock()
	defer w.looking.Unlock()
	_ = w.owners.Scan(clock.MonoNs()) // what could not be read is looked at again
	w.letGo()
	w.mu.Lock()
	uids := make([]string, 0, len(w.pods.named))
	for uid := range w.pods.named {
		uids = append(uids, uid)
	}
	w.mu.Unlock()
	for _, uid := range uids {
		for _, c := range w.owners.Containers(uid) {
			if err := w.watchContainer(uid, c); err != nil {
				w.blind(record.FromKernel, err)
			}
		}
	}
}

// letGo ends the watch of network namespaces whose inode another Pod's has now.
func (w *watch) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for inode, uid := range w.pods.networks {
		if now, known := w.owners.PodByNetNs(inode); known && now.UID != uid {
			delete(w.pods.networks, inode)
			if w.tracer != nil {
				_ = w.tracer.Unwatch(inode)
			}
		}
	}
}

// leave ends the watch of a Pod's network namespaces when the last process in them has exited, its sandbox's: an inode may be given at once to another Pod's,
// on this node or, where nodes share a kernel, on one whose processes are not seen here.
func (w *watch) leave(uid string) {
	time.Sleep(leaving)
	w.looking.Lock() // a look under way may have seen the process alive
	defer w.looking.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for inode, of := range w.pods.networks {
		if of != uid || inUse(procRoot, inode) {
			continue
		}
		delete(w.pods.networks, inode)
		if w.tracer != nil {
			_ = w.tracer.Unwatch(inode)
		}
	}
}

// inUse reports whether a process has a network namespace.
func inUse(proc string, netNs uint32) bool {
	list, err := os.ReadDir(proc)
	if err != nil {
		return true // not known
	}
	for _, d := range list {
		if pid, err := strconv.Atoi(d.Name()); err == nil && isIn(proc, pid, netNs) {
			return true
		}
	}
	return false
}

// isIn reports whether a process that lives has a network namespace.
func isIn(proc string, pid int, netNs uint32) bool {
	ns, err := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "ns", "net"))
	return err == nil && ns == fmt.Sprintf("net:[%d]", netNs)
}

// watchContainer watches a container's namespaces, as far as they are new. One that is being made is still in the node's (0): it is looked at again. One
// that shares the node's network has its processes watched and no sockets, which could not be told from others'.
func (w *watch) watchContainer(uid string, c containers.Container) error {
	w.mu.Lock()
	newNetwork := c.NetNs != 0 && w.pods.networks[c.NetNs] != uid
	if owner, known := w.owners.PodByNetNs(c.NetNs); newNetwork && (!known || owner.UID != uid) {
		newNetwork = false // it was this Pod's, and is another's now
	}
	newNetwork = newNetwork && isIn(procRoot, c.PID, c.NetNs) // one that has ended may have left it to another
	newProcesses := c.NetNs == 0 && c.PIDNs != 0 && w.pods.processes[c.PIDNs] != uid
	if newNetwork {
		w.pods.networks[c.NetNs] = uid
	}
	if newProcesses {
		w.pods.processes[c.PIDNs] = uid
	}
	if newNetwork || newProcesses {
		w.pods.found[uid] = true
	}
	w.mu.Unlock()
	if w.tracer == nil {
		return nil
	}
	if newProcesses {
		return w.tracer.Watch(c.PIDNs, kernel.Processes)
	}
	if !newNetwork {
		return nil
	}
	if err := w.tracer.Watch(c.NetNs, kernel.Sockets|kernel.Processes); err != nil {
		return err
	}
	now := clock.MonoNs()
	addresses, err := sockdiag.Listeners(procRoot, c.PID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has just ended
	}
	if err != nil {
		return err
	}
	for _, a := range addresses {
		w.say(Fact{MonoNs: now, Event: record.Event{
			Source: record.FromKernel, Kind: record.ListenerOpened, Bound: record.Upper, PodUID: uid,
			Detail: map[string]any{"address": a.String(), "protocol": "tcp", "first": true}, // it was so when it was first looked at
		}})
	}
	return nil
}

// ownerOf gives whose process that is. One that lives is looked at now, as its namespaces may have been another's a moment ago.
func (w *watch) ownerOf(p kernel.Process) (containers.Container, bool) {
	if w.firstPIDs {
		if seen, ok := w.owners.See(int(p.PID), clock.MonoNs()); ok {
			return seen, true
		}
	}
	return w.owners.Lookup(p.NetNs, p.MntNs, p.PIDNs)
}

// isFirst reports whether a process is its container's first one.
func (w *watch) isFirst(p kernel.Process, c containers.Container) bool {
	if w.firstPIDs && c.PID != 0 {
		return int(p.PID) == c.PID
	}
	return p.NsPID == 1
}
