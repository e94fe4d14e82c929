package traffic

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// requestsTo is a plan of requests to a test server.
func requestsTo(t *testing.T, url string, rate float64, users int) request.Plan {
	t.Helper()
	at, err := netip.ParseAddrPort(strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return request.Plan{
		Mode: request.NewConnection, Rate: rate, Users: users, Expect: []request.StatusRange{{From: 200, To: 299}}, InstanceHeader: "Instance", Limits: request.DefaultLimits(),
		Target: request.Target{Scheme: "http", Host: at.Addr().String(), Port: at.Port(), Path: "/", Method: "GET"},
	}
}

// gathered are all batches of a session, read until it ends.
type gathered struct {
	samples  []request.Sample
	names    []string
	failures []request.Failed
}

func gather(t *testing.T, s Sender) <-chan gathered {
	t.Helper()
	out := make(chan gathered, 1)
	go func() {
		var g gathered
		for b := range s.Batches() {
			var err error
			if g.samples, err = request.DecodeSamples(b.Samples, b.Count, g.samples); err != nil {
				t.Error(err)
			}
			g.names = append(g.names, b.Names...)
			g.failures = append(g.failures, b.Failures...)
		}
		out <- g
	}()
	return out
}

func TestSenderTellsEveryRequest(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Instance", "pod-1")
		if n.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	s, err := StartLocalSender()
	if err != nil {
		t.Fatal(err)
	}
	all := gather(t, s)
	plan := requestsTo(t, server.URL, 50, 3)
	a, err := s.Once(t.Context(), plan)
	if err != nil || a.Outcome != record.OK || a.Status != 200 || a.Instance != "pod-1" {
		t.Errorf("once: %+v, %v", a, err)
	}
	if err := s.Start(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	time.Sleep(700 * time.Millisecond)
	health, err := s.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := <-all
	bad := 0
	for _, x := range g.samples {
		if x.RequestOutcome() == record.HTTPError {
			bad++
		} else if x.RequestOutcome() != record.OK {
			t.Errorf("outcome %s", x.RequestOutcome())
		}
	}
	if uint64(len(g.samples)) != health.HeartbeatsSent || len(g.samples) < 20 {
		t.Errorf("%d samples, %d sent", len(g.samples), health.HeartbeatsSent)
	}
	if bad == 0 || bad != len(g.failures) || g.failures[0].Status != 503 || len(g.names) != 1 || g.names[0] != "pod-1" {
		t.Errorf("%d bad ones, failures %+v, names %v", bad, g.failures, g.names)
	}
}

// TestSenderWithoutACluster: a plan that nobody can send is refused with a reason, and the session ends in order.
func TestSenderRefusesAPlan(t *testing.T) {
	s, err := StartLocalSender()
	if err != nil {
		t.Fatal(err)
	}
	all := gather(t, s)
	p := requestsTo(t, "http://127.0.0.1:1", 1, 1)
	p.Mode = "pigeon"
	if err := s.Start(t.Context(), p); err == nil || !strings.Contains(err.Error(), "pigeon") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Once(t.Context(), p); err == nil || !strings.Contains(err.Error(), "pigeon") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	<-all
}

// TestLostWorkerKeepsWhatItTold: what a worker told before it died remains, and its death is an error.
func TestLostWorkerKeepsWhatItTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	ordersOut, ordersIn := io.Pipe()
	wordsOut, wordsIn := io.Pipe()
	dead, die := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serve(dead, ordersOut, wordsIn, "v1", 0)
		wordsIn.CloseWithError(io.EOF)
		ordersOut.CloseWithError(io.ErrClosedPipe)
	}()
	s, err := DialSender(t.Context(), wordsOut, ordersIn, func() error { ordersIn.Close(); wordsOut.Close(); return nil }, ExpectVersion("v1"))
	if err != nil {
		t.Fatal(err)
	}
	all := gather(t, s)
	if err := s.Start(t.Context(), requestsTo(t, server.URL, 100, 5)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(600 * time.Millisecond)
	die()
	<-ended
	if _, err := s.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("error %v", err)
	}
	if g := <-all; len(g.samples) < 20 {
		t.Errorf("%d samples remain of some 50", len(g.samples))
	}
}
