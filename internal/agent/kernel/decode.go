package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Where struct event of bpf/trace.h keeps its fields, which asserts these numbers when it is compiled. All machines that Open
// supports are little-endian.
const (
	atMonoNs    = 0
	atKind      = 8
	atFlags     = 9
	atProtocol  = 10
	atEndsKnown = 11
	atOldState  = 12
	atNewState  = 13
	atICMPType  = 14
	atICMPCode  = 15
	atSignal    = 16
	atDetail    = 20
	atNetNs     = 24
	atIfIndex   = 28
	atPortID    = 32
	atBy        = 36
	atEnds      = 72
	atTo        = 152
	eventSize   = 192
	// shortSize is that of events without a second pair of ends and without somebody whom they go to; fourEndsSize of those without the latter.
	shortSize    = 112
	fourEndsSize = atTo

	endSize  = 20
	commSize = 16
)

// The bits of enum flag in bpf/trace.h.
const (
	flagBystander = 1 << iota
	flagFromKernel
	flagExpired
	flagByRule
	flagRequested
	flagEarly
)

// maxComms bounds how many names of threads a decoder keeps.
const maxComms = 1024

// decoder turns what the programs write into events. It is not safe for concurrent use.
type decoder struct {
	// comms keeps the names of threads, so that an event of a known one allocates nothing.
	comms map[[commSize]byte]string
	// reasons are this kernel's names for why it resets.
	reasons map[int32]string
}

func newDecoder(reasons map[int32]string) *decoder {
	return &decoder{comms: make(map[[commSize]byte]string), reasons: reasons}
}

// decode fills e from one sample. It fails for a sample that no program of this package wrote, and leaves e in no useful state then.
func (d *decoder) decode(sample []byte, e *Event) error {
	if len(sample) != eventSize && len(sample) != fourEndsSize && len(sample) != shortSize {
		return fmt.Errorf("kernel: an event of %d bytes, not %d, %d or %d", len(sample), shortSize, fourEndsSize, eventSize)
	}
	kind := Kind(sample[atKind])
	if kind == 0 || int(kind) >= kinds {
		return fmt.Errorf("kernel: an event of unknown kind %d", kind)
	}
	flags := sample[atFlags]
	detail := int32(binary.LittleEndian.Uint32(sample[atDetail:]))
	*e = Event{
		MonoNs:        int64(binary.LittleEndian.Uint64(sample[atMonoNs:])),
		Kind:          kind,
		By:            d.process(sample[atBy:atEnds]),
		Bystander:     flags&flagBystander != 0,
		Signal:        int(int32(binary.LittleEndian.Uint32(sample[atSignal:]))),
		FromKernel:    flags&flagFromKernel != 0,
		NetNs:         binary.LittleEndian.Uint32(sample[atNetNs:]),
		IfIndex:       int(binary.LittleEndian.Uint32(sample[atIfIndex:])),
		Protocol:      sample[atProtocol],
		OldState:      sample[atOldState],
		NewState:      sample[atNewState],
		ByRule:        flags&flagByRule != 0,
		Requested:     flags&flagRequested != 0,
		Type:          sample[atICMPType],
		Code:          sample[atICMPCode],
		NetlinkPortID: binary.LittleEndian.Uint32(sample[atPortID:]),
		Expired:       flags&flagExpired != 0,
		Early:         flags&flagEarly != 0,
	}
	switch kind {
	case SignalSent:
		if len(sample) != eventSize {
			return errors.New("kernel: a signal without whom it goes to")
		}
		e.To = d.process(sample[atTo:])
		e.Result = SignalResult(detail)
	case ProcessExited:
		e.ExitCode = int(detail)
	case ResetSent:
		e.Reason = d.reasons[detail]
	}
	switch ends, known := sample[atEnds:], sample[atEndsKnown]; {
	case known == 0:
	case known == 2:
		e.Local, e.Remote = end(ends, 0), end(ends, 1)
	case known == 4 && len(sample) >= fourEndsSize:
		e.Original = [2]netip.AddrPort{end(ends, 0), end(ends, 1)}
		e.Reply = [2]netip.AddrPort{end(ends, 2), end(ends, 3)}
	default:
		return fmt.Errorf("kernel: an event of %d bytes with %d addresses", len(sample), known)
	}
	return nil
}

// process reads a struct process.
func (d *decoder) process(b []byte) Process {
	return Process{
		PID:   binary.LittleEndian.Uint32(b[0:]),
		NsPID: binary.LittleEndian.Uint32(b[4:]),
		NetNs: binary.LittleEndian.Uint32(b[8:]),
		MntNs: binary.LittleEndian.Uint32(b[12:]),
		PIDNs: binary.LittleEndian.Uint32(b[16:]),
		Comm:  d.comm([commSize]byte(b[20 : 20+commSize])),
	}
}

// comm is a name up to its first zero byte.
func (d *decoder) comm(raw [commSize]byte) string {
	if name, ok := d.comms[raw]; ok {
		return name
	}
	if len(d.comms) >= maxComms {
		clear(d.comms)
	}
	name, _, _ := bytes.Cut(raw[:], []byte{0})
	s := string(name)
	d.comms[raw] = s
	return s
}

// end reads the struct end with number i. The port is in network order.
func end(ends []byte, i int) netip.AddrPort {
	b := ends[i*endSize:]
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[:16])).Unmap(), binary.BigEndian.Uint16(b[16:]))
}
