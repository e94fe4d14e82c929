package eventloop

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// answering answers every request of a connection.
func answering(_ int, c *net.TCPConn, in *bufio.Reader) {
	for heard(in) {
		say(c, hello)
	}
}

// TestNetHTTP: against Go's own server, in both modes.
func TestNetHTTP(t *testing.T) {
	t.Parallel()
	for _, mode := range []request.Mode{request.NewConnection, request.KeepAlive} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			clients := map[string]int{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				clients[r.RemoteAddr]++
				mu.Unlock()
				if r.Close != (mode == request.NewConnection) || r.Host != "shop.example" || r.Header.Get("X-User") != "7" || r.URL.RequestURI() != "/a?b=c" {
					w.WriteHeader(http.StatusTeapot)
				}
				w.Header().Set("X-Instance", "web-1")
			}))
			defer s.Close()
			p := plan(mode, s.Listener.Addr().(*net.TCPAddr).AddrPort(), 500)
			p.Users = 4
			p.Target.Authority, p.Target.Path, p.Target.Headers = "shop.example", "/a?b=c", []request.Header{{Name: "X-User", Value: "7"}}
			list, reconnects := sendSome(t, p, 100)
			wantAnswered(t, list, http.StatusOK)
			reused := 0
			for i, r := range list {
				if r.Instance != "web-1" || r.Reused != (r.ConnRequests > 0) {
					t.Fatalf("request %d: %+v", i, r)
				}
				if r.Reused {
					reused++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if mode == request.NewConnection && (reused > 0 || len(clients) != len(list)) || mode == request.KeepAlive && len(clients)+reused != len(list) {
				t.Errorf("%d requests on %d connections, %d of them reused", len(list), len(clients), reused)
			}
			if mode == request.KeepAlive && reused == 0 || reconnects != 0 {
				t.Errorf("%d reused, %d reconnects", reused, reconnects)
			}
		})
	}
}

// TestServerEndsIdleConnections: closed in order, reset or spoken on while nothing is under way, a connection is
// replaced, and no request fails.
func TestServerEndsIdleConnections(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*net.TCPConn, *bufio.Reader){
		"FIN": func(*net.TCPConn, *bufio.Reader) {},
		"RST": func(c *net.TCPConn, _ *bufio.Reader) { reset(c) },
		"bytes": func(c *net.TCPConn, in *bufio.Reader) {
			say(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
			untilGone(in)
		},
	} {
		for _, atOnce := range []bool{false, true} {
			if atOnce && name == "RST" {
				continue // it could overtake the answer
			}
			t.Run(fmt.Sprintf("%s at once %v", name, atOnce), func(t *testing.T) {
				t.Parallel()
				answered := make(chan struct{}, 1)
				s := serve(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
					if !heard(in) {
						return
					}
					say(c, hello)
					if !atOnce {
						<-answered
					}
					end(c, in)
				})
				d := drive(t, plan(request.KeepAlive, s.address, 1), nil)
				const requests = 3
				for i := range requests {
					d.request()
					d.ended(t, i+1)
					if !atOnce {
						answered <- struct{}{}
					}
					d.until(t, "the server's end", func() bool { return d.users[0].lost == 1 })
				}
				wantAnswered(t, d.list, 200)
				if d.reconnects != requests-1 || s.connections() != requests {
					t.Errorf("%d requests, %d reconnects, %d connections", requests, d.reconnects, s.connections())
				}
			})
		}
	}
}

// TestServerAnnouncesItsClose: each connection is replaced by another, and none is lost.
func TestServerAnnouncesItsClose(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		if heard(in) {
			say(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	list, reconnects := sendSome(t, plan(request.KeepAlive, s.address, 50), 4)
	wantAnswered(t, list, 200)
	if reconnects == 0 || reconnects >= len(list) || s.connections() != len(list) {
		t.Errorf("%d requests, %d reconnects, %d connections", len(list), reconnects, s.connections())
	}
}

// TestServerLeavesTheCloseToTheClient: where the server should close and does not, the client does after a while.
func TestServerLeavesTheCloseToTheClient(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		if heard(in) {
			say(c, hello)
			untilGone(in)
		}
	})
	d := drive(t, plan(request.NewConnection, s.address, 1), nil)
	d.request()
	r := d.ended(t, 1)[0]
	if d.open != 1 {
		t.Fatal("the connection was closed before the server had time to")
	}
	d.until(t, "the client's close", func() bool { return d.open == 0 })
	if waited := d.clock.MonoNs() - r.EndedNs; waited < partingNs {
		t.Errorf("after %d ns", waited)
	}
}

// TestBrokenKeptConnection: the race that is to be seen. A request on a connection that the server is closing
// fails, and says how old the connection was and who answered on it before.
func TestBrokenKeptConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, c *net.TCPConn, in *bufio.Reader) {
		if heard(in) {
			say(c, hello)
		}
		heard(in) // and close in place of an answer
	})
	d := drive(t, plan(request.KeepAlive, s.address, 1), nil)
	d.request()
	first := d.ended(t, 1)[0]
	d.request()
	r := d.ended(t, 2)[1]
	if r.End != (request.End{Kind: request.EndEOF, Phase: record.PhaseFirstByte}) || !r.Reused || r.ConnRequests != 1 || r.Instance != "web-1" ||
		r.ConnOpenedNs != first.ConnOpenedNs || r.Status != 0 || !s.saw(r.Local) {
		t.Errorf("%+v", r)
	}
	d.request()
	if r = d.ended(t, 3)[2]; r.End.Kind != request.EndAnswered || r.Reused || d.reconnects != 0 {
		t.Errorf("%+v, %d reconnects: the connection was not idle", r, d.reconnects)
	}
}

// TestAnswerBeforeTheConnectionBreaks: what the server said before it reset counts, even where a write fails first.
func TestAnswerBeforeTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		if !heard(in) {
			return
		}
		say(c, hello)
		_, _ = in.ReadByte()
		say(c, "HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		awaitRead(c)
		reset(c)
	})
	p := plan(request.KeepAlive, s.address, 1)
	d := drive(t, p, nil)
	d.request()
	d.ended(t, 1)
	d.engine.request = append(d.engine.request, make([]byte, 32<<20)...) // the server does not read the next one whole
	d.request()
	awaitReset(t, d.conns[0])
	if !d.write(d.conns[0], d.clock.MonoNs()) {
		if r := d.list[1]; r.End.Kind != request.EndAnswered || r.Status != 429 || !r.Reused {
			t.Errorf("%+v, status %d", r.End, r.Status)
		}
		return
	}
	t.Error("the write to a reset connection went well")
}

// TestBusyUserOpensAnother: the schedule does not wait for answers, and afterwards few connections are kept.
func TestBusyUserOpensAnother(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(n int, c *net.TCPConn, in *bufio.Reader) {
		<-release
		answering(n, c, in)
	})
	d := drive(t, plan(request.KeepAlive, s.address, 1), func(e *engine) {
		for i := range e.limits {
			if e.limits[i].queue == &e.idling {
				e.limits[i].ns = int64(10 * time.Millisecond)
			}
		}
	})
	for range 6 {
		d.request()
	}
	close(release)
	wantAnswered(t, d.ended(t, 6), 200)
	d.until(t, "the close of idle connections", func() bool { return d.open == spareConnections })
	for range 10 { // rounds of the limit
		d.turn()
	}
	if d.open != spareConnections || d.users[0].count != spareConnections || d.users[0].lost != 0 {
		t.Errorf("%d connections are open, %d idle, %d lost", d.open, d.users[0].count, d.users[0].lost)
	}
	d.request()
	if r := d.ended(t, 7)[6]; !r.Reused || d.open != spareConnections || d.reconnects != 0 {
		t.Errorf("%+v with %d connections and %d reconnects", r, d.open, d.reconnects)
	}
}

// TestUsersHaveTheirOwnConnections: no user gets another's.
func TestUsersHaveTheirOwnConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, answering)
	p := plan(request.KeepAlive, s.address, 400)
	p.Users = 20
	list, _ := sendSome(t, p, 60)
	wantAnswered(t, list, 200)
	opened := map[int64]int{}
	for _, r := range list {
		if u, known := opened[r.ConnOpenedNs]; known && u != r.User {
			t.Errorf("users %d and %d share a connection", u, r.User)
		}
		opened[r.ConnOpenedNs] = r.User
	}
	if s.connections() < p.Users {
		t.Errorf("%d connections for %d users", s.connections(), p.Users)
	}
}

// TestMoreUsersThanRequests: users who are not due yet have no connection.
func TestMoreUsersThanRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, answering)
	p := plan(request.KeepAlive, s.address, 200)
	p.Users = 100_000
	list, _ := sendSome(t, p, 10)
	wantAnswered(t, list, 200)
	if s.connections() != len(list) {
		t.Errorf("%d connections for %d requests of as many users", s.connections(), len(list))
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 on loopback: " + err.Error())
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.NotFoundHandler()}}
	s.Start()
	defer s.Close()
	to := netip.MustParseAddrPort(l.Addr().String())
	list, _ := sendSome(t, plan(request.NewConnection, to, 100), 3)
	wantAnswered(t, list, http.StatusNotFound)
}
