package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// results is a Sink; the race detector sees whether calls overlap.
type results struct {
	mu     sync.Mutex
	all    []request.Result
	enough chan struct{} // closed at the wanted number
	want   int
	// unguarded is written without a lock, as a Sink may.
	unguarded int
}

func newResults(want int) *results { return &results{enough: make(chan struct{}), want: want} }

func (r *results) Done(res request.Result) {
	r.unguarded++
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all = append(r.all, res); len(r.all) == r.want {
		close(r.enough)
	}
}

func (r *results) Reconnected() { r.unguarded++ }

func okServer(t *testing.T) (addr string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func TestEngineKeepsTheSchedule(t *testing.T) {
	t.Parallel()
	for _, m := range []request.Mode{request.NewConnection, request.KeepAlive, request.HTTP2} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			addr := okServer(t)
			if m == request.HTTP2 {
				addr = h2cServer(t, func(http.ResponseWriter, *http.Request) {})
			}
			p := planFor(t, m, addr)
			p.Rate, p.Users, p.PhaseNs = 500, 3, 1000
			sink := newResults(50)
			e, err := Start(p, sink)
			if err != nil {
				t.Fatal(err)
			}
			await(t, sink.enough, "50 results")
			e.Stop()
			e.Stop() // is safe to call again
			begin := int64(math.MaxInt64)
			for _, res := range sink.all {
				begin = min(begin, res.PlannedNs)
			}
			planned := map[int64]bool{}
			for _, res := range sink.all {
				k := (res.PlannedNs - begin) / 2_000_000
				if res.PlannedNs != begin+k*2_000_000 || planned[k] {
					t.Errorf("a request was planned off the grid, or twice: %d ns after the first", res.PlannedNs-begin)
				}
				planned[k] = true
				if res.User != int(k)%3 || res.SentNs < res.PlannedNs || res.End.Kind != request.EndAnswered {
					t.Errorf("request %d: %+v", k, res)
				}
			}
			if sink.unguarded < len(sink.all) {
				t.Errorf("%d calls for %d results", sink.unguarded, len(sink.all))
			}
		})
	}
}

// Nothing waits for an answer, and what exceeds the bound is the client's own limit.
func TestEngineLimit(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	addr := listen(t, func(c *net.TCPConn, _ int) {
		if readRequest(bufio.NewReader(c)) {
			arrived <- struct{}{}
			<-answer
			fmt.Fprint(c, okResponse)
		}
	})
	p := planFor(t, request.NewConnection, addr)
	p.Rate = 200
	sink := newResults(3)
	out := &reports{to: sink}
	s, err := newSender(p, out.reconnected, out.done)
	if err != nil {
		t.Fatal(err)
	}
	e := start(p, s, out, 2)
	await(t, arrived, "the first request")
	await(t, arrived, "the second, beside it")
	await(t, sink.enough, "three refusals")
	close(e.stop) // the schedule first, so that no third request is sent
	close(answer)
	e.running.Wait()
	s.close()
	answered := 0
	for i, res := range sink.all {
		if res.End.Kind == request.EndAnswered {
			answered++
			continue
		}
		if res.End != (request.End{Kind: request.EndClientLimit, Phase: record.PhaseDNS, Message: "2 requests under way"}) || res.SentNs != 0 || res.EndedNs < res.PlannedNs {
			t.Errorf("result %d: %+v", i, res)
		}
	}
	if answered != 2 {
		t.Errorf("%d were answered, want the two that were sent", answered)
	}
}

// Stop waits for what is under way.
func TestEngineStopWaits(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	addr := listen(t, func(c *net.TCPConn, _ int) {
		in := bufio.NewReader(c)
		if readRequest(in) {
			arrived <- struct{}{}
			hang(c)
		}
	})
	p := planFor(t, request.KeepAlive, addr)
	p.Rate, p.Limits.FirstByteNs = 0.01, short
	sink := newResults(1)
	e, err := Start(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	await(t, arrived, "the request")
	e.Stop()
	if len(sink.all) != 1 || sink.all[0].End.Kind != request.EndTimeout {
		t.Errorf("%+v", sink.all)
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	h1 := okServer(t)
	h2 := h2cServer(t, func(http.ResponseWriter, *http.Request) {})
	grpc := grpcServer(t, "0", "", func(w http.ResponseWriter, body []byte) { _, _ = w.Write(body) })
	stream := streamServer(t, func(s *h2Server, _ uint32, _ int) { s.idle() })
	for m, addr := range map[request.Mode]string{request.NewConnection: h1, request.KeepAlive: h1, request.HTTP2: h2, request.GRPC: grpc, request.GRPCStream: stream} {
		p := planFor(t, m, addr)
		p.Users, p.Rate = 0, 0 // of no concern to one request
		res := Once(t.Context(), p)
		if got := request.Classify(m, p.Expect, res.End, res.Status); got != record.OK || res.Reused || res.SentNs == 0 {
			t.Errorf("%s: %s: %+v", m, got, res)
		}
	}
}

func TestOnceOverTCP(t *testing.T) {
	t.Parallel()
	p := planFor(t, request.TCP, listen(t, func(c *net.TCPConn, _ int) {
		for _, err := c.Read(make([]byte, 4)); err == nil; _, err = c.Read(make([]byte, 4)) {
			fmt.Fprint(c, "pong")
		}
	}))
	p.Target.Scheme, p.Target.Body = "tcp", []byte("ping")
	if res := Once(t.Context(), p); res.End.Kind != request.EndAnswered {
		t.Errorf("%+v", res)
	}
	sink := newResults(1)
	e, err := Start(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	await(t, sink.enough, "a result")
	e.Stop()
	if sink.all[0].End.Kind != request.EndAnswered {
		t.Errorf("%+v", sink.all[0])
	}
}

// A caller that wants no answer any more gets an end that blames nobody else, in every mode.
func TestOnceCancelled(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, m request.Mode) {
		arrived := make(chan struct{}, 1)
		addr := listen(t, func(c *net.TCPConn, _ int) {
			_, _ = c.Read(make([]byte, 1))
			arrived <- struct{}{}
			hang(c)
		})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-arrived
			cancel(why)
		}()
		res := Once(ctx, planFor(t, m, addr))
		if res.End.Kind != request.EndClientLimit || res.End.Message != "enough" {
			t.Errorf("%+v", res)
		}
	})
	for _, m := range modes {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if res := Once(ctx, planFor(t, m, closedPort(t))); res.End.Kind != request.EndClientLimit {
			t.Errorf("%s, cancelled before it began: %+v", m, res)
		}
	}
}

func TestPlansThatCannotBeSent(t *testing.T) {
	t.Parallel()
	header := func(name, value string) func(*request.Plan) {
		return func(p *request.Plan) { p.Target.Headers = []request.Header{{Name: name, Value: value}} }
	}
	for name, spoil := range map[string]func(*request.Plan){
		"no such mode":        func(p *request.Plan) { p.Mode = "quic" },
		"no rate":             func(p *request.Plan) { p.Rate = 0 },
		"a rate that is none": func(p *request.Plan) { p.Rate = math.NaN() },
		"no users":            func(p *request.Plan) { p.Users = 0 },
		"no limit":            func(p *request.Plan) { p.Limits.TLSNs = 0 },
		"another scheme":      func(p *request.Plan) { p.Target.Scheme = "tcp" },
		"no host":             func(p *request.Plan) { p.Target.Host = "" },
		"no port":             func(p *request.Plan) { p.Target.Port = 0 },
		"no path":             func(p *request.Plan) { p.Target.Path = "x" },
		"a path in two parts": func(p *request.Plan) { p.Target.Path = "/x HTTP/1.1\r\nX: y" },
		"a bad authority":     func(p *request.Plan) { p.Target.Authority = "a b" },
		"a bad method":        func(p *request.Plan) { p.Target.Method = "GET /" },
		"no method":           func(p *request.Plan) { p.Target.Method = "" },
		"a CA that is none":   func(p *request.Plan) { p.Target.Scheme, p.Target.TLS.CA = "https", []byte("x") },
		"a pseudo-header":     header(":path", "/"),
		"Host":                header("Host", "x"),
		"Content-Length":      header("content-length", "1"),
		"Connection":          header("Connection", "close"),
		"TE":                  header("TE", "trailers"),
		"Upgrade":             header("Upgrade", "h2c"),
		"a bad name":          header("a b", "x"),
		"a bad value":         header("A", "x\r\nB: y"),
		"a gRPC header":       func(p *request.Plan) { p.Mode = request.GRPC; header("Grpc-Timeout", "1S")(p) },
	} {
		p := planFor(t, request.HTTP2, "127.0.0.1:1")
		spoil(&p)
		e, err := Start(p, newResults(0))
		if fault.CodeOf(err) != fault.Usage || e != nil {
			t.Errorf("%s: %v, want wrong use", name, err)
		}
		if name != "no rate" && name != "a rate that is none" && name != "no users" {
			if res := Once(t.Context(), p); res.End.Kind != request.EndClientLimit || res.End.Message == "" {
				t.Errorf("%s, once: %+v", name, res)
			}
		}
	}
}

func TestPlansThatCan(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		p := planFor(t, m, "[::1]:8080")
		p.Target.Headers = []request.Header{{Name: "User-Agent", Value: "x"}, {Name: "authorization", Value: "Bearer ü"}}
		if err := check(p); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		if got := authority(p.Target); got != "[::1]:8080" {
			t.Errorf("%s: %s", m, got)
		}
	}
}

// Waiting ends at the time, not before it, and at once when the engine stops.
func TestAwait(t *testing.T) {
	t.Parallel()
	e := &engine{stop: make(chan struct{})}
	for _, d := range []time.Duration{0, time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		due := begin(t.Context(), request.Plan{}, 0, 0).SentNs + int64(d)
		if !e.await(due) || begin(t.Context(), request.Plan{}, 0, 0).SentNs < due {
			t.Errorf("woken before %v had passed", d)
		}
	}
	close(e.stop)
	if e.await(0) || e.await(math.MaxInt64) {
		t.Error("a stopped engine goes on")
	}
}
