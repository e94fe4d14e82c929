package client

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// grpcServer answers calls as a gRPC server on net/http would: with what answer writes, and a status in the trailer unless it is empty.
func grpcServer(t *testing.T, status, message string, answer func(w http.ResponseWriter, body []byte)) (addr string) {
	t.Helper()
	return h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, want := range map[string]string{"Te": "trailers", "Content-Type": "application/grpc", "Grpc-Timeout": "60000000u"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if r.Method != "POST" || r.URL.Path != "/x/y" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set(instanceHeader, "web-1")
		answer(w, body)
		if status != "" {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", message)
		}
	})
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, body []byte) { _, _ = w.Write(body) }
	nothing := func(http.ResponseWriter, []byte) {}
	for _, c := range []struct {
		name, status, message string
		answer                func(http.ResponseWriter, []byte)
		outcome               record.RequestOutcome
		phase                 record.RequestPhase
		got                   int
		says                  string
	}{
		{"ok", "0", "", echo, record.OK, record.PhaseDone, 0, ""},
		{"an unexpected status", "14", "no%20backend%3a%E2%82%AC", nothing, record.GRPCError, record.PhaseDone, 14, "no backend:€"},
		{"a message that is encoded wrong", "14", "50%", nothing, record.GRPCError, record.PhaseDone, 14, "50%"},
		{"ok without a message", "0", "", nothing, record.ProtocolError, record.PhaseBody, 0, "grpc-status 0 with 0 bytes that are not one message"},
		{"ok with half a message", "0", "", func(w http.ResponseWriter, body []byte) { _, _ = w.Write(body[:7]) }, record.ProtocolError, record.PhaseBody, 0, "grpc-status 0 with 7 bytes that are not one message"},
		{"no status", "", "", echo, record.ProtocolError, record.PhaseBody, -1, "HTTP status 200 without a grpc-status"},
		{"a proxy's error", "", "", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(502) }, record.ProtocolError, record.PhaseBody, -1, "HTTP status 502 without a grpc-status"},
		{"a status that is none", "OK", "", echo, record.ProtocolError, record.PhaseBody, -1, "HTTP status 200 without a grpc-status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := planFor(t, request.GRPC, grpcServer(t, c.status, c.message, func(w http.ResponseWriter, body []byte) {
				if len(body) != 5+5 || body[0] != 0 || binary.BigEndian.Uint32(body[1:]) != 5 || string(body[5:]) != "hello" {
					t.Errorf("the message arrived as %q", body)
				}
				c.answer(w, body)
			}))
			p.Target.Body = []byte("hello")
			r := newRig(t, p)
			for i := range 2 {
				res := r.send(t)
				r.want(t, res, c.outcome, c.phase)
				if res.Status != c.got || res.End.Message != c.says || res.Instance != "web-1" || res.Reused != (i > 0) {
					t.Errorf("%+v", res)
				}
			}
		})
	}
}

// A response of nothing but a header that is a trailer as well.
func TestGRPCTrailersOnly(t *testing.T) {
	t.Parallel()
	addr := listenH2(t, func(s *h2Server, _ int) {
		for id := s.wholeRequest(); id != 0; id = s.wholeRequest() {
			s.header(id, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "5", "grpc-message", "no such thing")
		}
	})
	p := planFor(t, request.GRPC, addr)
	r := newRig(t, p)
	res := r.send(t)
	r.want(t, res, record.GRPCError, record.PhaseDone)
	if res.Status != 5 || res.End.Message != "no such thing" {
		t.Errorf("%+v", res)
	}
	p.Expect = []request.StatusRange{{From: 5, To: 5}}
	r = newRig(t, p)
	r.want(t, r.send(t), record.OK, record.PhaseDone)
}

func TestGRPCTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{1, "1n"}, {99_999_999, "99999999n"}, {100_000_000, "100000u"}, {15 * time.Second, "15000000u"}, {100*time.Second + 1, "100001m"},
		{1000 * time.Hour, "3600000S"}, {1<<63 - 1, "99999999S"},
	} {
		if got := grpcTimeout(int64(c.d)); got != c.want || len(got) > 9 {
			t.Errorf("%v is %s, want %s", c.d, got, c.want)
		}
	}
}

func TestGRPCFieldsBeginWithPseudoHeaders(t *testing.T) {
	t.Parallel()
	p := planFor(t, request.GRPC, "127.0.0.1:1")
	p.Target.Headers = []request.Header{{Name: "Authorization", Value: "x"}}
	regular := false
	for _, f := range grpcFields(p) {
		if f.IsPseudo() && regular {
			t.Errorf("%s after others", f.Name)
		}
		regular = !f.IsPseudo()
		if strings.ToLower(f.Name) != f.Name {
			t.Errorf("%s is not in lower case", f.Name)
		}
	}
	if got := grpcFields(p); got[len(got)-1] != (hpack.HeaderField{Name: "authorization", Value: "x"}) {
		t.Errorf("%v", got)
	}
}
