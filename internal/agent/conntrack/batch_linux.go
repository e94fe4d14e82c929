package conntrack

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of a batch: an event has less than 1 KiB.
const (
	batchDatagrams = 32
	datagramBytes  = 4 << 10
)

// batch is what one call of recvmmsg(2) fills.
type batch struct {
	headers [batchDatagrams]batchHeader
	vectors [batchDatagrams]unix.Iovec
	senders [batchDatagrams]unix.RawSockaddrNetlink
	buffers [batchDatagrams][datagramBytes]byte
}

// batchHeader is struct mmsghdr.
type batchHeader struct {
	unix.Msghdr
	length uint32
}

func newBatch() *batch {
	b := &batch{}
	for i := range b.headers {
		b.vectors[i].Base = &b.buffers[i][0]
		b.vectors[i].SetLen(datagramBytes)
		h := &b.headers[i]
		h.Iov = &b.vectors[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&b.senders[i]))
	}
	return b
}

// receiveAll fills the batch with what is there, and counts it. EAGAIN: nothing was.
func (s *socket) receiveAll(b *batch) (n int, err error) {
	for i := range b.headers {
		b.headers[i].Namelen = unix.SizeofSockaddrNetlink
	}
	outer := s.raw.Control(func(fd uintptr) {
		for {
			got, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.headers[0])), batchDatagrams, unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
			if errno == 0 {
				n, err = int(got), nil
				return
			}
			if errno != unix.EINTR {
				err = os.NewSyscallError("recvmmsg", errno)
				return
			}
		}
	})
	if outer != nil {
		return 0, s.failed(outer)
	}
	return n, err
}

// datagram gives one of those that were received, valid until the next are; empty where it was another process that wrote to the socket.
func (b *batch) datagram(i int) ([]byte, error) {
	h := &b.headers[i]
	switch {
	case b.senders[i].Pid != 0:
		return nil, nil
	case h.length > datagramBytes:
		return nil, fmt.Errorf("%w: a datagram of %d bytes", errTooLong, h.length)
	}
	return b.buffers[i][:h.length], nil
}
