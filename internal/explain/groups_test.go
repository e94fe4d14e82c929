package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// refusals adds new connections from other ports that the dead Pod refuses, as they leave.
func refusals(b *test, atMs ...float64) []record.Failure {
	var list []record.Failure
	for i, at := range atMs {
		f := through(record.Refused, at, at+1)
		f.Local = fmt.Sprintf("198.18.0.1:%d", 41_000+i)
		b.entry(at+0.3, record.ConntrackNew, "tcp", "web-1", map[string]any{"original_source": f.Local, "reply_destination": f.Local})
		list = append(list, f)
	}
	return list
}

func TestGroups(t *testing.T) {
	b := dead().rule(-8000, record.RuleAdded, "web-3").without(record.ConntrackNew, "")
	failures := refusals(b, 40, 100, 150, 200, 250, 300, 309)
	unknown := through(record.Refused, 205, 206)
	unknown.Local = "198.18.0.1:51000"
	limited := failed(record.ClientLimited, 210, 211)
	before := through(record.Refused, -2000, -1999)
	r := b.fails(append(failures, unknown, limited, before)...)
	Attribute(&r)
	got := Groups(r)
	if len(got) != 3 {
		t.Fatalf("%d groups: %+v", len(got), got)
	}
	g := got[0]
	want := "7 new connections were refused between +41 ms and +310 ms: web-1's process had closed its socket at +38 ms; node worker-2 still sent 1 in 3 new connections to it until +310 ms"
	if g.Kind != "dead-endpoint" || g.Pod != "web-1" || g.Node != clientNode || g.Requests != 7 || g.Flows != 0 || g.Sentence != want {
		t.Errorf("%+v, sentence (-want +got):\n%s", g, cmp.Diff(want, g.Sentence))
	}
	evidence := map[record.EventKind]int{}
	for _, k := range kinds(r, g.Evidence) {
		evidence[k]++
	}
	if diff := cmp.Diff(map[record.EventKind]int{record.SignalSent: 1, record.ListenerClosed: 1, record.ConntrackNew: 7, record.RuleRemoved: 1}, evidence); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
	for i, want := range []string{
		"1 new connection was refused at +206 ms: missing: which Pod the node sent it to: its connection's conntrack entry was not seen",
		"1 request was lost (client-limit) at +211 ms: the client itself could not go on",
	} {
		if got[i+1].Sentence != want {
			t.Errorf("group %d (-want +got):\n%s", i+1, cmp.Diff(want, got[i+1].Sentence))
		}
	}
	// A record without causes is judged as it is.
	bare := r
	bare.Failures = slices.Clone(r.Failures)
	for i := range bare.Failures {
		bare.Failures[i].Cause = nil
	}
	if diff := cmp.Diff(got, Groups(bare)); diff != "" {
		t.Errorf("without causes (-want +got):\n%s", diff)
	}
}

// Every cause has a sentence for all of its losses that names its Pod and its time.
func TestEveryCauseIsToldAsAGroup(t *testing.T) {
	want := map[string]string{
		"a node that is late":                 "1 new connection was refused at +42 ms: web-1's process had closed its socket at +38 ms; node worker-2 still sent 1 in 2 new connections to it until +310 ms",
		"a process that exited":               "1 new connection was refused at +42 ms: web-1's process had exited at +38 ms; node worker-2 still sent new connections to it to the end",
		"a Pod's own address":                 "1 new connection was refused at +42 ms: web-1's process had closed its socket at +38 ms, and its clients went to its own address",
		"by its own choice":                   "1 new connection was refused at +42 ms: web-1's process had closed its listener at +38 ms, while the API advertised it",
		"an exit under a request":             "1 request was reset before a response at +141 ms: web-1 exited at +140 ms while it was under way",
		"a kill by the test":                  "1 request was reset before a response at +141 ms: web-1 exited at +140 ms while it was under way",
		"a grace period that is used up":      "1 request was closed without a response at +30.1 s: the runtime sent SIGKILL to web-1 at +30.1 s, its grace period used up",
		"closed before it was sent":           "1 request was reset before a response at +101 ms: web-1 was closing its kept connections, from +99 ms on, before that reached it",
		"a node that rejects":                 "1 new connection was refused at +61 ms: the rules of node worker-2 knew no endpoint of the Service since +45 ms",
		"an entry from before":                "1 new connection was not connected in time at +4.500 s: node worker-2 still sent it to web-1 by conntrack entries from before, and its process had exited at +2.000 s",
		"before it listened":                  "1 new connection was refused at +1.001 s: node worker-2 sent it to web-2, which began to listen at +1.200 s",
		"a flow whose entry was deleted":      "1 udp flow was taken over by another instance at +2.450 s: kube-proxy on node worker-2 deleted the conntrack entries that led to web-1, from +2.400 s on",
		"a flow of TCP":                       "1 tcp flow was reset at +141 ms: web-1 exited at +140 ms while it was under way",
		"a flow that its entry held":          "1 udp flow was refused by an ICMP error at +4.000 s: node worker-2 still sent it to web-1 by conntrack entries from before, and its process had exited at +900 ms",
		"a client's limit":                    "",
		"a node that drops":                   "1 new connection was not connected in time at +2.060 s: the rules of node worker-2 knew no endpoint of the Service since +45 ms",
		"a flow that nothing else could take": "1 udp flow was refused by an ICMP error at +4.000 s: web-1 exited at +900 ms while it was under way",
	}
	for _, s := range append(scenarios(), flowScenarios()...) {
		sentence, there := want[s.name]
		if !there {
			continue
		}
		delete(want, s.name)
		r, c := s.judged(s.make())
		groups := Groups(r)
		if sentence == "" {
			if len(groups) != 1 || groups[0].Kind != s.kind {
				t.Errorf("%s: %+v", s.name, groups)
			}
			continue
		}
		if len(groups) != 1 || groups[0].Sentence != sentence || !slices.Equal(groups[0].Evidence, c.Evidence) {
			t.Errorf("%s: %+v, sentence (-want +got):\n%s", s.name, groups, cmp.Diff(sentence, groups[0].Sentence))
		}
	}
	if len(want) > 0 {
		t.Errorf("no such scenario: %v", want)
	}
}

// Causes by the API's word, and a proxy's.
func TestGroupsByTheAPI(t *testing.T) {
	r := scaledDown().fails(failed(record.Refused, 1060, 1061), failed(record.Unreachable, 4000, 5299), failed(record.TLSFailure, 1061, 1062))
	Attribute(&r)
	var got []string
	for _, g := range Groups(r) {
		got = append(got, g.Kind+": "+g.Sentence)
	}
	want := []string{
		"no-endpoints: 2 new connections were lost (1 refused, 1 unreachable) between +1.061 s and +5.299 s: the Service had no endpoint that was ready or serving since +60 ms, as the API told",
		"unattributed: 1 request was lost (tls-failure) at +1.062 s: missing: which Pod the node sent it to (node evidence)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	soon := starting().fails(answered(503, 2000))
	Attribute(&soon)
	if g := Groups(soon); len(g) != 1 || !strings.HasSuffix(g[0].Sentence, ": the API called web-2 ready only at +3.000 s") {
		t.Errorf("%+v", g)
	}
}

// Every loss from the trigger on is in one group, whatever a record holds.
func TestGroupsCountEveryLoss(t *testing.T) {
	for _, s := range append(records.Tests(), records.Named()...) {
		lost := 0
		for _, f := range s.Record.Failures {
			if f.TNs >= 0 {
				lost++
			}
		}
		for _, f := range s.Record.Flows {
			if f.Outcome == record.Severed || f.Outcome == record.Rehomed || f.Outcome == record.ReadTimeout {
				lost++
			}
		}
		for _, g := range Groups(s.Record) {
			lost -= g.Requests + g.Flows
			if g.Sentence == "" || g.FromTNs > g.ToTNs {
				t.Errorf("%s: %+v", s.Name, g)
			}
		}
		if lost != 0 {
			t.Errorf("%s: %d losses are in no group, or in two", s.Name, lost)
		}
	}
}

func TestProxyError(t *testing.T) {
	gateway := func(status int) record.Failure {
		f := failed(record.HTTPError, 1000, 1001)
		f.Status = &status
		return f
	}
	url := func(unnamed int64, failures ...record.Failure) record.Record {
		b := newTest().deleted(100, "web-1")
		b.r.Config.Path = "url"
		b.r.Requests = &record.Requests{Instances: []record.InstanceCount{{Instance: "", Total: unnamed}, {Instance: "web-1", Total: 90}}}
		r := b.fails(failures...)
		Attribute(&r)
		return r
	}
	named := gateway(500)
	named.Instance = new("web-1")
	other := gateway(502)
	other.Instance = new("web-1")
	for _, c := range []struct {
		name string
		r    record.Record
		want string
	}{
		{"502", url(1, gateway(502)), "proxy-error"},
		{"504", url(1, gateway(504)), "proxy-error"},
		{"503, and the workload's own errors are named", url(1, gateway(503), named), "proxy-error"},
		{"503, and it may be the workload's own", url(1, gateway(503)), unattributed},
		{"another status", url(1, gateway(500)), unattributed},
		{"answers without a name succeed, too", url(2, gateway(502)), unattributed},
		{"it names its instance", url(0, other), unattributed},
	} {
		if got := c.r.Failures[0].Cause; got.Kind != c.want {
			t.Errorf("%s: %s: %s", c.name, got.Kind, got.Sentence)
		}
	}
	direct := url(1, gateway(502))
	direct.Config.Path = "clusterip"
	Attribute(&direct)
	nobody := url(1, gateway(502))
	nobody.Requests.Instances = nobody.Requests.Instances[:1]
	Attribute(&nobody)
	for _, r := range []record.Record{direct, nobody} {
		if got := r.Failures[0].Cause; got.Kind != unattributed {
			t.Errorf("%s: %s", got.Kind, got.Sentence)
		}
	}
	g := Groups(url(1, gateway(502)))
	if len(g) != 1 || g[0].Sentence != "1 request was answered with status 502 at +1.001 s: a proxy before the workload answered" {
		t.Errorf("%+v", g)
	}
}

// What would prove an overload is not in a record, and said.
func TestCapacityIsNotClaimed(t *testing.T) {
	b := newWatched().entry(100.3, record.ConntrackNew, "tcp", "web-2", nil)
	c := b.cause(through(record.ResponseTimeout, 100, 10_100))
	if c.Kind != unattributed || !strings.Contains(c.Sentence, "missing: whether the queue of web-2's listener was full or its application slow") {
		t.Errorf("%s: %s", c.Kind, c.Sentence)
	}
}
