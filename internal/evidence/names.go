package evidence

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/drainproof/drainproof/internal/record"
)

// names holds what the API told of Pods, containers and addresses, so that what an agent knows by number gets its name.
type names struct {
	mu         sync.Mutex
	pods       map[string]string // by UID
	containers map[string]string // by id without its runtime: POD/NAME
	addresses  map[netip.Addr]string
	told       map[string]bool // UIDs that an agent was told of
}

func newNames() *names {
	return &names{pods: map[string]string{}, containers: map[string]string{}, addresses: map[netip.Addr]string{}, told: map[string]bool{}}
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
				n.addresses[a] = pod
			}
		}
	}
	if e.Node == "" || n.told[e.PodUID] {
		return false
	}
	n.told[e.PodUID] = true
	return true
}

// subject says in the record's words whose event it is.
func (n *names) subject(e *record.Event, container string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod := n.pods[e.PodUID]
	switch e.Kind {
	case record.RuleAdded, record.RuleRemoved:
		backend, err := parse(e.Detail["backend"])
		if pod = n.addresses[backend.Addr()]; err == nil && pod != "" {
			e.Subject = "endpoint/" + pod
			e.PodUID = n.uidOf(pod)
			return
		}
	case record.SignalSent, record.ProcessExited:
		if name := n.containers[container]; name != "" {
			e.Subject = "container/" + name
			return
		}
		if container != "" {
			e.Detail["container_id"] = container // the sandbox's, or one that the API never named
		}
	}
	if pod != "" {
		e.Subject = "pod/" + pod
		return
	}
	e.Subject = "node/" + e.Node
}

// uidOf gives the UID where one Pod only has had the name.
func (n *names) uidOf(pod string) string {
	found := ""
	for uid, name := range n.pods {
		if name == pod {
			if found != "" {
				return ""
			}
			found = uid
		}
	}
	return found
}

func parse(v any) (netip.AddrPort, error) {
	text, ok := v.(string)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("no address: %v", v)
	}
	return netip.ParseAddrPort(text)
}
