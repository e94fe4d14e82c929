package agent

import (
	"net/netip"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// The protocol between harness and agent, over an exec's streams: one JSON object a line.
//
//	agent    {"say":"hello","protocol":1,"version":"v1.2.3","sights":[...],"clock":{...}}   first, unasked
//	harness  {"do":"clock","id":1}                      agent  {"say":"clock","id":1,"clock":{...}}      as often as asked
//	harness  {"do":"watch","id":2,"watch":{...}}        agent  {"say":"watching","id":2,"sights":[...]}  once; the sights that the fronts decide, too
//	harness  {"do":"pods","id":3,"pods":["UID"]}        agent  {"say":"watching","id":3}                 as Pods come
//	                                                    agent  {"say":"facts","facts":[...]}             as they happen
//	                                                    agent  {"say":"gap","gap":{...}}                 as they are known
//	harness  {"do":"find","id":4,"pairs":[...]}         agent  {"say":"facts","id":4,"facts":[...]} ... {"say":"found","id":4,"forgotten_before_mono_ns":0}
//	harness  {"do":"end","id":5}                        agent  {"say":"ended","id":5,"lost":{...},"unfound":["UID"],"cost":{...}}; then the agent ends
//
// An agent ends when its input does, and with it all that it had loaded into the kernel.
const (
	protocolVersion = 1
	// factsPerLine bounds a line far below jsonlines.MaxLine.
	factsPerLine = 500
	// pairsPerOrder bounds what is asked for at a time.
	pairsPerOrder  = 5000
	clockExchanges = 16
)

// order is what the harness says.
type order struct {
	Do    string   `json:"do"`
	ID    int      `json:"id"`
	Watch *Watch   `json:"watch,omitempty"`
	Pods  []string `json:"pods,omitempty"`
	Pairs []Pair   `json:"pairs,omitempty"`
}

// Watch says what is under test.
type Watch struct {
	// Pods are UIDs, as cgroups carry them. Those of other nodes are nobody's here, and no error.
	Pods []string `json:"pods"`
	// Fronts are the Service's addresses that the clients ask; the rules and conntrack entries for them are watched. Empty where clients go
	// to a Pod's own address.
	Fronts []Front `json:"fronts"`
	// Ports are where the Pods listen, and conntrack entries of which are of interest without a Service in between.
	Ports []Port `json:"ports"`
}

// IP protocol numbers.
const (
	TCP uint8 = 6
	UDP uint8 = 17
)

// Front is a Service's address and port; a NodePort has 0.0.0.0 or ::.
type Front struct {
	Protocol uint8          `json:"protocol"`
	Addr     netip.AddrPort `json:"addr"`
}

// Port is a port of a protocol (6 TCP, 17 UDP).
type Port struct {
	Protocol uint8  `json:"protocol"`
	Port     uint16 `json:"port"`
}

// Pair is a connection, by its two ends in any order.
type Pair struct {
	Protocol uint8          `json:"protocol"`
	A        netip.AddrPort `json:"a"`
	B        netip.AddrPort `json:"b"`
}

// Fact is an event on the agent's clock. Event has neither ID, TNs nor node; its subject is empty, as only the harness knows names: PodUID and Container say whose it is.
type Fact struct {
	MonoNs int64        `json:"mono_ns"`
	Event  record.Event `json:"event"`
	// Container is its id, 64 hexadecimal digits; empty where it is none's.
	Container string `json:"container,omitempty"`
	// NotBeforeMonoNs is the last time at which it was still otherwise, for what was found by looking; 0 where that does not apply.
	NotBeforeMonoNs int64 `json:"not_before_mono_ns,omitempty"`
}

// Gap is a time in which a source may have missed something.
type Gap struct {
	Source     record.EventFrom `json:"source"`
	FromMonoNs int64            `json:"from_mono_ns"`
	ToMonoNs   int64            `json:"to_mono_ns"`
	Why        string           `json:"why"`
}

// Cost is what the agent took of its node.
type Cost struct {
	// CPUNs is user and system time of its process; programs in the kernel count to whom they interrupt and are not in it.
	CPUNs int64 `json:"cpu_ns"`
	// RSSBytes is the most that it held resident.
	RSSBytes int64 `json:"rss_bytes"`
}

// word is what an agent says.
type word struct {
	Say      string         `json:"say"`
	ID       int            `json:"id,omitempty"`
	Protocol int            `json:"protocol,omitempty"`
	Version  string         `json:"version,omitempty"`
	Clock    *clock.Reading `json:"clock,omitempty"`
	Sights   []Sight        `json:"sights,omitempty"`
	Facts    []Fact         `json:"facts,omitempty"`
	Gap      *Gap           `json:"gap,omitempty"`
	// ForgottenBeforeMonoNs: connections that ended before it may have been forgotten for want of room; 0 for none.
	ForgottenBeforeMonoNs int64             `json:"forgotten_before_mono_ns,omitempty"`
	Lost                  map[string]uint64 `json:"lost,omitempty"`
	// Unfound are UIDs of Pods that were named and never found.
	Unfound []string `json:"unfound,omitempty"`
	Cost    *Cost    `json:"cost,omitempty"`
	Error   string   `json:"error,omitempty"`
}
