//go:build amd64 || arm64

package kernel

import (
	"bytes"
	"embed"
	"fmt"

	"github.com/cilium/ebpf"
)

// The objects are compiled by scripts/bpf.sh. One serves every little-endian machine: nothing in them depends on its registers.
//
//go:embed bpf/*.bpfel.o
var objects embed.FS

// source is one source of events, and the programs that can observe it, best first.
type source struct {
	what  string
	kinds []Kind
	ways  []string
}

// socketFilter is the program that TakeConntrack attaches; its hook is a socket of the caller's.
const socketFilter = "dp_entry_told"

// sources is what Open tries. One program may serve two sources: since Linux 6.10 a single tracepoint tells every reset.
var sources = []source{
	{"signals", []Kind{SignalSent}, []string{"dp_signal"}},
	{"exits of processes", []Kind{ProcessExited}, []string{"dp_exit"}},
	{"listeners and ends of TCP connections", []Kind{ListenerOpened, ListenerClosed, SocketState}, []string{"dp_state"}},
	{"resets that TCP sockets send", []Kind{ResetSent}, []string{"dp_reset", "dp_reset_old"}},
	{"resets for want of a socket, IPv4", []Kind{ResetSent}, []string{"dp_reset", "dp_reset4"}},
	{"resets for want of a socket, IPv6", []Kind{ResetSent}, []string{"dp_reset", "dp_reset6"}},
	{"resets that rules send, IPv4", []Kind{ResetSent}, []string{"dp_rule_reset4"}},
	{"resets that rules send, IPv6", []Kind{ResetSent}, []string{"dp_rule_reset6"}},
	{"resets received", []Kind{ResetReceived}, []string{"dp_reset_in"}},
	{"ICMP errors sent", []Kind{ICMPSent}, []string{"dp_icmp", "dp_icmp_old"}},
	{"ICMPv6 errors sent", []Kind{ICMPSent}, []string{"dp_icmp6"}},
	{"deletions of conntrack entries", []Kind{EntryDeleted}, []string{"dp_entry", socketFilter}},
	{"other news of conntrack entries", []Kind{EntryNew, EntryUpdated}, []string{socketFilter}},
	{"closings of UDP sockets, IPv4", []Kind{UDPClosed}, []string{"dp_udp4_closed"}},
	{"closings of UDP sockets, IPv6", []Kind{UDPClosed}, []string{"dp_udp6_closed"}},
}

// specs reads the embedded objects, and answers for each program the object that holds it.
func specs() (map[string]*ebpf.CollectionSpec, error) {
	entries, err := objects.ReadDir("bpf")
	if err != nil {
		return nil, fmt.Errorf("kernel: embedded programs: %w", err)
	}
	byProgram := make(map[string]*ebpf.CollectionSpec)
	for _, entry := range entries {
		object, err := objects.ReadFile("bpf/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("kernel: embedded programs: %w", err)
		}
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
		if err != nil {
			return nil, fmt.Errorf("kernel: embedded programs: %s: %w", entry.Name(), err)
		}
		for name := range spec.Programs {
			byProgram[name] = spec
		}
	}
	return byProgram, nil
}
