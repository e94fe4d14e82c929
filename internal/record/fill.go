package record

import "slices"

// filled gives a copy of r whose lists and maps are not nil; r itself is not changed.
func filled(r Record) Record {
	r.Events, r.Flows, r.Windows = list(r.Events), list(r.Flows), list(r.Windows)
	r.Clocks, r.Sources = list(r.Clocks), list(r.Sources)
	r.Notes, r.Missing = list(r.Notes), list(r.Missing)
	r.Environment.Nodes = list(r.Environment.Nodes)
	r.Summary.TCP, r.Summary.UDP = table(r.Summary.TCP), table(r.Summary.UDP)
	r.Sources = slices.Clone(r.Sources)
	for i := range r.Sources {
		r.Sources[i].Gaps = list(r.Sources[i].Gaps)
	}
	r.Flows = slices.Clone(r.Flows)
	for i := range r.Flows {
		r.Flows[i].Cause = filledCause(r.Flows[i].Cause)
	}
	r.Terminations = slices.Clone(r.Terminations)
	for i := range r.Terminations {
		t := &r.Terminations[i]
		t.Containers, t.Listeners, t.Paths, t.Conntrack, t.Unseen = list(t.Containers), list(t.Listeners), list(t.Paths), list(t.Conntrack), list(t.Unseen)
	}
	if r.Set != nil {
		set := *r.Set
		set.Arms = list(set.Arms)
		r.Set = &set
	}
	if r.Client != nil {
		c := *r.Client
		c.Limits = table(c.Limits)
		r.Client = &c
	}
	return filledTest(r)
}

// filledTest does the same to what a test adds.
func filledTest(r Record) Record {
	if r.Requests != nil {
		q := *r.Requests
		q.Outcomes, q.Instances, q.Series = table(q.Outcomes), list(q.Instances), filledSeries(q.Series)
		r.Requests = &q
		r.Failures = list(r.Failures)
	}
	r.Failures = slices.Clone(r.Failures)
	for i := range r.Failures {
		r.Failures[i].Cause = filledCause(r.Failures[i].Cause)
	}
	if r.Users != nil {
		u := *r.Users
		u.HurtIDs = list(u.HurtIDs)
		r.Users = &u
	}
	if r.Latency != nil {
		l := *r.Latency
		l.Instances = list(l.Instances)
		r.Latency = &l
	}
	if r.Verdict != nil {
		v := *r.Verdict
		v.Checks = list(v.Checks)
		r.Verdict = &v
	}
	if r.Workload != nil {
		w := *r.Workload
		w.Images, w.Budgets, w.Pods = list(w.Images), list(w.Budgets), list(w.Pods)
		r.Workload = &w
	}
	return r
}

func filledSeries(p *Series) *Series {
	if p == nil {
		return nil
	}
	s := *p
	s.Sent, s.Failed, s.P50Ns, s.P99Ns = list(s.Sent), list(s.Failed), list(s.P50Ns), list(s.P99Ns)
	s.Instances = slices.Clone(list(s.Instances))
	for i := range s.Instances {
		s.Instances[i].Answered = list(s.Instances[i].Answered)
	}
	return &s
}

func filledCause(p *Cause) *Cause {
	if p == nil || p.Evidence != nil {
		return p
	}
	c := *p
	c.Evidence = []int{}
	return &c
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func table[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}
