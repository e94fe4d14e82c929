package explain

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// page is where the causes are documented.
const page = "../../docs/causes.md"

// TestTable: every kind has one row, in the order of the kinds, that says when and on what evidence it is claimed; and the page has the same rows.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	var names []string
	for _, d := range Table() {
		if d.When == "" || d.Needs == "" || strings.ContainsAny(d.When+d.Needs, "|\n") {
			t.Errorf("%s does not say when it fits, or what it needs, in one line: %+v", d.Kind, d)
		}
		names = append(names, d.Kind)
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", d.Kind, d.When, d.Needs)
	}
	if diff := cmp.Diff(record.CauseKinds(), names); diff != "" {
		t.Errorf("kinds of causes, and rows (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("%s does not hold this table:\n%s", page, table.String())
	}
}

// check wants one kind of cause, and events of these kinds as evidence.
func check(t *testing.T, b *test, f record.Failure, kind string, evidence ...record.EventKind) {
	t.Helper()
	r := b.fails(f)
	Attribute(&r)
	c := r.Failures[0].Cause
	if c.Kind != kind {
		t.Fatalf("cause is %s: %s", c.Kind, c.Sentence)
	}
	if c.Sentence == "" || c.Evidence == nil {
		t.Errorf("sentence %q, evidence %v", c.Sentence, c.Evidence)
	}
	if kind != "unattributed" {
		if diff := cmp.Diff(append([]record.EventKind{}, evidence...), kinds(r, c.Evidence)); diff != "" {
			t.Errorf("evidence (-want +got):\n%s", diff)
		}
	}
}

func TestClientLimit(t *testing.T) {
	f := failed(record.ClientLimited, 100, 101)
	f.Errno = "EMFILE"
	check(t, newTest().deleted(0, "web-1"), f, "client-limit")
	if c := newTest().cause(f); c.Sentence != "the client itself could not go on (EMFILE, phase connect): nothing that the workload did" {
		t.Errorf("it says %q", c.Sentence)
	}
	if c := newTest().cause(failed(record.ClientLimited, 100, 101)); !strings.Contains(c.Sentence, "(its own end, phase connect)") {
		t.Errorf("it says %q", c.Sentence)
	}
}

// exiting is a Pod of the bundled probe that exits at 140 ms while requests are under way.
func exiting() *test {
	return newTest().deleted(100, "web-1").probe(139, record.ProbeSigterm, "web-1").probe(140, record.ProbeExiting, "web-1")
}

func cutAt(atMs float64) record.Failure {
	f := failed(record.ResetMidResponse, 90, atMs)
	f.Instance = new("web-1")
	return f
}

func TestCutByExit(t *testing.T) {
	for _, o := range []record.RequestOutcome{record.ResetBeforeResponse, record.ResetMidResponse, record.EOFBeforeResponse, record.Truncated} {
		f := cutAt(141)
		f.Outcome = o
		check(t, exiting(), f, "cut-by-exit", record.ProbeExiting, record.ContainerExited)
	}
	check(t, exiting().probe(139.5, record.ProbeForcedRST, "web-1"), cutAt(139.7), "cut-by-exit", record.ProbeForcedRST, record.ProbeExiting, record.ContainerExited)
	// Two clocks that are tied to a millisecond each.
	rough := cutAt(138.5)
	rough.UncertaintyNs = new(int64(2 * ms))
	check(t, exiting(), rough, "cut-by-exit", record.ProbeExiting, record.ContainerExited)
}

func TestCutByExitIsNotGuessed(t *testing.T) {
	edit := func(f func(*record.Failure)) record.Failure {
		x := cutAt(141)
		f(&x)
		return x
	}
	noExit := newTest().kube(100, record.PodTerminating, "web-1").probe(140, record.ProbeExiting, "web-1")
	twice := exiting().event(900, record.FromKube, record.PodAdded, "web-1", "uid-of-another", record.Upper, nil)
	late := exiting()
	for i := range late.r.Events {
		if late.r.Events[i].Kind == record.ProbeExiting {
			late.r.Events[i].Bound = record.Upper
		}
	}
	untied := exiting()
	for i := range untied.r.Events {
		if untied.r.Events[i].Kind == record.ProbeExiting {
			untied.r.Events[i].UncertaintyNs = nil
		}
	}
	for _, c := range []struct {
		name string
		b    *test
		f    record.Failure
	}{
		{"refused is no cut", exiting(), edit(func(f *record.Failure) { f.Outcome = record.Refused })},
		{"which Pod is not known", exiting(), edit(func(f *record.Failure) { f.Instance = nil })},
		{"another Pod", exiting().kube(0, record.PodReady, "web-2"), edit(func(f *record.Failure) { f.Instance = new("web-2") })},
		{"a name that two Pods had", twice, cutAt(141)},
		{"no Pod of that name", exiting(), edit(func(f *record.Failure) { f.Instance = new("proxy") })},
		{"only the API's word of the exit", newTest().deleted(100, "web-1"), cutAt(391)},
		{"the exit was not seen", noExit, cutAt(141)},
		{"cut before it exits", exiting(), cutAt(139)},
		{"cut after it was gone", exiting(), cutAt(391)},
		{"sent after it began to exit", exiting(), edit(func(f *record.Failure) { f.SentTNs = new(int64(140.5 * ms)) })},
		{"never sent", exiting(), edit(func(f *record.Failure) { f.SentTNs = nil })},
		{"the client's clock is not tied", exiting(), edit(func(f *record.Failure) { f.UncertaintyNs = nil })},
		{"the probe's clock is not tied", untied, cutAt(141)},
		{"the line's time is no exact one", late, cutAt(141)},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.b, c.f, "unattributed") })
	}
}

// scaledDown is a workload whose only Pod goes at once, and comes back after five seconds.
func scaledDown() *test {
	return newTest().
		endpoint(-9000, record.EndpointReady, "web-1", true, true).
		endpoint(40, record.EndpointNotReady, "web-1", false, true).
		endpoint(60, record.EndpointNotServing, "web-1", false, false).
		endpoint(300, record.EndpointRemoved, "web-1", false, false).
		endpoint(5300, record.EndpointReady, "web-2", true, true)
}

func TestNoEndpoints(t *testing.T) {
	check(t, scaledDown(), failed(record.Refused, 1060, 1061), "no-endpoints", record.EndpointNotServing)
	check(t, scaledDown(), failed(record.Unreachable, 4000, 5299), "no-endpoints", record.EndpointNotServing)
	// Records without the endpoint's state in the detail: the removal alone is sure.
	bare := newTest().kube(-9000, record.EndpointReady, "web-1").kube(40, record.EndpointNotReady, "web-1").kube(300, record.EndpointRemoved, "web-1")
	check(t, bare, failed(record.Refused, 1300, 1301), "no-endpoints", record.EndpointRemoved)
	check(t, bare, failed(record.Refused, 1200, 1201), "unattributed")
	if c := scaledDown().cause(failed(record.Refused, 2000, 2010)); c.Sentence != "refused: the Service had had no endpoint that was ready or serving for 1.950 s, as the API told" {
		t.Errorf("it says %q", c.Sentence)
	}
}

func TestNoEndpointsIsNotGuessed(t *testing.T) {
	noService := scaledDown()
	noService.r.Workload.Service = ""
	noWorkload := scaledDown()
	noWorkload.r.Workload = nil
	gap := scaledDown()
	gap.r.Sources[0].Gaps = []record.Gap{{FromTNs: 1900 * ms, ToTNs: new(int64(1950 * ms))}}
	broken := scaledDown()
	broken.r.Sources[0].Ended = "the API server went away"
	for _, c := range []struct {
		name string
		b    *test
		f    record.Failure
	}{
		{"not for a whole second", scaledDown(), failed(record.Refused, 1059, 1061)},
		{"an endpoint came before the refusal", scaledDown(), failed(record.Refused, 5200, 5300)},
		{"an endpoint is there again", scaledDown(), failed(record.Refused, 6400, 6401)},
		{"a terminating endpoint still serves", newTest().endpoint(-9000, record.EndpointReady, "web-1", true, true).endpoint(40, record.EndpointNotReady, "web-1", false, true), failed(record.Refused, 2000, 2001)},
		{"another endpoint is ready", scaledDown().endpoint(-8000, record.EndpointReady, "web-3", true, true), failed(record.Refused, 2000, 2001)},
		{"the other family's endpoint is ready", scaledDown().event(-8000, record.FromKube, record.EndpointReady, "web-1", "uid-web-1", record.Upper,
			map[string]any{"ready": true, "serving": true, "family": "IPv6"}), failed(record.Refused, 2000, 2001)},
		{"nothing was ever told of endpoints", newTest().deleted(0, "web-1"), failed(record.Refused, 200, 201)},
		{"reset, not refused", scaledDown(), failed(record.ResetBeforeResponse, 2000, 2001)},
		{"not through a Service", noService, failed(record.Refused, 2000, 2001)},
		{"no workload in the record", noWorkload, failed(record.Refused, 2000, 2001)},
		{"the watch had a gap then", gap, failed(record.Refused, 2000, 2001)},
		{"the watch ended early", broken, failed(record.Refused, 2000, 2001)},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.b, c.f, "unattributed") })
	}
	if c := gap.cause(failed(record.Refused, 2000, 2001)); !strings.HasSuffix(c.Sentence, "and what the API told while its watch was broken") {
		t.Errorf("it says %q", c.Sentence)
	}
}

func starting() *test {
	return newTest().kube(100, record.PodAdded, "web-2").kube(3000, record.PodReady, "web-2").kube(3020, record.EndpointReady, "web-2")
}

func answered(status int, atMs float64) record.Failure {
	f := failed(record.HTTPError, atMs-1, atMs)
	f.Instance, f.Status = new("web-2"), &status
	return f
}

// TestNoEndpointsIsOfTheService: who goes to a Pod's address does not ask the Service's rules.
func TestNoEndpointsIsOfTheService(t *testing.T) {
	for _, path := range []string{"pod", "url"} {
		direct := scaledDown()
		direct.r.Config.Path = path
		check(t, direct, failed(record.Refused, 1060, 1061), "unattributed")
	}
}

func TestNotReadyYet(t *testing.T) {
	check(t, starting(), answered(503, 2000), "not-ready-yet", record.PodAdded, record.PodReady)
	if c := starting().cause(answered(503, 2000)); c.Sentence != "answered with status 503 by web-2, which the API called ready for the first time 1.000 s later: it was sent there too early" {
		t.Errorf("it says %q", c.Sentence)
	}
}

func TestNotReadyYetIsNotGuessed(t *testing.T) {
	unknown := answered(503, 2000)
	unknown.Instance = nil
	kept := answered(0, 2000)
	kept.Outcome, kept.Connection, kept.Status = record.EOFBeforeResponse, record.ReusedConnection, nil
	gap := starting()
	gap.r.Sources[0].Gaps = []record.Gap{{FromTNs: 2500 * ms}}
	for _, c := range []struct {
		name string
		b    *test
		f    record.Failure
	}{
		{"the API's word may have reached the node before us", starting(), answered(503, 2500)},
		{"which Pod is not known", starting(), unknown},
		{"it was ready", starting(), answered(503, 3001)},
		{"it was ready before, and again", starting().kube(500, record.PodReady, "web-2").kube(600, record.PodNotReady, "web-2"), answered(503, 2000)},
		{"its endpoint was ready, whatever the Pod was", starting().kube(1000, record.EndpointReady, "web-2"), answered(503, 2000)},
		{"it never became ready", newTest().kube(100, record.PodAdded, "web-2"), answered(503, 2000)},
		{"its beginning was not seen", newTest().kube(3000, record.PodReady, "web-2"), answered(503, 2000)},
		{"a kept connection that was closed", starting(), kept},
		{"the watch had a gap meanwhile", gap, answered(503, 2000)},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.b, c.f, "unattributed") })
	}
}

// Evidence for two causes is evidence for none.
func TestContradictionsAreUnattributed(t *testing.T) {
	b := starting().
		probe(1990, record.ProbeExiting, "web-2").kube(2100, record.ContainerExited, "web-2")
	f := failed(record.Truncated, 1980, 1995)
	f.Instance = new("web-2")
	c := b.cause(f)
	if c.Kind != "unattributed" || !strings.Contains(c.Sentence, "the events fit cut-by-exit and not-ready-yet alike") {
		t.Errorf("%s: %s", c.Kind, c.Sentence)
	}
	if len(c.Evidence) < 4 || !slices.IsSorted(c.Evidence) {
		t.Errorf("evidence %v", c.Evidence)
	}
}

// Whatever a record holds, each failure gets a cause of the closed list whose evidence exists, and nothing else is changed.
func TestAttributeTouchesCausesOnly(t *testing.T) {
	for _, s := range append(records.Tests(), records.Named()...) {
		r := s.Record
		r.Failures, r.Flows = slices.Clone(r.Failures), slices.Clone(r.Flows)
		r.Failures = append(r.Failures, failed(record.Refused, -500, -499), failed(record.ClientLimited, 1, 2), failed(record.ResponseTimeout, 20, 10_020))
		before, err := record.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		Attribute(&r)
		for i := range r.Failures {
			c := r.Failures[i].Cause
			if c == nil || !slices.Contains(record.CauseKinds(), c.Kind) || c.Sentence == "" || c.Evidence == nil {
				t.Fatalf("%s: cause %d is %+v", s.Name, i, c)
			}
			for _, id := range c.Evidence {
				if id < 1 || id > len(r.Events) {
					t.Errorf("%s: cause %d names event %d of %d", s.Name, i, id, len(r.Events))
				}
			}
			r.Failures[i].Cause = nil
			if i < len(s.Record.Failures) {
				r.Failures[i].Cause = s.Record.Failures[i].Cause
			}
		}
		for i := range r.Flows {
			c, lost := r.Flows[i].Cause, r.Flows[i].Outcome
			if (c != nil) != (lost == record.Severed || lost == record.Rehomed || lost == record.ReadTimeout) {
				t.Errorf("%s: the cause of a flow that is %s is %+v", s.Name, lost, c)
			}
			r.Flows[i].Cause = nil
		}
		after, err := record.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Errorf("%s: more than the causes was changed", s.Name)
		}
	}
}
