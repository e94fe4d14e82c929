package held

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// echo answers n reads, or all there are where n is negative.
func echo(c net.Conn, n int) bool {
	b := make([]byte, 1024)
	for ; n != 0; n-- {
		got, err := c.Read(b)
		if err != nil {
			return false
		}
		_, _ = c.Write(b[:got])
	}
	return true
}

func TestTCP(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) { echo(c, -1) })
	p := planTo(request.TCP, s.address)
	p.Rate, p.Users = 100, 2
	k, e := start(t, p)
	k.await(t, 10)
	e.Stop()
	results, reconnects := k.now()
	if reconnects != 0 || len(failures(results)) > 0 {
		t.Fatalf("failed %+v", failures(results))
	}
	for i, r := range results[:10] {
		if r.Reused != (r.ConnRequests > 0) || r.BytesReceived < int64(len(p.Target.Body)) {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

func TestTCPEnds(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(c net.Conn)
		body string
		want request.End
	}{
		"fin":           {finish, "hello", request.End{Kind: request.EndEOF, Phase: record.PhaseFirstByte}},
		"rst":           {reset, "hello", request.End{Kind: request.EndErrno, Errno: "ECONNRESET", Phase: record.PhaseFirstByte}},
		"standing, fin": {finish, "", request.End{Kind: request.EndEOF, Phase: record.PhaseFirstByte}},
		"standing, rst": {reset, "", request.End{Kind: request.EndErrno, Errno: "ECONNRESET", Phase: record.PhaseFirstByte}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, underWay := range []bool{false, true} {
				if underWay && c.body == "" {
					continue // an exchange of a connection that stands is answered at once
				}
				answered := make(chan struct{})
				s := listen(t, func(_ *server, n int, conn *net.TCPConn) {
					switch {
					case n > 0:
						echo(conn, -1)
						return
					case c.body != "" && !echo(conn, 1):
						return
					case underWay:
						_, _ = conn.Read(make([]byte, 1024))
					default:
						<-answered
					}
					c.act(conn)
				})
				p := planTo(request.TCP, s.address)
				p.Target.Body = []byte(c.body)
				h := byHand(t, p)
				h.exchanged(t)
				close(answered)
				if underWay {
					h.exchange()
				}
				r := h.await(t, 2)[1]
				if r.End != c.want || !r.Reused || (r.SentNs == r.EndedNs) == underWay || r.ConnRequests != 1 {
					t.Errorf("under way %v: %+v", underWay, r)
				}
				if last := h.exchanged(t); last.End.Kind != request.EndAnswered || last.Reused {
					t.Errorf("after it %+v", last)
				}
				h.Stop()
				if results, reconnects := h.now(); len(results) != 3 || reconnects != 0 {
					t.Errorf("under way %v: %d reconnects, %+v", underWay, reconnects, results)
				}
			}
		})
	}
}

func TestAConnectionThatStandsAnswers(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	p := planTo(request.TCP, s.address)
	p.Rate, p.Target.Body = 100, nil
	k, e := start(t, p)
	k.await(t, 5)
	e.Stop()
	results, _ := k.now()
	for i, r := range results {
		if r.End.Kind != request.EndAnswered || r.ConnRequests != i {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

func TestAServerThatDoesNotRead(t *testing.T) {
	s := listen(t, func(s *server, _ int, _ *net.TCPConn) { <-s.quit })
	p := planTo(request.TCP, s.address)
	p.Target.Body = make([]byte, 32<<20) // more than both sockets' buffers hold
	p.Limits.FirstByteNs = int64(300 * time.Millisecond)
	if r := Once(t.Context(), p); r.End != (request.End{Kind: request.EndTimeout, Phase: record.PhaseSend}) {
		t.Errorf("%+v", r)
	}
}

// datagramServer answers those datagrams, counted from 0, that answer accepts.
type datagramServer struct {
	c       *net.UDPConn
	address netip.AddrPort
}

func listenUDP(t *testing.T, port int, answer func(n int) bool) *datagramServer {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		b := make([]byte, 2048)
		for n := 0; ; n++ {
			got, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if answer(n) {
				_, _ = c.WriteToUDPAddrPort(b[:got], from)
			}
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		serving.Wait()
	})
	return &datagramServer{c: c, address: c.LocalAddr().(*net.UDPAddr).AddrPort()}
}

func TestUDP(t *testing.T) {
	s := listenUDP(t, 0, func(int) bool { return true })
	p := planTo(request.UDP, s.address)
	p.Rate, p.Users = 100, 2
	k, e := start(t, p)
	k.await(t, 10)
	e.Stop()
	if results, reconnects := k.now(); reconnects != 0 || len(failures(results)) > 0 {
		t.Errorf("failed %+v", failures(results))
	}
}

func TestALostDatagramStaysLost(t *testing.T) {
	s := listenUDP(t, 0, func(n int) bool { return n != 1 })
	p := planTo(request.UDP, s.address)
	h := byHand(t, p)
	h.exchanged(t)
	h.engine.plan.Limits.FirstByteNs = int64(500 * time.Millisecond)
	h.exchange()
	h.engine.plan.Limits.FirstByteNs = p.Limits.FirstByteNs
	if r := h.await(t, 2)[1]; r.End != (request.End{Kind: request.EndTimeout, Phase: record.PhaseFirstByte}) || r.ConnRequests != 1 {
		t.Errorf("the lost one: %+v", r)
	}
	if r := h.exchanged(t); r.End.Kind != request.EndAnswered || r.ConnRequests != 2 {
		t.Errorf("on the same socket: %+v", r)
	}
}

func TestARefusedDatagram(t *testing.T) {
	s := listenUDP(t, 0, func(int) bool { return true })
	h := byHand(t, planTo(request.UDP, s.address))
	h.exchanged(t)
	_ = s.c.Close()
	for range 2 {
		r := h.exchanged(t)
		if r.End != (request.End{Kind: request.EndErrno, Phase: record.PhaseFirstByte, Errno: "ECONNREFUSED"}) || request.Classify(request.UDP, nil, r.End, 0) != record.Refused {
			t.Errorf("%+v", r)
		}
	}
	listenUDP(t, int(s.address.Port()), func(int) bool { return true })
	if r := h.exchanged(t); r.End.Kind != request.EndAnswered || !r.Reused || r.ConnRequests != 3 {
		t.Errorf("not on the same socket: %+v", r)
	}
	if _, reconnects := h.now(); reconnects != 0 {
		t.Errorf("%d reconnects", reconnects)
	}
}

func TestWhichExchangeADatagramAnswers(t *testing.T) {
	asked := []*exchange{{seq: 0, askedNs: 1000}, {seq: 1, askedNs: 2000}, {seq: 2, askedNs: 3000}}
	for _, c := range []struct {
		nowNs, roundTripNs int64
		want               uint64
	}{
		{3010, 0, 0},    // none was ever answered
		{3010, 10, 2},   // the two before are lost
		{3010, 1000, 1}, // two are on their way, the first is lost
		{3510, 2500, 0}, // all three are on their way
	} {
		if x := nearest(asked, c.nowNs, c.roundTripNs); x.seq != c.want {
			t.Errorf("at %d after a round trip of %d: exchange %d, want %d", c.nowNs, c.roundTripNs, x.seq, c.want)
		}
	}
}
