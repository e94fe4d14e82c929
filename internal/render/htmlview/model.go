package htmlview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// model is the timeline of one trial: lanes over one axis, whose zero is the trigger. The drawings and the script show the same one.
type model struct {
	r record.Record
	// all is what the lanes span, view what is shown at first.
	all, view span
	lanes     []lane
	cut       string
	// exits are the ids of the events that end containers.
	exits map[int]bool
}

// span is an interval in nanoseconds from the trigger.
type span struct{ from, to int64 }

// kind says how a lane is drawn.
type kind string

const (
	// bars are states over time, with marks upon them.
	bars kind = "bars"
	// rows are several bars above each other, one a flow or an endpoint.
	rows kind = "rows"
	// failures are the failed requests of one outcome, a row a user.
	failures kind = "failures"
	// counts are requests per bucket of the series.
	counts kind = "counts"
)

// lane is one line of the timeline.
type lane struct {
	Group string `json:"group"`
	Label string `json:"label"`
	Sub   string `json:"sub,omitempty"`
	Kind  kind   `json:"kind"`
	// Pod and Node are what filters go by; empty where the lane is of none.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Outcome is that of a failures lane.
	Outcome string `json:"outcome,omitempty"`
	Rows    int    `json:"rows,omitempty"`
	Bars    []bar  `json:"bars,omitempty"`
	// Marks are indexes of events.
	Marks []int `json:"marks,omitempty"`
}

// bar is one state of one row from one time to another. Event and flow are the indexes of what it begins with, or is; -1 for none.
type bar struct {
	from, to    int64
	state       string
	row         int
	event, flow int
}

// beyond is later than every picture, and before earlier.
const (
	beyond = int64(1) << 62
	before = -beyond
)

// maxPods is how many Pods have lanes; those that something happened to come first.
const maxPods = 200

func modelOf(r record.Record) *model {
	m := &model{r: r, exits: map[int]bool{}}
	m.all, m.view = extent(r), initial(r)
	m.all = span{min(m.all.from, m.view.from), max(m.all.to, m.view.to)}
	for _, e := range r.Exits() {
		m.exits[e.ID] = true
	}
	m.trial()
	m.clients()
	m.pods()
	m.nodes()
	return m
}

// extent is all that the record has a time for.
func extent(r record.Record) span {
	s := span{}
	add := func(t int64) { s = span{min(s.from, t), max(s.to, t)} }
	for _, e := range r.Events {
		add(e.TNs)
	}
	for _, f := range r.Failures {
		add(f.TNs)
		add(f.PlannedTNs)
	}
	for _, f := range r.Flows {
		if f.OpenedTNs != nil {
			add(*f.OpenedTNs)
		}
		if f.EndedTNs != nil {
			add(*f.EndedTNs)
		}
	}
	if q := r.Requests; q != nil && sound(q.Series) {
		add(q.Series.FromTNs)
		add(q.Series.FromTNs + int64(len(q.Series.Sent))*q.Series.BucketNs)
	}
	if s.to == s.from {
		s.to = s.from + 1e9
	}
	return s
}

// initial shows all requests of a test, and of a trial of flows a little before the trigger and all after it.
func initial(r record.Record) span {
	all := extent(r)
	if q := r.Requests; q != nil && sound(q.Series) {
		s := q.Series
		end := s.FromTNs + int64(len(s.Sent))*s.BucketNs
		for _, f := range r.Failures {
			end = max(end, f.TNs)
		}
		return span{s.FromTNs, end}
	}
	if all.to <= 0 {
		return all
	}
	return span{max(all.from, -all.to/12), all.to + all.to/40}
}

// sound reports whether every list of a series has one length and its buckets have a width.
func sound(s *record.Series) bool {
	if s == nil || s.BucketNs <= 0 || len(s.Sent) == 0 {
		return false
	}
	n := len(s.Sent)
	return len(s.Failed) == n && len(s.P50Ns) == n && len(s.P99Ns) == n &&
		!slices.ContainsFunc(s.Instances, func(i record.InstanceSeries) bool { return len(i.Answered) != n })
}

// trial has what the harness did, and where sources did not listen.
func (m *model) trial() {
	l := lane{Group: "Trial", Label: "harness", Kind: bars}
	for i, e := range m.r.Events {
		if e.Source == record.FromHarness || strings.HasPrefix(e.Subject, "workload/") && !ofNode(e.Source) {
			l.Marks = append(l.Marks, i)
		}
	}
	if lat := m.r.Latency; lat != nil && lat.DuringToTNs != nil {
		l.Bars = append(l.Bars, bar{from: 0, to: *lat.DuringToTNs, state: "disruption", event: -1, flow: -1})
	}
	if len(l.Marks)+len(l.Bars) > 0 {
		m.lanes = append(m.lanes, l)
	}
	for _, s := range m.r.Sources {
		g := lane{Group: "Trial", Label: s.Name, Sub: "gaps", Kind: bars}
		for _, x := range s.Gaps {
			to := beyond
			if x.ToTNs != nil {
				to = *x.ToTNs
			}
			g.Bars = append(g.Bars, bar{from: x.FromTNs, to: to, state: "gap", event: -1, flow: -1})
		}
		if len(g.Bars) > 0 {
			m.lanes = append(m.lanes, g)
		}
	}
}

// clients have a lane of what they sent and one for each way in which requests failed; flows one for each protocol.
func (m *model) clients() {
	if q := m.r.Requests; q != nil {
		class := "requests"
		if t := m.r.Config.Traffic; t != nil && t.Mode != "" {
			class = t.Mode
		}
		if sound(q.Series) {
			m.lanes = append(m.lanes, lane{Group: "Clients", Label: class, Sub: "per " + figure.Setting(q.Series.BucketNs), Kind: counts})
		}
		m.losses()
	}
	for _, p := range record.Protocols() {
		m.flows(p)
	}
}

func (m *model) losses() {
	got, users := map[record.RequestOutcome]int64{}, 0
	for _, f := range m.r.Failures {
		got[f.Outcome]++
		users = max(users, f.User+1)
	}
	if u := m.r.Users; u != nil {
		users = max(users, u.Total)
	}
	for _, o := range page.Outcomes(got) {
		m.lanes = append(m.lanes, lane{Group: "Clients", Label: string(o), Sub: figure.Count(got[o]) + " failed", Kind: failures, Outcome: string(o), Rows: max(users, 1)})
	}
}

func (m *model) flows(p record.Protocol) {
	var order []int
	for i, f := range m.r.Flows {
		if f.Protocol == p {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return
	}
	end := func(i int) int64 {
		if t := m.r.Flows[i].EndedTNs; t != nil {
			return *t
		}
		return beyond
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(end(a), end(b)) })
	l := lane{Group: "Clients", Label: string(p) + " flows", Sub: figure.Plural(len(order), "flow"), Kind: rows, Rows: len(order)}
	row := map[string]int{}
	for k, i := range order {
		f := m.r.Flows[i]
		row["flow/"+f.ID] = k
		from := before
		if f.OpenedTNs != nil {
			from = *f.OpenedTNs
		}
		b := bar{from: from, to: beyond, state: "alive", row: k, event: -1, flow: i}
		switch {
		case f.Outcome == record.NotMeasured:
			b.state = "unknown"
		case f.EndedTNs != nil:
			b.to = *f.EndedTNs
		}
		l.Bars = append(l.Bars, b)
		if f.EndedTNs != nil && f.Outcome != record.NotMeasured {
			to := *f.EndedTNs
			if f.Outcome == record.Rehomed {
				to = beyond
				if a := f.AfterRehome; a != nil && a.EndedTNs != nil {
					to = *a.EndedTNs
				}
			}
			l.Bars = append(l.Bars, bar{from: *f.EndedTNs, to: to, state: string(f.Outcome), row: k, event: -1, flow: i})
		}
	}
	for i, e := range m.r.Events {
		if _, mine := row[e.Subject]; mine && e.Source == record.FromClient {
			l.Marks = append(l.Marks, i)
		}
	}
	m.lanes = append(m.lanes, l)
}

// pod is one Pod with the events that are told of it.
type pod struct {
	key, name, uid string
	// pods and endpoints are indexes of events.
	pods, endpoints []int
	touched         bool
	first           int64
}

// inPod reports whether an event stands in its Pod's lane: what the API, the probe and, of its processes and listeners, the kernel tell.
func inPod(e record.Event) bool {
	switch e.Kind {
	case record.SignalSent, record.ProcessExited, record.ListenerOpened, record.ListenerClosed:
		return record.PodOf(e.Subject) != ""
	}
	return !ofNode(e.Source) && e.Source != record.FromHarness && record.PodOf(e.Subject) != ""
}

func (m *model) podsSeen() []*pod {
	var list []*pod
	byKey := map[string]*pod{}
	get := func(name, uid string, t int64) *pod {
		key := cmp.Or(uid, name)
		p := byKey[key]
		if p == nil {
			p = &pod{key: key, name: name, uid: uid, first: t}
			byKey[key], list = p, append(list, p)
		}
		return p
	}
	for _, w := range podsBefore(m.r) {
		get(w.Name, w.UID, before)
	}
	for i, e := range m.r.Events {
		if !inPod(e) {
			continue
		}
		p := get(record.PodOf(e.Subject), e.PodUID, e.TNs)
		p.touched = p.touched || e.TNs >= 0
		if strings.HasPrefix(e.Subject, "endpoint/") {
			p.endpoints = append(p.endpoints, i)
		} else {
			p.pods = append(p.pods, i)
		}
	}
	slices.SortStableFunc(list, func(a, b *pod) int { return cmp.Compare(a.first, b.first) })
	return list
}

func podsBefore(r record.Record) []record.WorkloadPod {
	if r.Workload == nil {
		return nil
	}
	return r.Workload.Pods
}

func (m *model) pods() {
	list := m.podsSeen()
	if len(list) > maxPods {
		some := slices.DeleteFunc(slices.Clone(list), func(p *pod) bool { return !p.touched })
		some = some[:min(len(some), maxPods)]
		m.cut = fmt.Sprintf("The timeline has %s of %s: those that something happened to from the trigger on. The others are in the record.", figure.Count(int64(len(some))), figure.Plural(len(list), "Pod"))
		list = some
	}
	names := map[string]int{}
	for _, p := range list {
		names[p.name]++
	}
	for _, p := range list {
		label := p.name
		if names[p.name] > 1 && p.uid != "" {
			label += " (" + p.uid[:min(8, len(p.uid))] + ")"
		}
		m.lanes = append(m.lanes, lane{Group: "Pods", Label: label, Sub: "Pod", Kind: bars, Pod: p.name, Bars: m.podBars(p), Marks: p.pods})
		if len(p.endpoints) > 0 {
			m.lanes = append(m.lanes, lane{Group: "Pods", Label: label, Sub: "endpoint", Kind: bars, Pod: p.name, Bars: m.endpointBars(p), Marks: p.endpoints})
		}
	}
}

// strip builds the bars of one lane as its state changes.
type strip struct {
	bars []bar
	open bool
}

// turn begins a state at an event; "" ends the last one.
func (s *strip) turn(t int64, state string, event int) {
	if n := len(s.bars); n > 0 && s.open {
		if s.bars[n-1].state == state {
			return
		}
		s.bars[n-1].to = t
	}
	if s.open = state != ""; s.open {
		s.bars = append(s.bars, bar{from: t, to: beyond, state: state, event: event, flow: -1})
	}
}

// lastExit is the id of the event that ended a Pod's last container; 0 for none.
func (m *model) lastExit(p *pod) (id int) {
	for _, i := range p.pods {
		if e := m.r.Events[i]; m.exits[e.ID] {
			id = e.ID
		}
	}
	return id
}

func (m *model) podBars(p *pod) []bar {
	var s strip
	last := m.lastExit(p)
	ending := false
	for _, i := range p.pods {
		e := m.r.Events[i]
		if len(s.bars) == 0 && !s.open && e.Kind != record.PodAdded && e.Source == record.FromKube {
			// It was there before the first news of it; in which state was not told.
			s.turn(before, "present", -1)
		}
		switch {
		case e.Kind == record.PodRemoved:
			s.turn(e.TNs, "", i)
		case e.Kind == record.PodTerminating:
			ending = true
			s.turn(e.TNs, "terminating", i)
		case ending && e.ID == last:
			s.turn(e.TNs, "exited", i)
		case ending:
		case e.Kind == record.PodAdded:
			s.turn(e.TNs, "pending", i)
		case e.Kind == record.PodReady:
			s.turn(e.TNs, "ready", i)
		case e.Kind == record.PodNotReady, e.Kind == record.ContainerExited:
			s.turn(e.TNs, "notready", i)
		}
	}
	if len(s.bars) == 0 && p.first == before {
		s.turn(before, "present", -1)
	}
	return s.bars
}

func (m *model) endpointBars(p *pod) []bar {
	var s strip
	var ready, serving, terminating, known bool
	for _, i := range p.endpoints {
		e := m.r.Events[i]
		if !known && e.Kind != record.EndpointAdded && e.Kind != record.EndpointReady {
			s.turn(before, "present", -1)
		}
		known = true
		switch e.Kind {
		case record.EndpointReady:
			ready, serving = true, true
		case record.EndpointNotReady:
			ready = false
		case record.EndpointServing:
			serving = true
		case record.EndpointNotServing:
			serving = false
		case record.EndpointTerminating:
			terminating, ready = true, false
		}
		if v, told := e.Detail["serving"].(bool); told {
			serving = v
		}
		switch {
		case e.Kind == record.EndpointRemoved:
			s.turn(e.TNs, "", i)
			ready, serving, terminating = false, false, false
		case ready:
			s.turn(e.TNs, "ready", i)
		case terminating && serving:
			s.turn(e.TNs, "serving", i)
		case terminating:
			s.turn(e.TNs, "terminating", i)
		default:
			s.turn(e.TNs, "notready", i)
		}
	}
	return s.bars
}

// nodes have a lane for each source that told something of them.
func (m *model) nodes() {
	type place struct {
		node   string
		source record.EventFrom
	}
	at := map[place][]int{}
	var order []place
	for i, e := range m.r.Events {
		if !ofNode(e.Source) || inPod(e) {
			continue
		}
		p := place{cmp.Or(e.Node, strings.TrimPrefix(e.Subject, "node/")), e.Source}
		if at[p] == nil {
			order = append(order, p)
		}
		at[p] = append(at[p], i)
	}
	slices.SortFunc(order, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(b.source, a.source))
	})
	for _, p := range order {
		l := lane{Group: "Nodes", Label: p.node, Sub: string(p.source), Kind: bars, Node: p.node, Marks: at[p]}
		if p.source == record.FromDataplane {
			l.Sub = "rules"
			m.rules(&l)
		}
		m.lanes = append(m.lanes, l)
	}
}

// rules draws for how long a node's rules named each endpoint, a row each.
func (m *model) rules(l *lane) {
	row := map[string]int{}
	open := map[string]int{}
	for _, i := range l.Marks {
		e := m.r.Events[i]
		name := record.PodOf(e.Subject)
		if name == "" || e.Kind != record.RuleAdded && e.Kind != record.RuleRemoved {
			continue
		}
		key := fmt.Sprint(name, " ", e.Detail["front"])
		k, seen := row[key]
		if !seen {
			k = len(row)
			row[key] = k
		}
		b, isOpen := open[key]
		switch {
		case e.Kind == record.RuleAdded && !isOpen:
			open[key] = len(l.Bars)
			l.Bars = append(l.Bars, bar{from: e.TNs, to: beyond, state: "named", row: k, event: i, flow: -1})
		case e.Kind == record.RuleRemoved && isOpen:
			l.Bars[b].to = e.TNs
			delete(open, key)
		case e.Kind == record.RuleRemoved:
			l.Bars = append(l.Bars, bar{from: before, to: e.TNs, state: "named", row: k, event: i, flow: -1})
		}
	}
	if len(row) > 0 {
		l.Kind, l.Rows = rows, len(row)
	}
}
