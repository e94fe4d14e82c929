package kernel

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is what a closed Tracer answers.
var ErrClosed = errors.New("kernel: the tracer is closed")

// Options say what Open prepares. The zero value is ready to use.
type Options struct {
	// Signals are the numbers of the signals to tell of; nil for DefaultSignals.
	Signals []int
	// RingBytes is the size of the buffer between kernel and reader, rounded up to a power of two and to a page; 0 for DefaultRingBytes.
	RingBytes int
	// Nap is how long what connections have waits at most to be told; 0 for DefaultNap.
	Nap time.Duration

	// without names programs that are treated as if this kernel could not have them; for tests.
	without []string
}

// DefaultRingBytes holds what about 7,000 connections have: more than a second of a slow reader at 5,000 new ones per second. Twice as much is in the
// memory of the reading process, which sees it twice.
const DefaultRingBytes = 2 << 20

// DefaultNap is one in which 250,000 events a second would fill DefaultRingBytes.
const DefaultNap = 50 * time.Millisecond

// DefaultSignals are those that end processes, and those that images name as their stop signal.
var DefaultSignals = []int{
	1,  // HUP
	2,  // INT
	3,  // QUIT
	9,  // KILL
	10, // USR1
	12, // USR2
	15, // TERM
	28, // WINCH
	30, // PWR
	37, // RTMIN+3, as C libraries count: what stops a systemd
}

// maxSignal is the last number that Linux has on amd64 and arm64.
const maxSignal = 64

// mask has bit n-1 for signal n, as the programs want it.
func (o Options) mask() (uint64, error) {
	signals := o.Signals
	if signals == nil {
		signals = DefaultSignals
	}
	var mask uint64
	for _, n := range signals {
		if n < 1 || n > maxSignal {
			return 0, fmt.Errorf("kernel: signal %d: not between 1 and %d", n, maxSignal)
		}
		mask |= 1 << (n - 1)
	}
	return mask, nil
}

// ringBytes is the size that the kernel will take: a power of two and a multiple of the page.
func (o Options) ringBytes(page int) (uint32, error) {
	want := o.RingBytes
	if want == 0 {
		want = DefaultRingBytes
	}
	const most = 1 << 30
	if want < 0 || want > most {
		return 0, fmt.Errorf("kernel: a ring of %d bytes: not between 1 and %d", want, most)
	}
	size := page
	for size < want {
		size *= 2
	}
	return uint32(size), nil
}

// Subject is what of a namespace is told. Values may be combined.
type Subject uint32

// The bits are those of enum subject in bpf/trace.h.
const (
	// Sockets, of a network namespace: listeners, ends of connections, resets, ICMP errors, closings of UDP sockets.
	Sockets Subject = 1 << iota
	// Processes, of a network or PID namespace: signals to its processes, and their exits.
	Processes
)

// Loss counts, since Open, what happened and was not told.
type Loss struct {
	// NoRoom counts events for which the ring had no room, by kind; kinds that lost none are absent.
	NoRoom map[Kind]uint64
	// Nested counts how often a program was not run because it had interrupted itself on the same processor. It ran for nothing
	// as a rule: most of what it sees is not watched. An upper bound, of all kinds together; always 0 before Linux 5.12.
	Nested uint64
}

// Sight says of one source of events whether this kernel lets it be seen.
type Sight struct {
	// What is seen or not, in words: "resets that rules send, IPv6".
	What string
	// Kinds of events that come from it. A kind may have several sources.
	Kinds []Kind
	Seen  bool
	// How names the means: "fentry/nf_ct_delete"; empty where it is not seen.
	How string
	// Why says what is missing, in words that an administrator can act on; empty where it is seen.
	Why string
}
