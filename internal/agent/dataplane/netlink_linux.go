package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	// messageBytes is larger than any one part of a dump: the kernel makes them of at most 32 KiB.
	messageBytes = 64 << 10
	// nfgenBytes is struct nfgenmsg: family, version, and the low half of the generation's number.
	nfgenBytes = 4
)

// errInterrupted is a dump in which a commit came in between.
var errInterrupted = errors.New("a commit came in between")

// nftables asks a namespace's nf_tables. It is for one goroutine.
type nftables struct{ conn *netlink.Conn }

func dialNFTables(netns int) (*nftables, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns, MessageBufferSize: messageBytes})
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket for nf_tables: %w", err)
	}
	return &nftables{conn}, nil
}

// ask sends one request and gives each answer without its struct nfgenmsg.
func (n *nftables) ask(message uint16, family uint8, dump bool, attributes []byte, each func(message uint16, b []byte)) error {
	flags := netlink.Request
	if dump {
		flags |= netlink.Dump
	}
	request, err := n.conn.Send(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | message), Flags: flags},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attributes...),
	})
	if err != nil {
		return err
	}
	interrupted := false
	for m, err := range n.conn.ReceiveIter() {
		if err != nil {
			return err
		}
		if m.Header.Sequence != request.Header.Sequence || len(m.Data) < nfgenBytes {
			return fmt.Errorf("an answer to another request (number %d, not %d) or of %d bytes", m.Header.Sequence, request.Header.Sequence, len(m.Data))
		}
		interrupted = interrupted || m.Header.Flags&netlink.DumpInterrupted != 0
		each(uint16(m.Header.Type)&0xff, m.Data[nfgenBytes:])
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

// generation is the number of the rules in force: one more with each commit.
func (n *nftables) generation() (uint32, error) {
	id, found := uint32(0), false
	err := n.ask(unix.NFT_MSG_GETGEN, unix.AF_UNSPEC, false, nil, func(_ uint16, b []byte) {
		id, found = number(attribute(b, unix.NFTA_GEN_ID))
	})
	if err == nil && !found {
		err = errors.New("the answer has no number")
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of the rules: %w", err)
	}
	return id, nil
}

// hooked is whether a chain is there and some hook runs it.
func (n *nftables) hooked(family uint8, table, chain string) (bool, error) {
	is := false
	request := appendText(appendText(nil, unix.NFTA_CHAIN_TABLE, table), unix.NFTA_CHAIN_NAME, chain)
	err := n.ask(unix.NFT_MSG_GETCHAIN, family, false, request, func(_ uint16, b []byte) {
		is = attribute(b, unix.NFTA_CHAIN_HOOK) != nil
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("ask for chain %s of table %s: %w", chain, table, err)
	}
	return is, nil
}

// view reads one table of nf_tables for one look, every chain and map at most once.
type view struct {
	nft    *nftables
	family uint8
	table  string
	bits   int
	// only says which rules of chains that name every front are worth decoding; nil is all.
	only   func([]byte) bool
	chains map[string][]rule
	maps   map[string][]element
}

func newView(nft *nftables, bits int, table string, only func([]byte) bool) *view {
	family := uint8(unix.NFPROTO_IPV4)
	if bits == 128 {
		family = unix.NFPROTO_IPV6
	}
	return &view{nft: nft, family: family, table: table, bits: bits, only: only, chains: map[string][]rule{}, maps: map[string][]element{}}
}

func (v *view) chain(name string) ([]rule, error) {
	if rules, known := v.chains[name]; known {
		return rules, nil
	}
	var rules []rule
	request := appendText(appendText(nil, unix.NFTA_RULE_TABLE, v.table), unix.NFTA_RULE_CHAIN, name)
	err := v.nft.ask(unix.NFT_MSG_GETRULE, v.family, true, request, func(_ uint16, b []byte) {
		expressions := attribute(b, unix.NFTA_RULE_EXPRESSIONS)
		if v.only != nil && namesFronts(name) && !v.only(expressions) {
			return
		}
		// Kernels that do not filter by chain give the whole table.
		if cString(attribute(b, unix.NFTA_RULE_CHAIN)) == name {
			rules = append(rules, decodeRule(expressions, v.bits))
		}
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("read chain %s of table %s: %w", name, v.table, err)
	}
	v.chains[name] = rules
	return rules, nil
}

func (v *view) elements(set string) ([]element, error) {
	if elements, known := v.maps[set]; known {
		return elements, nil
	}
	var elements []element
	err := v.nft.ask(unix.NFT_MSG_GETSETELEM, v.family, true, v.setRequest(set), func(_ uint16, b []byte) {
		elements = append(elements, decodeElements(attribute(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS))...)
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("read map %s of table %s: %w", set, v.table, err)
	}
	v.maps[set] = elements
	return elements, nil
}

func (v *view) setRequest(set string) []byte {
	return appendText(appendText(nil, unix.NFTA_SET_ELEM_LIST_TABLE, v.table), unix.NFTA_SET_ELEM_LIST_SET, set)
}

// lookup asks for one element of a map, which costs the same however many there are. Kernels that are new enough for kube-proxy's nftables mode
// (5.13) know the question.
func (v *view) lookup(set string, key []byte) (found verdict, is bool, err error) {
	value := appendAttribute(nil, unix.NFTA_DATA_VALUE, key)
	item := appendAttribute(nil, unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, value)
	list := appendAttribute(nil, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, item)
	request := appendAttribute(v.setRequest(set), unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, list)
	err = v.nft.ask(unix.NFT_MSG_GETSETELEM, v.family, false, request, func(_ uint16, b []byte) {
		for _, e := range decodeElements(attribute(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			found, is = e.verdict, true
		}
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return verdict{}, false, fmt.Errorf("look for a front in map %s of table %s: %w", set, v.table, err)
	}
	return found, is, nil
}

// subscribe opens a socket that is told of commits, and of nothing else.
func subscribe(netns int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns, MessageBufferSize: messageBytes})
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket for commits: %w", err)
	}
	// First the filter, so that nothing else is ever in the socket's buffer: the kernel tells of each rule, and a full synchronisation of kube-proxy's
	// would fill it. The word about the commit itself is a message of its own.
	filter, err := bpf.Assemble(commitsOnly())
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("assemble the filter for commits: %w", err)
	}
	if err := conn.SetBPF(filter); err != nil {
		conn.Close()
		return nil, fmt.Errorf("set the filter for commits: %w", err)
	}
	if err := conn.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
		conn.Close()
		return nil, fmt.Errorf("ask to be told of commits: %w", err)
	}
	return conn, nil
}

const newGeneration = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN

// commitsOnly lets messages pass whose first is NFT_MSG_NEWGEN. The filter's machine loads in network order, what netlink writes is in the machine's.
func commitsOnly() []bpf.Instruction {
	const typeAt = 4 // of struct nlmsghdr
	want := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, newGeneration))
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: typeAt, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(want), SkipFalse: 1},
		bpf.RetConstant{Val: messageBytes},
		bpf.RetConstant{Val: 0},
	}
}
