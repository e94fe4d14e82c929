package containers

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// Map knows the containers of one node and their namespaces, also of those that are gone. All of its methods may be called by several
// goroutines at once. Times are nanoseconds of one clock, the caller's.
//
// The kernel gives a dead namespace's inode to the next that is made, at once. So whoever has an event to place asks while it is fresh: See with
// the process's number, and Lookup or PodByNetNs where there is none or it is gone.
//
// A namespace that processes of two containers are in at the same time is that one's who was there first: others only visit it, as
// "ip netns exec" and nsenter do. It changes hands only when its owner has left it before the other came. The node itself, which is all
// the processes that are in no container, owns namespaces by the same rule: so those that a container shares with it are the node's.
type Map struct {
	scanning sync.Mutex
	reader   reader // under scanning

	mu         sync.RWMutex // for all that follows
	containers map[key]*Container
	pods       map[string]*Pod
	// owners are of each kind of namespace, by inode.
	owners [kinds]map[uint32]*owner
}

// key is a Pod's UID and a container's id; either may be empty. Both are for the node itself.
type key struct{ pod, id string }

var node key

// owner is whose a namespace is.
type owner struct {
	key key
	// several: processes of more than one container of a Pod were in it at one time.
	several bool
	// lastNs is when a process of the owner was last seen in it.
	lastNs int64
}

// The kinds of namespaces that are told apart.
const (
	netNs = iota
	mntNs
	pidNs
	kinds
)

// kindNames are those of the files in /proc/PID/ns.
var kindNames = [kinds]string{"net", "mnt", "pid"}

// What is kept of containers and namespaces that are gone, oldest out first. A node runs 110 Pods by default.
const (
	maxContainers = 4096
	maxNamespaces = 2 * maxContainers // of each kind
)

// settledAfter is how long a new process is read again in each scan: runc moves it into its cgroup, and then takes it from
// the node's namespaces into its own.
const settledAfter = 10 * time.Second

// New makes an empty map of the node whose processes are in the proc file system at that path. It must be one of the node's own PID
// namespace (hostPID), read with the right to see other users' namespaces (root, or CAP_SYS_PTRACE).
func New(proc string) *Map {
	m := &Map{reader: newReader(proc), containers: map[key]*Container{}, pods: map[string]*Pod{}}
	for kind := range m.owners {
		m.owners[kind] = map[uint32]*owner{}
	}
	return m
}

// Scan looks at all processes once. A process that is known costs one system call, one that is new about a dozen. After an error the
// map has what could be read.
func (m *Map) Scan(nowNs int64) error {
	m.scanning.Lock()
	defer m.scanning.Unlock()
	return m.scan(nowNs)
}

func (m *Map) scan(nowNs int64) error {
	err := m.reader.all(nowNs)
	m.learn(maps.Values(m.reader.processes), nowNs, true)
	return err
}

// See looks at one process at once, for an event that tells of one which the next Scan would be too late for. It tells its container;
// false where it is in none, or is gone. Where it is new in a namespace that was another's, all processes are scanned.
func (m *Map) See(pid int, nowNs int64) (Container, bool) {
	m.scanning.Lock()
	defer m.scanning.Unlock()
	p, err := m.reader.one(pid, nowNs)
	if err != nil || p.key == node {
		return Container{}, false
	}
	if m.reader.round == 0 || p.sinceNs == nowNs && m.contested(p) {
		// What cannot be read of other processes does not matter here.
		_ = m.scan(nowNs)
	} else {
		m.learn(slices.Values([]*process{p}), nowNs, false)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := m.containers[p.key]
	if c == nil {
		return Container{}, false // it ended before the scan came to it
	}
	return *c, true
}

// contested reports whether a process is in a namespace that is another container's, or the node's.
func (m *Map) contested(p *process) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for kind, inode := range p.namespaces {
		if o := m.owners[kind][inode]; o != nil && !o.is(kind, p.key) {
			return true
		}
	}
	return false
}

// is reports whether a container's processes are at home in the namespace: a network namespace is the whole Pod's.
func (o *owner) is(kind int, k key) bool {
	return o.key == k || kind == netNs && samePod(o.key, k)
}

func samePod(a, b key) bool { return a.pod != "" && a.pod == b.pod }

// learn takes in what processes show. If they are all that there are, they tell which of each container and Pod is the oldest that lives.
func (m *Map) learn(processes iter.Seq[*process], nowNs int64, all bool) {
	oldest := map[key]*process{}
	oldestOfPod := map[string]*process{}
	var newcomers [kinds]map[uint32]*newcomer
	for kind := range newcomers {
		newcomers[kind] = map[uint32]*newcomer{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range processes {
		if p.key != node {
			older(oldest, p.key, p)
		}
		if p.key.pod != "" {
			older(oldestOfPod, p.key.pod, p)
		}
		for kind, inode := range p.namespaces {
			if inode == 0 {
				continue
			}
			if o := m.owners[kind][inode]; o != nil && o.is(kind, p.key) {
				o.lastNs = nowNs
				continue
			}
			n := newcomers[kind][inode]
			if n == nil {
				n = &newcomer{process: p}
				newcomers[kind][inode] = n
			}
			n.several = n.several || n.key != p.key && samePod(n.key, p.key)
			if p.before(n.process) {
				n.process = p
			}
		}
	}
	for kind := range newcomers {
		for inode, n := range newcomers[kind] {
			was := m.owners[kind][inode]
			switch {
			case was == nil || was.lastNs < n.sinceNs:
				m.owners[kind][inode] = &owner{key: n.key, several: n.several, lastNs: nowNs}
			case samePod(was.key, n.key):
				was.several = true
			}
		}
	}
	for k, p := range oldest {
		c := m.containers[k]
		if c == nil {
			c = &Container{PodUID: k.pod, ID: k.id, FirstNs: nowNs}
			m.containers[k] = c
		}
		if all || c.PID == 0 || c.PID == p.pid {
			c.PID, c.Comm = p.pid, p.comm
			c.NetNs, c.MntNs, c.PIDNs = m.own(netNs, p), m.own(mntNs, p), m.own(pidNs, p)
		}
		c.LastNs = nowNs
	}
	for uid, p := range oldestOfPod {
		pod := m.pods[uid]
		if pod == nil {
			pod = &Pod{UID: uid, NetNs: m.own(netNs, p), FirstNs: nowNs}
			m.pods[uid] = pod
		}
		if all {
			pod.NetNs = m.own(netNs, p)
		}
		pod.LastNs = nowNs
	}
	m.forget()
}

// own gives the inode of a process's namespace; 0 where it is the node's.
func (m *Map) own(kind int, p *process) uint32 {
	if m.home(kind, p.namespaces[kind]) == nil {
		return 0
	}
	return p.namespaces[kind]
}

// home gives the owner of a namespace that is a container's, or nil.
func (m *Map) home(kind int, inode uint32) *owner {
	if o := m.owners[kind][inode]; o != nil && o.key != node {
		return o
	}
	return nil
}

// newcomer is the oldest process in a namespace that is not of its owner.
type newcomer struct {
	*process
	several bool
}

// older puts p at k if it is older than what is there.
func older[K comparable](oldest map[K]*process, k K, p *process) {
	if o := oldest[k]; o == nil || p.before(o) {
		oldest[k] = p
	}
}

// forget drops what was not seen for the longest time, where there is too much.
func (m *Map) forget() {
	if dropOldest(m.containers, maxContainers, func(c *Container) int64 { return c.LastNs }) {
		left := map[string]bool{}
		for k := range m.containers {
			left[k.pod] = true
		}
		maps.DeleteFunc(m.pods, func(uid string, _ *Pod) bool { return !left[uid] })
		for _, owners := range m.owners {
			maps.DeleteFunc(owners, func(_ uint32, o *owner) bool { return o.key != node && m.containers[o.key] == nil })
		}
	}
	for _, owners := range m.owners {
		dropOldest(owners, maxNamespaces, func(o *owner) int64 { return o.lastNs })
	}
}

// dropOldest leaves at most limit of them, and reports whether that took anything. An eighth more goes at once, so that it is not done again soon.
func dropOldest[K comparable, V any](all map[K]V, limit int, lastNs func(V) int64) bool {
	if len(all) <= limit {
		return false
	}
	byAge := slices.SortedFunc(maps.Keys(all), func(a, b K) int { return cmp.Compare(lastNs(all[a]), lastNs(all[b])) })
	for _, k := range byAge[:len(all)-limit+limit/8] {
		delete(all, k)
	}
	return true
}

// Lookup tells whose process it is that has, or had, these namespaces; 0 stands for one that is not known. The mount namespace is a container's own; the
// PID namespace is too, unless the Pod's containers share it; the network namespace is the Pod's. So the ID, and all that is the
// container's own, is empty where no other than these is left to tell it by. It is false where all of them are the node's own or unknown.
func (m *Map) Lookup(netns, mntns, pidns uint32) (Container, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if o := m.home(mntNs, mntns); o != nil {
		return *m.containers[o.key], true
	}
	if o := m.home(pidNs, pidns); o != nil && !o.several {
		return *m.containers[o.key], true
	} else if o != nil {
		return m.ofPod(o.key.pod), true
	}
	if o := m.home(netNs, netns); o != nil && o.key.pod == "" {
		return *m.containers[o.key], true
	} else if o != nil {
		return m.ofPod(o.key.pod), true
	}
	return Container{}, false
}

// ofPod is what is known of a container of which only the Pod is.
func (m *Map) ofPod(uid string) Container {
	pod := m.pods[uid]
	return Container{PodUID: uid, NetNs: pod.NetNs, FirstNs: pod.FirstNs, LastNs: pod.LastNs}
}

// PodByNetNs tells whose network namespace it is, or was; false for the node's own, which Pods may use as well, and for unknown ones.
func (m *Map) PodByNetNs(netns uint32) (Pod, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o := m.home(netNs, netns)
	if o == nil || o.key.pod == "" {
		return Pod{}, false
	}
	return *m.pods[o.key.pod], true
}

// Pods lists those that are known, by UID.
func (m *Map) Pods() []Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	pods := make([]Pod, 0, len(m.pods))
	for _, p := range m.pods {
		pods = append(pods, *p)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// Containers lists those of a Pod, its sandbox among them, in the order in which they were first seen.
func (m *Map) Containers(podUID string) []Container {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []Container
	for k, c := range m.containers {
		if k.pod == podUID {
			found = append(found, *c)
		}
	}
	slices.SortFunc(found, func(a, b Container) int { return cmp.Or(cmp.Compare(a.FirstNs, b.FirstNs), cmp.Compare(a.ID, b.ID)) })
	return found
}
