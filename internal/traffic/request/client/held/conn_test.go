package held

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/wire/websocket"
)

// scripted is a socket whose errors come in an order that the kernel's do not.
type scripted struct {
	net.Conn
	writes  []error // of each Write, nil beyond them
	unread  io.Reader
	hurried chan struct{} // closed by SetReadDeadline: what is unread is read only then
	once    sync.Once
}

func (s *scripted) Write(b []byte) (int, error) {
	if len(s.writes) == 0 {
		return len(b), nil
	}
	err := s.writes[0]
	s.writes = s.writes[1:]
	return len(b), err
}

func (s *scripted) Read(b []byte) (int, error) {
	<-s.hurried
	return s.unread.Read(b)
}

func (s *scripted) SetReadDeadline(time.Time) error {
	s.once.Do(func() { close(s.hurried) })
	return nil
}

func (s *scripted) Close() error { return s.SetReadDeadline(time.Time{}) }

// standing gives an engine whose only user holds a connection over nc, without goroutines.
func standing(t *testing.T, p request.Plan, nc *scripted) (hand, *conn) {
	t.Helper()
	nc.hurried = make(chan struct{})
	h := byHand(t, p)
	c := newConn(h.users[0])
	c.nc, c.in = nc, bufio.NewReader(nc)
	h.users[0].c = c
	return h, c
}

var nowhere = netip.MustParseAddrPort("127.0.0.1:9")

// TestAWriteThatFails: the kernel tells an error once, and the writer may take it from the reader.
func TestAWriteThatFails(t *testing.T) {
	broken := &scripted{writes: []error{syscall.EPIPE}, unread: bytes.NewReader(nil)}
	h, c := standing(t, planTo(request.TCP, nowhere), broken)
	h.working.Go(c.read)
	h.working.Go(c.write)
	if r := h.exchanged(t); r.End != (request.End{Kind: request.EndErrno, Phase: record.PhaseSend, Errno: "EPIPE"}) {
		t.Errorf("%+v", r)
	}
}

// TestAWriteThatFailsAfterTheCloseFrame: what the server said before it stopped listening counts, although it is read later.
func TestAWriteThatFailsAfterTheCloseFrame(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		if p := upgrade(c, ""); p != nil {
			_ = p.obey()
		}
	})
	farewell := websocket.AppendFrame(nil, websocket.Close, websocket.ClosePayload(websocket.CloseGoingAway, ""))
	closing := &scripted{writes: []error{syscall.ECONNRESET}, unread: bytes.NewReader(farewell)}
	h, c := standing(t, planTo(request.WebSocket, s.address), closing)
	h.working.Go(c.read)
	h.working.Go(c.write)
	r := h.exchanged(t)
	if _, reconnects := h.now(); r.End.Kind != request.EndAnswered || r.Reused || reconnects != 1 {
		t.Errorf("%d reconnects, %+v", reconnects, r)
	}
}

func TestErrorsOfADatagram(t *testing.T) {
	late := request.End{Kind: request.EndErrno, Phase: record.PhaseFirstByte, Errno: "ECONNREFUSED"}
	for name, c := range map[string]struct {
		writes          []error
		earlier, itself request.End // the zero End: still under way
	}{
		"of the one before":   {[]error{nil, syscall.ECONNREFUSED, nil}, late, request.End{}},
		"its own":             {[]error{nil, syscall.EMSGSIZE}, request.End{}, request.End{Kind: request.EndErrno, Phase: record.PhaseSend, Errno: "EMSGSIZE"}},
		"again and again":     {[]error{nil, syscall.ECONNREFUSED, syscall.ECONNREFUSED, syscall.ECONNREFUSED}, late, request.End{Kind: request.EndErrno, Phase: record.PhaseSend, Errno: "ECONNREFUSED"}},
		"nothing of any kind": {nil, request.End{}, request.End{}},
	} {
		h, conn := standing(t, planTo(request.UDP, nowhere), &scripted{writes: c.writes, unread: bytes.NewReader(nil)})
		h.due(0, 1)
		h.due(0, 2)
		for range 2 {
			b, x := conn.next()
			conn.sendDatagram(b, x)
		}
		results, _ := h.now()
		got := map[int64]request.End{}
		for _, r := range results {
			got[r.PlannedNs] = r.End
		}
		if got[1] != c.earlier || got[2] != c.itself {
			t.Errorf("%s: %+v", name, results)
		}
		conn.lose(request.End{Kind: request.EndEOF})
	}
}

func TestAnErrorOfADatagramThatRanOutOfTime(t *testing.T) {
	h, c := standing(t, planTo(request.UDP, nowhere), &scripted{unread: bytes.NewReader(nil)})
	c.refused(syscall.ECONNREFUSED, nil)
	h.users[0].expire(&exchange{over: true}, c)
	if results, _ := h.now(); len(results) > 0 {
		t.Errorf("%+v", results)
	}
}

func TestErrnoNames(t *testing.T) {
	e := &engine{ctx: t.Context()}
	for _, c := range []struct {
		err  error
		want request.End
	}{
		{&net.OpError{Err: syscall.ENETUNREACH}, request.End{Kind: request.EndErrno, Errno: "ENETUNREACH"}},
		{syscall.ETIMEDOUT, request.End{Kind: request.EndErrno, Errno: "ETIMEDOUT"}},
		{syscall.Errno(4000), request.End{Kind: request.EndErrno, Errno: "errno 4000"}},
		{io.ErrUnexpectedEOF, request.End{Kind: request.EndEOF}},
		{errors.New("strange"), request.End{Kind: request.EndBadAnswer, Message: "strange"}},
	} {
		if got := e.endOf(c.err, "", request.EndBadAnswer); got != c.want {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}
