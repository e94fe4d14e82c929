package render

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

const ms = int64(time.Millisecond)

// instant is one that was seen.
func instant(atMs int64) record.Instant { return record.Instant{TNs: new(atMs * ms)} }

// evident is a trial with what agents tell: a Pod that was deleted, two nodes that named it too long, and three flows.
func evident() record.Record {
	caused := func(kind string) *record.Cause { return &record.Cause{Kind: kind, Sentence: kind} }
	failed := func(kind string) record.Failure {
		return record.Failure{PlannedTNs: 70 * ms, TNs: 71 * ms, Outcome: record.Refused, Cause: caused(kind)}
	}
	at := time.Date(2026, 11, 30, 10, 0, 0, 300e6, time.UTC)
	path := func(node string, removedMs, windowMs int64, failed int) record.PathEnd {
		return record.PathEnd{Node: node, Front: "198.51.100.7:7002", Protocol: record.UDP, RuleRemoved: instant(removedMs), DeadEndpoint: record.Span{Ns: new(windowMs * ms)}, Failed: failed}
	}
	udp := func(local string) record.Flow {
		return record.Flow{Protocol: record.UDP, Local: local, Remote: "198.51.100.7:7002", Outcome: record.Severed, Cause: caused("stale-conntrack")}
	}
	gone := func(source, destination string, atMs int64, by map[string]any) record.Event {
		detail := map[string]any{"original_source": source, "original_destination": destination}
		for k, v := range by {
			detail[k] = v
		}
		return record.Event{TNs: atMs * ms, Kind: record.ConntrackDeleted, Source: record.FromConntrack, Detail: detail}
	}
	icmp := func(subject, about string) record.Event {
		return record.Event{TNs: 90 * ms, Kind: record.ICMPSent, Subject: subject, Detail: map[string]any{"source": about}}
	}
	return record.Record{
		Agents:   []record.Agent{{Node: "n1"}, {Node: "n2"}},
		Trigger:  &record.Trigger{At: at},
		Requests: &record.Requests{Total: 9, Failed: 4},
		Failures: []record.Failure{failed("dead-endpoint"), failed("dead-endpoint"), failed("unattributed"), {PlannedTNs: -90 * ms, TNs: -80 * ms, Outcome: record.Refused, Cause: caused("cut-by-exit")}},
		Flows:    []record.Flow{udp("203.0.113.1:1001"), udp("203.0.113.1:1002"), udp("203.0.113.1:1003")},
		Terminations: []record.Termination{{
			Pod: "web-1", UID: "u1", Deleted: instant(20),
			Containers: []record.ContainerEnd{
				{Name: "side", Term: record.StopSignal{Instant: instant(61)}, Exit: record.ProcessExit{Instant: instant(75)}},
				{Name: "web", Term: record.StopSignal{Instant: instant(60)}, Exit: record.ProcessExit{Instant: instant(80)}},
			},
			Listeners: []record.ListenerEnd{{Closed: instant(71)}, {Closed: instant(70)}},
			Paths: []record.PathEnd{
				path("n2", 520, 450, 2), path("n1", 320, 250, 0),
				{Node: "n1", Front: "198.51.100.7:7001", Protocol: record.TCP, RuleRemoved: instant(9000), DeadEndpoint: record.Span{Ns: new(8000 * ms)}}, // nobody went there
			},
		}},
		Events: []record.Event{
			{TNs: 40 * ms, Kind: record.PodTerminating, PodUID: "u1", Detail: map[string]any{"deletion_timestamp": "2026-11-30T10:00:30Z", "grace_seconds": 30}},
			{TNs: 100 * ms, Kind: record.KubeletKilling, PodUID: "u1", Detail: map[string]any{"at": "2026-11-30T10:00:00Z"}},
			{TNs: 120 * ms, Kind: record.EndpointNotReady, PodUID: "u1"},
			{TNs: 120 * ms, Kind: record.EndpointNotReady, PodUID: "another"},
			gone("203.0.113.1:1001", "198.51.100.7:7002", 900, map[string]any{"by_comm": "kube-proxy"}),
			gone("203.0.113.1:1001", "198.51.100.7:7002", 990, map[string]any{"by_comm": "kube-proxy"}), // its next entry
			gone("203.0.113.1:1002", "198.51.100.7:7002", 30_000, map[string]any{"by": "timeout"}),
			gone("203.0.113.1:1003", "10.0.0.2:7002", 800, nil), // not on the node that chose
			gone("203.0.113.9:1001", "198.51.100.7:7002", 800, nil),
			icmp("pod/web-1", "203.0.113.1:1002"), icmp("node/n1", "203.0.113.1:1003"), icmp("node/n1", "203.0.113.9:1"),
		},
	}
}

func TestEvidenceTables(t *testing.T) {
	var b strings.Builder
	for _, table := range EvidenceTables([]GroupArm{{Arm: "none", Trials: []record.Record{{Agents: []record.Agent{{Node: "n1"}}}}}, {Arm: "exit", Trials: []record.Record{evident()}}}) {
		table.Terminal(&b, page.Ink{}, 400)
	}
	got := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"exit 6 83.3 % 3 stale-conntrack, 2 dead-endpoint, 1 unattributed",
		// From the deletion's acceptance at 20 ms: 10:00:00 is 300 ms before the trigger.
		"exit 1 -320 ms -320 ms 40 ms 50 ms 60 ms 80 ms 100 ms 300 ms 500 ms",
		"exit n1 1 250 ms 0", "exit n2 1 450 ms 2",
		"exit 3 2 15.45 s (0.90–30.00 s) 1 kube-proxy, 1 timeout 1 1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the tables do not say %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(got, "none ") {
		t.Errorf("an arm that lost nothing has a row:\n%s", b.String())
	}
}

// What the tables say of causes and stations is in the machine form, too.
func TestEvidenceInTheReport(t *testing.T) {
	a := armReport("exit", []trial{{Input: Input{Record: evident()}}})
	if want := map[string]int{"stale-conntrack": 3, "dead-endpoint": 2, "unattributed": 1}; !maps.Equal(a.Causes, want) {
		t.Errorf("causes %v, want %v", a.Causes, want)
	}
	if len(a.Order) != len(stations) {
		t.Fatalf("%d stations, want %d", len(a.Order), len(stations))
	}
	if s := a.Order[2]; s.Name != "SIGTERM" || !slices.Equal(s.ValuesNs, []int64{40 * ms}) {
		t.Errorf("SIGTERM: %+v", s)
	}
	r := evident()
	r.Agents = nil
	if a := armReport("exit", []trial{{Input: Input{Record: r}}}); a.Order != nil {
		t.Errorf("stations that no agent told: %+v", a.Order)
	}
}

// Without agents a set has the tables that it had.
func TestNoEvidenceWithoutAgents(t *testing.T) {
	r := evident()
	r.Agents = nil
	if tables := EvidenceTables([]GroupArm{{Arm: "exit", Trials: []record.Record{r}}}); len(tables) > 0 {
		t.Errorf("tables: %v", tables)
	}
}
