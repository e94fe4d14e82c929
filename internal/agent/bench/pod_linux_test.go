package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
)

// The servers that a Pod may run.
const (
	// httpServer is a service as it is written: net/http with a handler that writes some words.
	httpServer = "net-http"
	// bareServer makes the fewest system calls that there can be, and so is changed most by what is added to them.
	bareServer = "bare"
)

const (
	servers = 16
	body    = "hello, world"
	answer  = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n" + body
)

// podOrders are those of the Pod's only container.
var podOrders = map[string]func(order) (any, error){
	"serve": func(o order) (any, error) {
		if _, err := exitProcess(); err != nil { // before its first, Go runs a process more, to try what the kernel can
			return nil, err
		}
		if o.Server == httpServer {
			return true, serveHTTP()
		}
		return true, serve()
	},
	"listen": func(o order) (any, error) { return repeat(o.Times, openListener) },
	"close":  func(o order) (any, error) { return repeat(o.Times, closeConnection(false)) },
	"reset":  func(o order) (any, error) { return repeat(o.Times, closeConnection(true)) },
	"exit":   func(o order) (any, error) { return repeat(o.Times, exitProcess) },
}

// repeat does something again and again and lists when.
func repeat(times int, act func() ([]bracket, error)) ([]bracket, error) {
	var all []bracket
	for range times {
		one, err := act()
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// serveHTTP serves as Go programs do.
func serveHTTP() error {
	l, err := net.Listen("tcp4", fmt.Sprint(":", podPort))
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	}()
	return nil
}

// serve answers each connection's first words and closes it, as a server does without keep-alive. Its threads block in the kernel: the
// less a request costs here, the more of it is what the agent adds.
func serve() error {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.SetsockoptInt(l, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(l, &unix.SockaddrInet4{Port: podPort}), unix.Listen(l, 4096)); err != nil {
		return err
	}
	for range servers {
		go func() {
			runtime.LockOSThread()
			var buf [1024]byte
			for {
				c, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
				if err != nil {
					continue // a connection that its client gave up
				}
				if n, err := unix.Read(c, buf[:]); err == nil && n > 0 {
					_, _ = unix.Write(c, []byte(answer))
				}
				_ = unix.Close(c)
			}
		}()
	}
	return nil
}

// openListener opens a listening socket and closes it.
func openListener() ([]bracket, error) {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, err
	}
	name, err := unix.Getsockname(l)
	if err != nil {
		return nil, err
	}
	both := [2]bracket{{Local: addrPort(name).String()}, {Local: addrPort(name).String()}}
	both[0].BeforeNs = clock.MonoNs()
	err = unix.Listen(l, 1)
	both[0].AfterNs = clock.MonoNs()
	both[1].BeforeNs = clock.MonoNs()
	err = errors.Join(err, unix.Close(l))
	both[1].AfterNs = clock.MonoNs()
	return both[:], err
}

func addrPort(a unix.Sockaddr) netip.AddrPort {
	four, ok := a.(*unix.SockaddrInet4)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), uint16(four.Port))
}

// closeConnection makes a connection within the Pod and closes it on its server's side, with a FIN or a reset.
func closeConnection(reset bool) func() ([]bracket, error) {
	return func() ([]bracket, error) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return nil, err
		}
		defer c.Close()
		accepted, err := l.Accept()
		if err != nil {
			return nil, err
		}
		defer accepted.Close()
		f, err := accepted.(*net.TCPConn).File()
		if err != nil {
			return nil, err
		}
		fd, err := unix.Dup(int(f.Fd())) // the last of its descriptors, so that the close below is the system call and nothing else
		if err != nil {
			return nil, err
		}
		one := bracket{Local: accepted.LocalAddr().String(), Remote: accepted.RemoteAddr().String()}
		if reset {
			err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
		if err := errors.Join(err, f.Close(), accepted.Close()); err != nil {
			return nil, err
		}
		one.BeforeNs = clock.MonoNs()
		err = unix.Close(fd)
		one.AfterNs = clock.MonoNs()
		return []bracket{one}, err
	}
}

// exitProcess runs a process that says the time as the last thing that it does.
func exitProcess() ([]bracket, error) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), roleVariable+"=exit")
	text, err := c.Output()
	one := bracket{AfterNs: clock.MonoNs()}
	if err != nil {
		return nil, err
	}
	if one.BeforeNs, err = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err != nil {
		return nil, fmt.Errorf("the child's last words: %w", err)
	}
	return []bracket{one}, nil
}
