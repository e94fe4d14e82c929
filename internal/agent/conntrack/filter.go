package conntrack

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
)

// Filter says which connections are under test. A connection must meet each of its three lists that is not empty.
type Filter struct {
	// Protocols are IP protocol numbers.
	Protocols []uint8
	// Ports are those that a client asked for (the original destination) or that really served it (the reply's source).
	Ports []uint16
	// Addrs are those that a client asked for or that really served it.
	Addrs []netip.Addr
}

// matches is what the filter means. The kernel's program only saves the way up here.
func (f *Filter) matches(e *Entry) bool {
	asked, served := e.Original[1], e.Reply[0]
	return (len(f.Protocols) == 0 || slices.Contains(f.Protocols, e.Protocol)) &&
		(len(f.Ports) == 0 || slices.Contains(f.Ports, asked.Port()) || slices.Contains(f.Ports, served.Port())) &&
		(len(f.Addrs) == 0 || slices.Contains(f.Addrs, asked.Addr()) || slices.Contains(f.Addrs, served.Addr()))
}

// clone gives a copy that shares nothing, with addresses as the kernel tells them: 4 bytes for IPv4.
func (f *Filter) clone() Filter {
	c := Filter{Protocols: slices.Clone(f.Protocols), Ports: slices.Clone(f.Ports)}
	for _, a := range f.Addrs {
		c.Addrs = append(c.Addrs, a.Unmap().WithZone(""))
	}
	return c
}

// programs gives socket filters for f, the strictest first: a kernel that finds one too long may take the next. The last is never too long
// for one. Each lets through all that f and updates want, and messages that lack what it looks for.
func programs(f Filter, updates []uint8) [][]bpf.RawInstruction {
	var all [][]bpf.RawInstruction
	for _, f := range []Filter{f, {Protocols: f.Protocols, Ports: f.Ports}, {Protocols: f.Protocols}} {
		// An error here says that a jump is too far or an instruction unknown: neither depends on the lists' lengths.
		if raw, err := bpf.Assemble(program(f, updates)); err == nil && len(raw) <= maxInstructions {
			all = append(all, raw)
		}
	}
	return all
}

// maxInstructions is the kernel's limit for a socket filter (BPF_MAXINSNS).
const maxInstructions = 4096

// Slots of the program's scratch memory.
const (
	slotOriginal = iota // where the attribute attrOriginal begins
	slotReply
	slotProtocol // the value of protoNumber
)

// program writes the filter as instructions for the kernel's classic socket filter. It finds attributes by
// the kernel's own extensions for that (SKF_AD_NLATTR: the attribute of type X in the sequence that begins at A; SKF_AD_NLATTR_NEST: the
// attribute of type X within the one that begins at A; both give 0 where there is none).
func program(f Filter, updates []uint8) []bpf.Instruction {
	var p assembler
	p.find(attrOriginal, slotOriginal)
	p.find(attrReply, slotReply)
	p.nested(slotOriginal, tupleProto)
	p.ifZero(accept)
	p.nestedOfA(protoNumber)
	p.ifZero(accept)
	p.add(bpf.TAX{}, bpf.LoadIndirect{Off: attributeHead, Size: 1}, bpf.StoreScratch{Src: bpf.RegA, N: slotProtocol})

	if len(f.Protocols) > 0 {
		for _, n := range f.Protocols {
			p.ifEqual(uint32(n), wantedProtocol)
		}
		p.jump(drop)
		p.place(wantedProtocol)
	}

	// An UPDATE is msgNew without flagCreate; both are of 16 bits, in the host's order.
	low, high := 4, 7
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		low, high = 5, 6
	}
	p.add(bpf.LoadAbsolute{Off: uint32(low), Size: 1})
	p.unless(bpf.JumpEqual, msgNew&0xff, wantedKind)
	p.add(bpf.LoadAbsolute{Off: uint32(high), Size: 1})
	p.unless(bpf.JumpBitsNotSet, flagCreate>>8, wantedKind)
	p.add(bpf.LoadScratch{Dst: bpf.RegA, N: slotProtocol})
	for _, n := range updates {
		p.ifEqual(uint32(n), wantedKind)
	}
	p.jump(drop)
	p.place(wantedKind)

	if len(f.Ports) > 0 {
		for _, end := range []struct {
			slot int
			port uint32
			next label
		}{{slotOriginal, protoDestination, notAskedPort}, {slotReply, protoSource, drop}} {
			p.nested(end.slot, tupleProto)
			p.ifZero(end.next)
			p.nestedOfA(end.port)
			p.ifZero(end.next)
			p.add(bpf.TAX{}, bpf.LoadIndirect{Off: attributeHead, Size: 2})
			for _, port := range f.Ports {
				p.ifEqual(uint32(port), wantedPort)
			}
			p.jump(end.next)
			p.place(notAskedPort)
		}
		p.place(wantedPort)
	}

	if len(f.Addrs) > 0 {
		for _, end := range []struct {
			slot   int
			v4, v6 uint32
		}{{slotOriginal, ipV4Destination, ipV6Destination}, {slotReply, ipV4Source, ipV6Source}} {
			for _, version := range []struct {
				attr uint32
				size int
			}{{end.v4, 4}, {end.v6, 16}} {
				p.nested(end.slot, tupleIP)
				p.ifZero(nextAddr)
				p.nestedOfA(version.attr)
				p.ifZero(nextAddr)
				p.add(bpf.TAX{})
				for _, addr := range f.Addrs {
					if b := addr.AsSlice(); len(b) == version.size {
						p.ifBytes(b, accept)
					}
				}
				p.place(nextAddr)
			}
		}
		p.jump(drop)
	}
	p.place(accept)
	p.add(bpf.RetConstant{Val: math.MaxUint32})
	p.place(drop)
	p.add(bpf.RetConstant{Val: 0})
	return p.code
}

// label is a place further on that jumps go to.
type label int

const (
	accept label = iota
	drop
	wantedProtocol
	wantedKind
	notAskedPort
	wantedPort
	nextAddr
)

// assembler writes instructions and fills in jumps to labels when these are placed.
type assembler struct {
	code []bpf.Instruction
	// open are the instructions that jump to a label that is not placed yet.
	open map[label][]int
}

func (p *assembler) add(code ...bpf.Instruction) { p.code = append(p.code, code...) }

// jump goes to a label, however far it is: a conditional jump spans 255 instructions only, and so is made to skip this one.
func (p *assembler) jump(to label) {
	if p.open == nil {
		p.open = map[label][]int{}
	}
	p.open[to] = append(p.open[to], len(p.code))
	p.add(bpf.Jump{})
}

// place makes the next instruction the one that the open jumps to l go to. The name is free again after it.
func (p *assembler) place(l label) {
	for _, at := range p.open[l] {
		p.code[at] = bpf.Jump{Skip: uint32(len(p.code) - at - 1)}
	}
	delete(p.open, l)
}

func (p *assembler) ifEqual(value uint32, to label) {
	p.add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: 1})
	p.jump(to)
}

func (p *assembler) ifZero(to label) { p.ifEqual(0, to) }

// unless goes to a label where the comparison of A with value fails.
func (p *assembler) unless(cond bpf.JumpTest, value uint32, to label) {
	p.add(bpf.JumpIf{Cond: cond, Val: value, SkipTrue: 1})
	p.jump(to)
}

// find stores where the message's attribute of that type begins; a message without it is let through.
func (p *assembler) find(attr uint32, slot int) {
	p.add(
		bpf.LoadConstant{Dst: bpf.RegA, Val: attributesAt},
		bpf.LoadConstant{Dst: bpf.RegX, Val: attr},
		bpf.LoadExtension{Num: bpf.ExtNetlinkAttr})
	p.ifZero(accept)
	p.add(bpf.StoreScratch{Src: bpf.RegA, N: slot})
}

// nested loads into A where an attribute begins within the one that slot points to; 0 where there is none.
func (p *assembler) nested(slot int, attr uint32) {
	p.add(bpf.LoadScratch{Dst: bpf.RegA, N: slot})
	p.nestedOfA(attr)
}

func (p *assembler) nestedOfA(attr uint32) {
	p.add(bpf.LoadConstant{Dst: bpf.RegX, Val: attr}, bpf.LoadExtension{Num: bpf.ExtNetlinkAttrNested})
}

// ifBytes goes to a label where the value of the attribute at X is b, whose length is a multiple of 4.
func (p *assembler) ifBytes(b []byte, to label) {
	for at := 0; at < len(b); at += 4 {
		// To the end of this comparison: what follows of this word, two instructions for every other one, and the jump.
		left := (len(b)-at-4)/4*2 + 1
		p.add(
			bpf.LoadIndirect{Off: uint32(attributeHead + at), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(b[at:]), SkipFalse: uint8(left)})
	}
	p.jump(to)
}
