// Package faultserver makes servers of the wire protocol that fail on demand,
// each in one exact way, so that a client's judgement of every kind of end can be tested on real sockets.
//
// It must not know the client, and nothing but tests imports it.
package faultserver

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/wire"
)

// Fault is what a server does to every connection when it is told to.
type Fault string

const (
	// RST resets at a message boundary (SO_LINGER 0).
	RST Fault = "rst"
	// RSTMidMessage sends half a message and resets once the client had time to read it.
	RSTMidMessage Fault = "rst-mid-message"
	// FIN closes in order at a message boundary, without a bye.
	FIN Fault = "fin"
	// FINMidMessage sends half a message, then the FIN.
	FINMidMessage Fault = "fin-mid-message"
	// Stall keeps the connection and answers no more.
	Stall Fault = "stall"
	// HalfClose sends the FIN and goes on reading.
	HalfClose Fault = "half-close"
	// ByeThenFIN announces and closes in order; ByeThenRST announces and resets.
	ByeThenFIN Fault = "bye-then-fin"
	ByeThenRST Fault = "bye-then-rst"
	// OtherInstance goes on answering in another's name.
	OtherInstance Fault = "other-instance"
	// Garbage sends a line that is no message; Oversize one without an end.
	Garbage  Fault = "garbage"
	Oversize Fault = "oversize"
	// CloseListener only stops accepting.
	CloseListener Fault = "close-listener"
)

// Faults lists them all.
func Faults() []Fault {
	return []Fault{RST, RSTMidMessage, FIN, FINMidMessage, Stall, HalfClose, ByeThenFIN, ByeThenRST, OtherInstance, Garbage, Oversize, CloseListener}
}

// Names of the answering instances: First until the fault, Second after OtherInstance.
const (
	First, FirstUID   = "first", "uid-first"
	Second, SecondUID = "second", "uid-second"
)

// Server is a TCP server on loopback.
type Server struct {
	fault    Fault
	promises string
	listener net.Listener
	acted    chan struct{}
	act      sync.Once
	stop     chan struct{}
	serving  sync.WaitGroup
}

// Start makes a server that speaks correctly until Act; promises is its hello's (wire.PromiseAnnounce or ""). It ends with the test.
func Start(t testing.TB, f Fault, promises string) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{fault: f, promises: promises, listener: l, acted: make(chan struct{}), stop: make(chan struct{})}
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		close(s.stop)
		_ = l.Close()
		s.serving.Wait()
	})
	return s
}

// Address is host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Act brings the fault about, on every connection.
func (s *Server) Act() {
	s.act.Do(func() {
		close(s.acted)
		if s.fault == CloseListener {
			_ = s.listener.Close()
		}
	})
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() { s.serve(c.(*net.TCPConn)) })
	}
}

// serve answers until the fault is due, with one goroutine that wakes the reading one.
func (s *Server) serve(c *net.TCPConn) {
	defer c.Close()
	ended := make(chan struct{})
	defer close(ended)
	s.serving.Go(func() {
		select {
		case <-s.acted:
			if s.fault != CloseListener {
				_ = c.SetReadDeadline(time.Unix(1, 0))
			}
		case <-s.stop:
			_ = c.SetReadDeadline(time.Unix(1, 0))
		case <-ended:
		}
	})
	id := wire.NewIdentity(First, FirstUID)
	send(c, id.Append(nil, wire.Message{Type: wire.Hello, Promises: s.promises}))
	in := bufio.NewReader(c)
	if !answer(c, in, id) || s.stopped() {
		return
	}
	s.fail(c, in, id)
}

func (s *Server) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// answer answers pings until the read deadline passes (true) or the client is gone (false).
func answer(c net.Conn, in *bufio.Reader, id *wire.Identity) bool {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return os.IsTimeout(err)
		}
		if seq, ok := wire.ParsePing(line[:len(line)-1]); ok {
			send(c, id.AppendBeat(nil, seq))
		}
	}
}

func send(c net.Conn, message []byte) { _, _ = c.Write(append(message, '\n')) }

func (s *Server) fail(c *net.TCPConn, in *bufio.Reader, id *wire.Identity) {
	half := id.AppendBeat(nil, 1)[:20]
	_ = c.SetReadDeadline(time.Time{})
	switch s.fault {
	case RST:
		_ = c.SetLinger(0)
	case RSTMidMessage:
		_, _ = c.Write(half)
		s.pause()
		_ = c.SetLinger(0)
	case FIN:
		s.finish(c)
	case FINMidMessage:
		_, _ = c.Write(half)
		s.finish(c)
	case Stall:
		<-s.stop
	case HalfClose:
		s.finish(c)
	case ByeThenFIN:
		send(c, id.Append(nil, wire.Message{Type: wire.Draining, ClosesInMs: 1}))
		send(c, id.Append(nil, wire.Message{Type: wire.Bye}))
		s.finish(c)
	case ByeThenRST:
		send(c, id.Append(nil, wire.Message{Type: wire.Bye}))
		s.pause()
		_ = c.SetLinger(0)
	case OtherInstance:
		s.wakeAtStop(c)
		answer(c, in, wire.NewIdentity(Second, SecondUID))
	case Garbage:
		send(c, []byte(`HTTP/1.1 400 Bad Request`))
		<-s.stop
	case Oversize:
		_, _ = c.Write(make([]byte, 4*wire.MaxMessageBytes))
		<-s.stop
	}
}

// finish sends the FIN and reads until the client's, so that no reset follows it.
func (s *Server) finish(c *net.TCPConn) {
	_ = c.CloseWrite()
	s.wakeAtStop(c)
	_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
}

func (s *Server) wakeAtStop(c net.Conn) {
	s.serving.Go(func() {
		<-s.stop
		_ = c.SetReadDeadline(time.Unix(1, 0))
	})
}

// pause lets the client read what was sent, which a reset would otherwise overtake.
func (s *Server) pause() {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-s.stop:
	}
}

// UDP is a datagram server on loopback that can vanish, fall silent or change its name.
type UDP struct {
	conn *net.UDPConn
	mu   sync.Mutex
	id   *wire.Identity // nil: silent
}

// StartUDP makes one that answers correctly. It ends with the test.
func StartUDP(t testing.TB) *UDP {
	t.Helper()
	return startUDP(t, 0, wire.NewIdentity(First, FirstUID))
}

// Reopen answers again at the address of a closed one, as the first instance or as another.
func (u *UDP) Reopen(t testing.TB, sameInstance bool) *UDP {
	t.Helper()
	id := wire.NewIdentity(Second, SecondUID)
	if sameInstance {
		id = wire.NewIdentity(First, FirstUID)
	}
	return startUDP(t, u.conn.LocalAddr().(*net.UDPAddr).Port, id)
}

func startUDP(t testing.TB, port int, id *wire.Identity) *UDP {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	u := &UDP{conn: c, id: id}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, wire.MaxMessageBytes)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			u.mu.Lock()
			id := u.id
			u.mu.Unlock()
			if seq, ok := wire.ParsePing(buf[:n]); ok && id != nil {
				_, _ = c.WriteToUDPAddrPort(id.AppendBeat(nil, seq), from)
			}
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		serving.Wait()
	})
	return u
}

// Address is host:port.
func (u *UDP) Address() string { return u.conn.LocalAddr().String() }

// Close closes the socket: the kernel answers with ICMP port unreachable from then on.
func (u *UDP) Close() { _ = u.conn.Close() }

// Silence makes it answer no more.
func (u *UDP) Silence() { u.answerAs(nil) }

// Rename makes Second answer.
func (u *UDP) Rename() { u.answerAs(wire.NewIdentity(Second, SecondUID)) }

func (u *UDP) answerAs(id *wire.Identity) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.id = id
}
