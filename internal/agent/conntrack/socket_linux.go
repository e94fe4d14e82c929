package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is one of nfnetlink, in the namespace of the thread that opened it.
type socket struct {
	file   *os.File
	raw    syscall.RawConn
	portID uint32
	closed atomic.Bool
}

// blocking is a socket that the runtime does not wait for. It would be woken for every message, also while nobody wants any.
const blocking = 0

// openSocket makes one with those flags.
func openSocket(flags int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "nfnetlink")}
	// A port id of its own choice, from the upper half: those that the kernel would choose are the numbers of processes, by which Whose
	// recognises others. In a container this process too may be number 1.
	for range 100 {
		s.portID = 1<<31 | rand.Uint32()
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: s.portID}); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		s.file.Close()
		return nil, fmt.Errorf("bind a netlink socket: %w", err)
	}
	return s, nil
}

func openSocketIn(namespace *os.File) (s *socket, err error) {
	err = within(namespace, func() (err error) {
		s, err = openSocket(unix.SOCK_NONBLOCK)
		return err
	})
	return s, err
}

func (s *socket) close() error {
	s.closed.Store(true)
	return s.file.Close()
}

// failed gives an error of waiting for the socket its name where it was closed: the runtime's own has none outside of it.
func (s *socket) failed(err error) error {
	if s.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// control runs f, which sets an option, with the socket's descriptor.
func (s *socket) control(f func(fd int) error) error {
	var err error
	if outer := s.raw.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

// until makes what waits for the socket return when ctx ends. The function that it returns undoes that.
func (s *socket) until(ctx context.Context) (undo func(), err error) {
	if err := s.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("wait for a netlink socket: %w", s.failed(err))
	}
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		// It fails only where the socket is closed, which ends the wait as well.
		_ = s.file.SetReadDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-set // or it would end the next wait
		}
	}, nil
}

// receive waits for one datagram of the kernel and reads it into buffer.
func (s *socket) receive(buffer []byte) ([]byte, error) {
	var n int
	var from unix.Sockaddr
	var err error
	outer := s.raw.Read(func(fd uintptr) bool {
		for {
			n, from, err = unix.Recvfrom(int(fd), buffer, unix.MSG_TRUNC)
			if sender, ok := from.(*unix.SockaddrNetlink); err == nil && ok && sender.Pid != 0 {
				continue // another process wrote to it
			}
			if err != unix.EINTR {
				break
			}
		}
		return err != unix.EAGAIN
	})
	if outer != nil {
		return nil, s.failed(outer)
	}
	if err != nil {
		return nil, os.NewSyscallError("recvfrom", err)
	}
	if n > len(buffer) {
		return nil, fmt.Errorf("%w: a datagram of %d bytes", errTooLong, n)
	}
	return buffer[:n], nil
}

// errTooLong is a datagram that the buffer could not hold.
var errTooLong = errors.New("longer than any that is known")

// receiveBytes is room for any datagram: the kernel fills those of a dump up to 32 KiB.
const receiveBytes = 64 << 10

// ask sends one request and gives each message of the answer, up to its end, to visit. A dump's end is NLMSG_DONE; that of
// another answer is its acknowledgement, which the request must ask for. The error of the kernel's answer is a syscall.Errno. After an error the socket may not be asked again.
func (s *socket) ask(ctx context.Context, message []byte, visit func(h header, payload []byte) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // a short answer would be there before the wait for it is ended
	}
	undo, err := s.until(ctx)
	if err != nil {
		return err
	}
	defer undo()
	asked, _, _, err := cutMessage(message)
	if err != nil {
		return err
	}
	if err := s.control(func(fd int) error {
		return unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}); err != nil {
		return fmt.Errorf("send a netlink request: %w", err)
	}
	buffer := make([]byte, receiveBytes)
	for {
		datagram, err := s.receive(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("receive a netlink answer: %w", err)
		}
		for len(datagram) > 0 {
			h, payload, rest, err := cutMessage(datagram)
			if err != nil {
				return err
			}
			datagram = rest
			switch {
			case h.seq != asked.seq:
			case h.kind == unix.NLMSG_DONE, h.kind == unix.NLMSG_ERROR:
				return answered(payload)
			default:
				if err := visit(h, payload); err != nil {
					return err
				}
			}
		}
	}
}

// answered is the error that an NLMSG_ERROR or NLMSG_DONE carries; nil for an acknowledgement.
func answered(payload []byte) error {
	if len(payload) < 4 {
		return errors.New("the end of a netlink answer without its error number")
	}
	if code := int32(binary.NativeEndian.Uint32(payload)); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
