package explain

import (
	"cmp"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

const ms = 1_000_000

// test is a record in the making: Deployment web behind a Service, its hook 0 s.
type test struct{ r record.Record }

func newTest() *test {
	return &test{record.Record{
		Config:   record.Config{Path: "clusterip"},
		Workload: &record.Workload{Kind: "Deployment", Name: "web", Service: "web", PreStopSleepNs: new(int64(0))},
		Sources:  []record.Source{{Name: "kube-watch", Gaps: []record.Gap{}}},
	}}
}

// kube adds what the API told of a Pod, its UID uid-NAME.
func (b *test) kube(atMs float64, kind record.EventKind, pod string) *test {
	return b.event(atMs, record.FromKube, kind, pod, "uid-"+pod, record.Upper, nil)
}

// probe adds a line of the bundled probe's log.
func (b *test) probe(atMs float64, kind record.EventKind, pod string) *test {
	return b.event(atMs, record.FromProbe, kind, pod, "uid-"+pod, record.Exact, nil)
}

// endpoint adds what the slices said of a Pod's endpoint.
func (b *test) endpoint(atMs float64, kind record.EventKind, pod string, ready, serving bool) *test {
	return b.event(atMs, record.FromKube, kind, pod, "uid-"+pod, record.Upper, map[string]any{"ready": ready, "serving": serving, "family": "IPv4"})
}

func (b *test) event(atMs float64, from record.EventFrom, kind record.EventKind, pod, uid string, bound record.Bound, detail map[string]any) *test {
	subject := map[bool]string{true: "container/" + pod + "/web", false: "pod/" + pod}[kind == record.ContainerExited]
	switch kind {
	case record.EndpointAdded, record.EndpointReady, record.EndpointNotReady, record.EndpointServing, record.EndpointNotServing, record.EndpointRemoved, record.EndpointTerminating:
		subject = "endpoint/" + pod
	}
	b.r.Events = append(b.r.Events, record.Event{
		TNs: int64(atMs * ms), Source: from, Kind: kind, Subject: subject, PodUID: uid, Bound: bound, UncertaintyNs: new(int64(0)), Detail: detail,
	})
	return b
}

// deleted adds the end of a Pod, deleted at a time.
func (b *test) deleted(atMs float64, pod string) *test {
	return b.kube(atMs, record.PodTerminating, pod).
		kube(atMs+41, record.EndpointNotReady, pod).
		kube(atMs+50, record.KubeletKilling, pod).
		kube(atMs+290, record.ContainerExited, pod).
		kube(atMs+340, record.EndpointRemoved, pod).
		kube(atMs+345, record.PodRemoved, pod)
}

// fails adds failures and orders the events.
func (b *test) fails(failures ...record.Failure) record.Record {
	r := b.r
	slices.SortStableFunc(r.Events, func(x, y record.Event) int { return cmp.Compare(x.TNs, y.TNs) })
	for i := range r.Events {
		r.Events[i].ID = i + 1
	}
	r.Failures = failures
	return r
}

// failed is a request that left at one time and was known to be lost at another, on the harness's clock.
func failed(o record.RequestOutcome, sentMs, knownMs float64) record.Failure {
	return record.Failure{
		Outcome: o, Phase: record.PhaseConnect, Connection: record.NewConnection, UncertaintyNs: new(int64(0)),
		PlannedTNs: int64(sentMs * ms), SentTNs: new(int64(sentMs * ms)), TNs: int64(knownMs * ms),
	}
}

func (b *test) cause(f record.Failure) record.Cause {
	r := b.fails(f)
	Attribute(&r)
	return *r.Failures[0].Cause
}

// kinds gives the kinds of the events that a cause names.
func kinds(r record.Record, ids []int) []record.EventKind {
	list := []record.EventKind{}
	for _, id := range ids {
		list = append(list, r.Events[id-1].Kind)
	}
	return list
}
