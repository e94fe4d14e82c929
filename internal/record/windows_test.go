package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestWindows(t *testing.T) {
	const ms = 1_000_000
	type want struct {
		sample record.Record
		name   string
		ns     int64
		bound  record.Bound
	}
	for _, c := range []want{
		{records.Exit(), record.DeleteToTerm, 36 * ms, record.Exact},
		{records.Exit(), record.DeadEndpoint, (266 - 39.8) * ms, record.Upper},
		{records.Exit(), record.DeadEndpointReady, (19 - 39.8) * ms, record.Upper},
		{records.Exit(), record.TermToExit, (212 - 36) * ms, record.Upper},
		{records.Exit(), record.FirstTCPEnd, 37.1 * ms, record.Exact},
		{records.Exit(), record.LastTCPEnd, 39.8 * ms, record.Exact},
		{records.Exit(), record.ReplacementReady, 2310 * ms, record.Upper},
		{records.Drain(), record.UDPRehomeBeforeExit, (25260 - 2410) * ms, record.Either},
		{records.Ignore(), record.KillAfterGrace, (30055 + 9*0.4 - 30000) * ms, record.Exact},
		{records.Scale(), record.ExitToLastUDPEnd, (25075 + 9*46 - 25230) * ms, record.Either},
		{records.Scale(), record.ExitingToLastUDPEnd, (25075 + 9*46 - 25055) * ms, record.Upper},
	} {
		w, ok := c.sample.Window(c.name)
		switch {
		case !ok || w.Ns == nil:
			t.Errorf("%s of %s was not measured: %+v", c.name, c.sample.ID, w)
		case *w.Ns != c.ns || w.Bound != c.bound:
			t.Errorf("%s of %s is %d (%s), not %d (%s)", c.name, c.sample.ID, *w.Ns, w.Bound, c.ns, c.bound)
		}
	}
	for _, c := range []struct {
		sample    record.Record
		name, why string
	}{
		{records.Exit(), record.KillAfterGrace, "exited with 0, not 137"},
		{records.Exit(), record.ExitToLastUDPEnd, "no udp flows that stayed"},
		{records.Scale(), record.UDPRehomeBeforeExit, "no udp flow was rehomed"},
		{records.Scale(), record.ReplacementReady, "no pod-ready of another Pod"},
		{records.Survived(), record.LastTCPEnd, "10 of 10 tcp flows were not seen to end"},
		{records.Survived(), record.DeleteToTerm, "no probe-sigterm of Pod"},
		{records.Incomplete(), record.LastTCPEnd, "6 of 10 tcp flows"},
		{records.Incomplete(), record.DeadEndpoint, "no endpoint-removed"},
		{record.Record{}, record.DeleteToTerm, "before its trigger"},
	} {
		ws := record.DeriveWindows(c.sample, "")
		i := slices.IndexFunc(ws, func(w record.Window) bool { return w.Name == c.name })
		if w := ws[i]; w.Ns != nil || !strings.Contains(w.Why, c.why) {
			t.Errorf("%s of %s: %v, %q; want null for %q", c.name, c.sample.ID, w.Ns, w.Why, c.why)
		}
	}
}

// A flow that died while others lived is the first end, not the last.
func TestLastEndNeedsAllFlows(t *testing.T) {
	r := records.Incomplete()
	if w, _ := r.Window(record.FirstTCPEnd); w.Ns == nil {
		t.Error("the first end is null")
	}
	if w, _ := r.Window(record.LastTCPEnd); w.Ns != nil {
		t.Errorf("the last end is %d", *w.Ns)
	}
}

func TestUncertaintyAddsUp(t *testing.T) {
	r := records.Exit()
	for i := range r.Events {
		switch r.Events[i].Source {
		case record.FromProbe:
			r.Events[i].UncertaintyNs = new(int64(300))
		case record.FromKube:
			r.Events[i].UncertaintyNs = new(int64(5))
		}
	}
	record.Derive(&r)
	if w, _ := r.Window(record.TermToExit); w.UncertaintyNs == nil || *w.UncertaintyNs != 305 {
		t.Errorf("uncertainty is %v", w.UncertaintyNs)
	}
	for i := range r.Events {
		if r.Events[i].Source == record.FromProbe {
			r.Events[i].UncertaintyNs = nil
		}
	}
	record.Derive(&r)
	if w, _ := r.Window(record.TermToExit); w.Ns == nil || w.UncertaintyNs != nil {
		t.Errorf("window is %+v: an unknown bound must stay unknown", w)
	}
}

// The replacement's events must never count as those of the Pod that ended.
func TestWindowsKeepPodsApart(t *testing.T) {
	r := records.Exit()
	for i := range r.Events {
		if r.Events[i].Kind == record.EndpointRemoved {
			r.Events[i].PodUID = "of-another"
			r.Events[i].Subject = "endpoint/another"
		}
	}
	record.Derive(&r)
	if w, _ := r.Window(record.DeleteToEndpointRemoved); w.Ns != nil {
		t.Errorf("another Pod's endpoint counted: %+v", w)
	}
}

func TestWindowDefsAreDistinctAndComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range record.WindowDefs() {
		if d.Name == "" || d.From == "" || d.To == "" || seen[d.Name] {
			t.Errorf("definition %+v is empty or doubled", d)
		}
		seen[d.Name] = true
	}
}
