package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// Options of getsockopt: IPT_SO_GET_INFO and IP6T_SO_GET_INFO, IPT_SO_GET_ENTRIES and IP6T_SO_GET_ENTRIES.
	getInfo, getEntries = 64, 65
	// tableName is XT_TABLE_MAXNAMELEN.
	tableName = 32
	// infoBytes is struct ipt_getinfo: name, valid hooks, where each begins and ends, number of entries, their bytes.
	infoBytes, validAt, hooksAt, sizeAt = 84, 32, 36, 80
	// entriesAt is where struct ipt_get_entries has them, after name and size.
	entriesAt = 40
)

// legacy asks a namespace's x_tables. It must only be asked for tables that are there: asking would make one.
type legacy struct {
	bits, fd, level int
	// buffer is kept from look to look: tables may be of many megabytes.
	buffer map[string][]byte
}

// openLegacy opens the socket in the namespace of the calling thread.
func openLegacy(bits int) (*legacy, error) {
	l := &legacy{bits: bits, level: unix.SOL_IP, buffer: map[string][]byte{}}
	family := unix.AF_INET
	if bits == 128 {
		family, l.level = unix.AF_INET6, unix.SOL_IPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open a socket for legacy tables: %w", err)
	}
	l.fd = fd
	return l, nil
}

func (l *legacy) close() error { return unix.Close(l.fd) }

// table copies a table out. Its rules are those of one moment: the kernel holds the table's lock while it copies. They are the buffer's, and
// good until the next call for the same table.
func (l *legacy) table(name string, only func([]byte) bool) (*legacyTable, error) {
	const tries = 10
	for range tries {
		info := make([]byte, infoBytes)
		copy(info[:tableName-1], name)
		if err := l.get(getInfo, info); err != nil {
			return nil, fmt.Errorf("ask for the size of legacy table %s: %w", name, err)
		}
		size := int(binary.NativeEndian.Uint32(info[sizeAt:]))
		b := l.buffer[name]
		if cap(b) < entriesAt+size {
			b = make([]byte, entriesAt+size+size/8) // tables grow
		}
		b = b[:entriesAt+size]
		l.buffer[name] = b
		clear(b[:entriesAt])
		copy(b[:tableName-1], name)
		binary.NativeEndian.PutUint32(b[tableName:], uint32(size))
		err := l.get(getEntries, b)
		if errors.Is(err, unix.EAGAIN) {
			continue // it was replaced by one of another size since
		}
		if err != nil {
			return nil, fmt.Errorf("read legacy table %s: %w", name, err)
		}
		var begins [hooks]uint32
		for i := range begins {
			begins[i] = binary.NativeEndian.Uint32(info[hooksAt+4*i:])
		}
		t, err := parseTable(b[entriesAt:], l.bits, binary.NativeEndian.Uint32(info[validAt:]), begins, only)
		if err != nil {
			return nil, fmt.Errorf("legacy table %s: %w", name, err)
		}
		return t, nil
	}
	return nil, fmt.Errorf("read legacy table %s: its size changed %d times in a row while it was read", name, tries)
}

func (l *legacy) get(option int, b []byte) error {
	length := uint32(len(b))
	for {
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(l.fd), uintptr(l.level), uintptr(option),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(&length)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
