package explain

import (
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
)

// A connection that is held ends as a result of its own, which was sent when it ended: it was under way ever since it was opened, and raced with nothing.
func TestAHeldConnectionThatIsCut(t *testing.T) {
	held := func(o record.RequestOutcome, atMs float64) record.Failure { return kept(o, atMs, atMs) }
	for _, c := range []struct {
		name, mode  string
		record      *test
		loss        record.Failure
		kind, words string
	}{
		{"by SIGKILL", "websocket", killed(), held(record.EOFBeforeResponse, 30_122), "cut-by-sigkill", "a held connection closed while it was under way: the runtime sent SIGKILL to web-1"},
		{"by an exit", "tcp", cutOff(), held(record.ResetBeforeResponse, 141), "cut-by-exit", "a held connection reset while it was under way: web-1's process exited"},
		{"by an application that lives on", "grpc-stream", race(), held(record.EOFBeforeResponse, 101), unattributed, "web-1's process lived on when it ended this connection"},
		{"a request that came when its connection had ended", "keep-alive", race(), held(record.EOFBeforeResponse, 101), "keepalive-race", "had closed this kept connection 2 ms before the request was sent on it"},
		{"an exchange that came when its connection had ended", "websocket", race(), kept(record.EOFBeforeResponse, 101, 102), "keepalive-race", "before the request was sent on it"},
	} {
		c.record.r.Config.Traffic = &record.Traffic{Mode: c.mode}
		if got := c.record.cause(c.loss); got.Kind != c.kind || !strings.Contains(got.Sentence, c.words) {
			t.Errorf("%s: %s, %q", c.name, got.Kind, got.Sentence)
		}
	}
}

// The bundled probe's word, without an agent, cuts what is held as it cuts a request.
func TestAHeldConnectionThatTheProbeCut(t *testing.T) {
	b := newTest().deleted(100, "web-1").probe(130, record.ProbeExiting, "web-1")
	b.r.Config.Traffic = &record.Traffic{Mode: "websocket"}
	f := failed(record.ResetBeforeResponse, 131, 131)
	f.Connection, f.ConnectionAgeNs, f.Instance = record.ReusedConnection, 3000*ms, new("web-1")
	if got := b.cause(f); got.Kind != "cut-by-exit" {
		t.Errorf("%s, %q", got.Kind, got.Sentence)
	}
}

// A new Pod that the API calls ready before it listens, as one without a readiness probe, was sent its connections too early all the same.
func TestReadyBeforeItListens(t *testing.T) {
	b := soon().kube(900, record.PodAdded, "web-2").kube(950, record.PodReady, "web-2")
	got := b.cause(through(record.Refused, 1000, 1001))
	if got.Kind != "not-ready-yet" || !strings.Contains(got.Sentence, "which began to listen only 199 ms later, although the API had called it ready") {
		t.Errorf("%s, %q", got.Kind, got.Sentence)
	}
}
