package render

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// without drops the records that match.
func without(in []Input, match func(record.Set) bool) []Input {
	return slices.DeleteFunc(slices.Clone(in), func(i Input) bool { return match(*i.Record.Set) })
}

func holesOf(t *testing.T, in []Input) []string {
	t.Helper()
	_, err := New(in)
	e, ok := errors.AsType[*HoleError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	var list []string
	for _, h := range e.Holes {
		list = append(list, h.String())
		if !strings.Contains(err.Error(), h.String()) {
			t.Errorf("%q does not name %q", err, h)
		}
	}
	return list
}

func TestHolesAreRefused(t *testing.T) {
	full := inputs(records.Matrix("iptables", 5)...)
	incomplete := slices.Clone(full)
	incomplete[7].Record.Completeness = record.Incomplete
	incomplete[7].Record.Missing = []string{"the watch broke"}
	for _, c := range []struct {
		name string
		in   []Input
		want []string
	}{
		{"a repeat", without(full, func(s record.Set) bool { return s.Arm == "drain" && s.Repeat == 3 }), []string{`repeat 3 of arm "drain" is missing`}},
		{"the last repeat of every arm", without(full, func(s record.Set) bool { return s.Repeat == 5 }), []string{
			`repeat 5 of arm "exit" is missing`, `repeat 5 of arm "drain" is missing`, `repeat 5 of arm "ignore" is missing`,
			`repeat 5 of arm "drain-scale" is missing`, `repeat 5 of arm "control" is missing`,
		}},
		{"an arm", without(full, func(s record.Set) bool { return s.Arm == "ignore" }), []string{`arm "ignore" is missing`}},
		{"an incomplete record", incomplete, []string{`repeat 3 of arm "drain" (set/08/record.json) is incomplete: the watch broke`}},
		// The other proxy mode is whole, and does not fill the hole of this one.
		{"a repeat of one of two sets", append(without(full, func(s record.Set) bool { return s.Arm == "exit" && s.Repeat == 1 }), inputs(records.Matrix("nftables", 5)...)...), []string{`repeat 1 of arm "exit" is missing`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, holesOf(t, c.in)); diff != "" {
				t.Errorf("holes (-want +got):\n%s", diff)
			}
			for _, write := range []func() error{
				func() error { return Set(io.Discard, c.in, Opts{}) },
				func() error { return JSON(io.Discard, c.in) },
				func() error { return Markdown(io.Discard, c.in) },
			} {
				if _, ok := errors.AsType[*HoleError](write()); !ok {
					t.Error("an output is made all the same")
				}
			}
		})
	}
}

func TestMixesAreRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		edit func(*record.Record)
	}{
		{"tool.version", func(r *record.Record) { r.Tool.Version = "v0.2.0" }},
		{"tool.sha256", func(r *record.Record) { r.Tool.Sha256 = "beef" }},
		{"environment.kubernetes", func(r *record.Record) { r.Environment.Kubernetes = "v1.34.4" }},
		{"environment.proxy_mode", func(r *record.Record) { r.Environment.ProxyMode = new("ipvs") }},
		{"environment.proxy_mode", func(r *record.Record) { r.Environment.ProxyMode = nil }},
		{"set.experiment_sha256", func(r *record.Record) { r.Set.ExperimentSha256 = "00" }},
		{"config.grace_ns", func(r *record.Record) { r.Config.GraceNs = 6e9 }},
		{"set.repeats", func(r *record.Record) { r.Set.Repeats = 7 }},
	} {
		in := inputs(records.Matrix("iptables", 5)...)
		c.edit(&in[9].Record)
		_, err := New(in)
		e, ok := errors.AsType[*MixedError](err)
		if !ok || e.What != c.what {
			t.Errorf("%s: error is %v", c.what, err)
			continue
		}
		if !slices.Contains(e.Paths[:], "set/10/record.json") || e.Values[0] == e.Values[1] {
			t.Errorf("%s: %v does not say where", c.what, err)
		}
	}
}

func TestDuplicatesAndNothingAreRefused(t *testing.T) {
	in := inputs(append(records.Matrix("iptables", 2), records.Matrix("iptables", 2)[3])...)
	_, err := New(in)
	if e, ok := errors.AsType[*DuplicateError](err); !ok || e.Arm != "drain" || e.Repeat != 2 || e.Paths != [2]string{"set/04/record.json", "set/11/record.json"} {
		t.Errorf("error is %v", err)
	}
	_, err = New(nil)
	if _, ok := errors.AsType[*NoRecordsError](err); !ok {
		t.Errorf("error is %v", err)
	}
}

func TestSingleTrialsAreGroupedByTheirFlags(t *testing.T) {
	second := records.Exit()
	second.ID, second.StartedAt = "later", second.StartedAt.Add(time.Minute)
	rep, err := New(inputs(second, records.Drain(), records.Exit()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, a := range rep.Sets[0].Arms {
		got[a.Arm] = a.Repeats
	}
	want := map[string]int{"exit, delete, grace 30 s": 2, "drain, delete, grace 30 s": 1}
	if diff := cmp.Diff(want, got); diff != "" || len(rep.Sets) != 1 {
		t.Errorf("%d sets, arms (-want +got):\n%s", len(rep.Sets), diff)
	}
	if _, err := New(inputs(records.Incomplete())); err == nil {
		t.Error("an incomplete single trial is summed up")
	}
}

// The median of differences is not the difference of medians.
func TestMediansAreOfPerRepeatValues(t *testing.T) {
	all := records.Matrix("iptables", 3)
	// last TCP end and endpoint removal in ms; the medians are 20 and 300, the per-repeat distances 290, 280 and 270.
	for i, v := range [][2]int64{{10, 300}, {20, 300}, {30, 300}} {
		r := &all[i]
		for j := range r.Events {
			switch r.Events[j].Kind {
			case record.FlowEnded:
				r.Events[j].TNs = v[0] * 1e6
			case record.EndpointRemoved:
				r.Events[j].TNs = v[1]*1e6 + int64(i%2)*50e6 // the middle repeat's removal is late: 290, 330, 270
			}
		}
	}
	rep, err := New(inputs(all...))
	if err != nil {
		t.Fatal(err)
	}
	w, _ := rep.Sets[0].Arms[0].Window(record.DeadEndpoint)
	if *w.MedianNs != 290e6 || *w.MinNs != 270e6 || *w.MaxNs != 330e6 || w.N != 3 {
		t.Errorf("median %d (%d to %d) of %d", *w.MedianNs, *w.MinNs, *w.MaxNs, w.N)
	}
}

func TestDisagreementIsShown(t *testing.T) {
	all := records.Matrix("iptables", 3)
	all[4].Flows[10].Outcome, all[4].Flows[10].Mechanism = record.Severed, record.RST // the drain arm's first TCP flow
	all[4].Flows[0].Outcome = record.Survived                                         // and its first UDP flow
	rep, err := New(inputs(all...))
	if err != nil {
		t.Fatal(err)
	}
	a := rep.Sets[0].Arms[1]
	if got, want := a.TCP.String(), "2×: 10/10 drained; 1×: 9/10 drained, 1/10 severed (rst)"; got != want || a.TCP.Agree {
		t.Errorf("%q, agree %v; want %q", got, a.TCP.Agree, want)
	}
	if w, _ := a.Window(record.LastUDPEnd); w.N != 2 || !strings.HasSuffix(w.String(), " in 2 of 3") || w.Why == "" {
		t.Errorf("%s, why %q", w.String(), w.Why)
	}
}

func TestOrderOfInputsDoesNotMatter(t *testing.T) {
	in := inputs(append(records.Matrix("nftables", 3), records.Matrix("iptables", 3)...)...)
	var a, b strings.Builder
	if err := JSON(&a, in); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(in)
	if err := JSON(&b, in); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Error(cmp.Diff(a.String(), b.String()))
	}
}
