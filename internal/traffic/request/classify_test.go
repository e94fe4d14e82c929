package request

import (
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
)

// TestClassifyEveryEnd is the whole table: each kind of end in each phase.
func TestClassifyEveryEnd(t *testing.T) {
	// One outcome for every phase, or seven in the order of record.RequestPhases: dns, connect, tls, send, first-byte, body,
	// done.
	for kind, row := range map[string]string{
		"eof":               "eof eof tls-failure eof eof truncated eof",
		"timeout":           "dns-failure connect-timeout tls-failure response-timeout response-timeout response-timeout response-timeout",
		"bad-answer":        "protocol-error",
		"bad-tls":           "tls-failure",
		"no-name":           "dns-failure",
		"goaway":            "goaway-unprocessed",
		"stream-reset":      "reset reset reset reset reset reset-mid-response reset",
		"client-limit":      "client-limit",
		"errno ECONNRESET":  "dns-failure refused tls-failure reset reset reset-mid-response reset",
		"errno EPIPE":       "dns-failure refused tls-failure reset reset reset-mid-response reset",
		"errno EHOSTDOWN":   "dns-failure unreachable unreachable unreachable unreachable unreachable unreachable",
		"errno EMFILE":      "client-limit",
		"errno ":            "client-limit",
		"errno ENETUNREACH": "dns-failure unreachable unreachable unreachable unreachable unreachable unreachable",
	} {
		name, errno, _ := strings.Cut(kind, " ")
		want := strings.Fields(row)
		if len(want) == 1 {
			want = slices.Repeat(want, len(record.RequestPhases()))
		}
		for i, phase := range record.RequestPhases() {
			o := record.RequestOutcome(want[i])
			switch o {
			case "eof":
				o = record.EOFBeforeResponse
			case "reset":
				o = record.ResetBeforeResponse
			}
			if got := Classify(KeepAlive, nil, End{Kind: EndKind(name), Phase: phase, Errno: errno}, 0); got != o {
				t.Errorf("%s in %s is %s, not %s", kind, phase, got, o)
			}
		}
	}
	for phase, want := range map[record.RequestPhase]record.RequestOutcome{
		record.PhaseConnect: record.ConnectTimeout, record.PhaseSend: record.ResponseTimeout, record.PhaseFirstByte: record.ResponseTimeout, record.PhaseBody: record.ResponseTimeout,
	} {
		if got := Classify(NewConnection, nil, End{Kind: EndErrno, Phase: phase, Errno: "ETIMEDOUT"}, 0); got != want {
			t.Errorf("ETIMEDOUT in %s is %s, not %s", phase, got, want)
		}
	}
	for _, phase := range []record.RequestPhase{record.PhaseConnect, record.PhaseSend, record.PhaseFirstByte} {
		if got := Classify(NewConnection, nil, End{Kind: EndErrno, Phase: phase, Errno: "ECONNREFUSED"}, 0); got != record.Refused {
			t.Errorf("ECONNREFUSED in %s is %s", phase, got)
		}
	}
}

func TestClassifyAnswers(t *testing.T) {
	good := []StatusRange{{200, 299}, {404, 404}}
	for _, c := range []struct {
		mode   Mode
		expect []StatusRange
		status int
		want   record.RequestOutcome
	}{
		{NewConnection, good, 200, record.OK},
		{NewConnection, good, 299, record.OK},
		{KeepAlive, good, 300, record.HTTPError},
		{HTTP2, good, 404, record.OK},
		{HTTP2, good, 503, record.HTTPError},
		{HTTP2, nil, 200, record.HTTPError},
		{GRPC, []StatusRange{{0, 0}}, 0, record.OK},
		{GRPC, []StatusRange{{0, 0}}, 14, record.GRPCError},
		{GRPCStream, []StatusRange{{0, 0}}, 0, record.OK},
		{GRPCStream, []StatusRange{{0, 0}}, 13, record.GRPCError},
		{WebSocket, nil, 0, record.OK},
		{TCP, nil, 0, record.OK},
		{UDP, nil, 0, record.OK},
	} {
		if got := Classify(c.mode, c.expect, End{Kind: EndAnswered, Phase: record.PhaseDone}, c.status); got != c.want {
			t.Errorf("%s, status %d: %s, not %s", c.mode, c.status, got, c.want)
		}
	}
}

// TestClassifyIsTotal: whatever an engine or a worker says, the outcome is one of the list, and only an answer is answered.
func TestClassifyIsTotal(t *testing.T) {
	kinds := []EndKind{EndAnswered, EndErrno, EndEOF, EndTimeout, EndBadAnswer, EndBadTLS, EndNoName, EndGoaway, EndStreamReset, EndClientLimit, "", "invented"}
	for _, m := range append(Modes(), "invented") {
		for _, kind := range kinds {
			for _, phase := range append(record.RequestPhases(), "", "invented") {
				for _, errno := range []string{"", "ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "EADDRNOTAVAIL", "EINVENTED"} {
					o := Classify(m, nil, End{Kind: kind, Phase: phase, Errno: errno}, 0)
					if !slices.Contains(record.RequestOutcomes(), o) {
						t.Fatalf("%s %s in %s is %q", m, kind, phase, o)
					}
					if o.Answered() != (kind == EndAnswered) {
						t.Fatalf("%s %s in %s is %s", m, kind, phase, o)
					}
				}
			}
		}
	}
}

func TestRetryable(t *testing.T) {
	for _, o := range record.RequestOutcomes() {
		always := slices.Contains([]record.RequestOutcome{record.Refused, record.Unreachable, record.ConnectTimeout, record.GoawayUnprocessed}, o)
		kept := slices.Contains([]record.RequestOutcome{record.EOFBeforeResponse, record.ResetBeforeResponse}, o)
		for _, c := range []struct{ reused, idempotent, want bool }{
			{false, false, always}, {true, false, always}, {false, true, always}, {true, true, always || kept},
		} {
			if got := Retryable(o, EndEOF, c.reused, c.idempotent); got != c.want {
				t.Errorf("%s, reused %t, idempotent %t: %t", o, c.reused, c.idempotent, got)
			}
		}
	}
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "OPTIONS": true, "TRACE": true, "POST": false, "PATCH": false, "CONNECT": false, "get": false} {
		if Idempotent(method) != want {
			t.Errorf("%s is idempotent: %t", method, !want)
		}
	}
}

// TestModesAreTheRecords: the record's closed list and the engines' are one.
func TestModesAreTheRecords(t *testing.T) {
	var got []string
	for _, m := range Modes() {
		got = append(got, string(m))
	}
	if !slices.Equal(got, record.Modes()) {
		t.Errorf("modes are %q here and %q in a record", got, record.Modes())
	}
}
