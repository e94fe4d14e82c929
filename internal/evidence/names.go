package evidence

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// names holds what the API told of Pods, containers and addresses, so that what an agent knows by number gets its name.
type names struct {
	mu         sync.Mutex
	pods       map[string]string // by UID
	containers map[string]string // by id without its runtime: POD/NAME
	// addresses are who had one, in order of the time at which that was heard.
	addresses map[netip.Addr][]holder
	told      map[string]int64 // when an agent was told of a Pod, on the harness's clock, by UID
	ran       map[string]bool  // UIDs of Pods of which the API told that a container had started
}

// holder is a Pod that had an address, and since when at the latest, on the harness's clock.
type holder struct {
	pod, uid    string
	sinceMonoNs int64
}

// hold notes who has an address; the caller holds mu.
func (n *names) hold(a netip.Addr, pod, uid string) {
	list := n.addresses[a]
	if len(list) == 0 || list[len(list)-1].uid != uid {
		n.addresses[a] = append(list, holder{pod, uid, clock.MonoNs()})
	}
}

// newsLate is how late the API's word of a new holder may be.
const newsLate = int64(2 * time.Second)

// holderAt gives who had an address at a time; the caller holds mu.
func (n *names) holderAt(a netip.Addr, monoNs int64) (h holder, ok bool) {
	for i, x := range n.addresses[a] {
		if i == 0 || x.sinceMonoNs-newsLate <= monoNs {
			h, ok = x, true
		}
	}
	return h, ok
}

func newNames() *names {
	return &names{pods: map[string]string{}, containers: map[string]string{}, addresses: map[netip.Addr][]holder{}, told: map[string]int64{}, ran: map[string]bool{}}
}

// tell takes a Pod that an agent is told of otherwise.
func (n *names) tell(p Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[p.UID], n.told[p.UID] = p.Name, clock.MonoNs()
	if p.IP.IsValid() {
		n.hold(p.IP, p.Name, p.UID)
	}
}

// learn takes an event of the API, and reports whether it names a Pod for the first time that runs on a node.
func (n *names) learn(e record.Event) (isNew bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod := record.PodOf(e.Subject)
	if pod == "" || e.PodUID == "" {
		return false
	}
	n.pods[e.PodUID] = pod
	if id, ok := e.Detail["container_id"].(string); ok {
		if _, bare, found := strings.Cut(id, "://"); found {
			id = bare
		}
		n.containers[id] = strings.TrimPrefix(e.Subject, "container/")
	}
	if list, ok := e.Detail["addresses"].(string); ok {
		for _, text := range strings.Split(list, ",") {
			if a, err := netip.ParseAddr(text); err == nil {
				n.hold(a, pod, e.PodUID)
			}
		}
	}
	if e.Kind == record.ContainerStarted || e.Kind == record.ContainerExited {
		n.ran[e.PodUID] = true
	}
	if _, told := n.told[e.PodUID]; e.Node == "" || told {
		return false
	}
	n.told[e.PodUID] = clock.MonoNs()
	return true
}

// missed says of a Pod that an agent never found whether it had run; since is when the agent was told of it.
func (n *names) missed(uid string) (pod string, sinceMonoNs int64, ran bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[uid], n.told[uid], n.ran[uid]
}

// subject says in the record's words whose event it is.
func (n *names) subject(e *record.Event, container string, monoNs int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod := n.pods[e.PodUID]
	switch e.Kind {
	case record.RuleAdded, record.RuleRemoved:
		if backend, err := parse(e.Detail["backend"]); err == nil {
			if h, ok := n.holderAt(backend.Addr(), monoNs); ok {
				e.Subject, e.PodUID = "endpoint/"+h.pod, h.uid
				return
			}
		}
	case record.SignalSent, record.ProcessExited:
		if name := n.containers[container]; name != "" {
			e.Subject = "container/" + name
			return
		}
		if container != "" {
			// The sandbox's, or one that the API never named: its first process is nobody's application.
			e.Detail["container_id"], e.Detail["first_process"] = container, false
		}
	}
	if pod != "" {
		e.Subject = "pod/" + pod
		return
	}
	e.Subject = "node/" + e.Node
}

func parse(v any) (netip.AddrPort, error) {
	text, ok := v.(string)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("no address: %v", v)
	}
	return netip.ParseAddrPort(text)
}
