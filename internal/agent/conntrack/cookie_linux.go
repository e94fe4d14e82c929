package conntrack

import "golang.org/x/sys/unix"

// Cookie is the kernel's own number of the socket that the events come to (SO_COOKIE, socket(7)): who traces the kernel knows it by that.
func (l *Listener) Cookie() (cookie uint64, err error) {
	if e := l.events.control(func(fd int) error {
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		return nil
	}); e != nil {
		return 0, e
	}
	return cookie, err
}
