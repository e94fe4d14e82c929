package record

import (
	"fmt"
	"maps"
	"slices"
)

// test checks what a test of requests adds, and that a trial without requests has none of it.
func (c *checker) test(r Record) {
	c.workload(r)
	c.verdict(r)
	if r.Requests == nil {
		c.check(r.Users == nil, "users", "is there, yet no requests were sent")
		c.check(r.Latency == nil, "latency", "is there, yet no requests were sent")
		c.check(len(r.Failures) == 0, "failures", "are there, yet no requests were sent")
		return
	}
	c.check(r.Config.Traffic != nil, "config.traffic", "is not there, yet requests were sent")
	c.check(r.Users != nil, "users", "is not there, yet requests were sent")
	c.check(r.Latency != nil, "latency", "is not there, yet requests were sent")
	if r.Completeness == Complete {
		c.check(r.Workload != nil, "workload", "is not there, yet the record is complete")
		c.check(r.Verdict != nil, "verdict", "is not there, yet the record is complete")
	}
	c.requests(*r.Requests)
	c.series(*r.Requests)
	c.failures(r)
	if r.Users != nil {
		c.users(r)
	}
	if r.Latency != nil {
		c.latency(*r.Latency, *r.Requests)
	}
}

func (c *checker) requests(q Requests) {
	var total, failed int64
	for _, o := range slices.Sorted(maps.Keys(q.Outcomes)) {
		oneOf(c, "requests.outcomes", o, RequestOutcomes())
		c.check(q.Outcomes[o] > 0, "requests.outcomes."+string(o), "is %d: outcomes that did not occur are left out", q.Outcomes[o])
		total += q.Outcomes[o]
		if o.Failed() {
			failed += q.Outcomes[o]
		}
	}
	c.check(q.Total == total, "requests.total", "is %d, but the outcomes sum up to %d", q.Total, total)
	c.check(q.Failed >= 0 && q.FailedBefore >= 0 && q.Failed+q.FailedBefore == failed, "requests.failed",
		"is %d and %d before the trigger, but the outcomes say %d", q.Failed, q.FailedBefore, failed)
	c.check(q.Reconnects >= 0, "requests.reconnects", "is negative")

	var instTotal, instFailed int64
	for i, n := range q.Instances {
		at := fmt.Sprintf("requests.instances[%d]", i)
		c.check(i == 0 || q.Instances[i-1].Instance < n.Instance, at+".instance", "%q is out of order or there twice", n.Instance)
		c.check(n.Failed >= 0 && n.Failed <= n.Total, at+".failed", "is %d of %d", n.Failed, n.Total)
		instTotal, instFailed = instTotal+n.Total, instFailed+n.Failed
	}
	c.check(instTotal == q.Total, "requests.instances", "sum up to %d of %d requests", instTotal, q.Total)
	c.check(instFailed == q.Failed, "requests.instances", "sum up to %d of %d failures", instFailed, q.Failed)
}

func (c *checker) series(q Requests) {
	const at = "requests.series"
	c.check((q.Series != nil) == (q.Total > 0), at, "is not null exactly where there was no request")
	if q.Series == nil {
		return
	}
	s := *q.Series
	if s.BucketNs <= 0 {
		c.add(at+".bucket_ns", "is not above zero")
		return
	}
	c.check(s.FromTNs%s.BucketNs == 0, at+".from_t_ns", "is no multiple of the bucket: one bucket would span the trigger")
	for _, l := range []struct {
		name  string
		n     int
		isNil bool
	}{
		{"failed", len(s.Failed), s.Failed == nil}, {"p50_ns", len(s.P50Ns), s.P50Ns == nil}, {"p99_ns", len(s.P99Ns), s.P99Ns == nil},
		{"sent", len(s.Sent), s.Sent == nil}, {"instances", len(s.Sent), s.Instances == nil},
	} {
		c.check(!l.isNil, at+"."+l.name, "is null")
		c.check(l.n == len(s.Sent), at+"."+l.name, "holds %d buckets, and sent %d", l.n, len(s.Sent))
	}
	var sent, failed int64
	for i, n := range s.Sent {
		sent += n
		if i >= len(s.Failed) || i >= len(s.P50Ns) || i >= len(s.P99Ns) {
			continue // told already
		}
		failed += s.Failed[i]
		c.check(s.Failed[i] >= 0 && s.Failed[i] <= n, fmt.Sprintf("%s.failed[%d]", at, i), "is %d of %d", s.Failed[i], n)
		p50, p99 := s.P50Ns[i], s.P99Ns[i]
		c.check((p50 == nil) == (p99 == nil) && (p50 == nil || *p50 <= *p99), fmt.Sprintf("%s.p50_ns[%d]", at, i), "is above p99, or only one of them is there")
	}
	c.check(sent == q.Total, at+".sent", "sums up to %d of %d requests", sent, q.Total)
	c.check(failed == q.Failed+q.FailedBefore, at+".failed", "sums up to %d of %d failures", failed, q.Failed+q.FailedBefore)
	for i, n := range s.Instances {
		where := fmt.Sprintf("%s.instances[%d]", at, i)
		c.check(len(n.Answered) == len(s.Sent), where+".answered", "holds %d buckets, and sent %d", len(n.Answered), len(s.Sent))
		c.check(slices.ContainsFunc(q.Instances, func(k InstanceCount) bool { return k.Instance == n.Instance }), where+".instance", "%q is not in requests.instances", n.Instance)
	}
}

func (c *checker) failures(r Record) {
	outcomes, phases, connections := RequestOutcomes(), RequestPhases(), Connections()
	users := 0
	if r.Users != nil {
		users = r.Users.Total
	}
	counts := map[RequestOutcome]int64{}
	var before int64
	for i, f := range r.Failures {
		// A record may hold very many of them, so a path is written only where it is needed.
		check := func(ok bool, field, format string, args ...any) {
			if !ok {
				c.add(fmt.Sprintf("failures[%d].%s", i, field), format, args...)
			}
		}
		check(i == 0 || r.Failures[i-1].TNs <= f.TNs, "t_ns", "is earlier than the failure before it")
		check(f.SentTNs == nil || *f.SentTNs <= f.TNs, "sent_t_ns", "is later than the end")
		check(slices.Contains(outcomes, f.Outcome) && f.Outcome != OK, "outcome", "%q is no failure", f.Outcome)
		check(slices.Contains(phases, f.Phase), "phase", "%q is none of %q", f.Phase, phases)
		check(slices.Contains(connections, f.Connection), "connection", "%q is none of %q", f.Connection, connections)
		check(f.Connection != NewConnection || f.ConnectionRequests == 0, "connection_requests", "is %d on a new connection", f.ConnectionRequests)
		check(f.ConnectionRequests >= 0, "connection_requests", "is negative")
		check(f.ConnectionAgeNs >= 0, "connection_age_ns", "is negative")
		check(f.BytesReceived >= 0, "bytes_received", "is negative")
		check(f.UncertaintyNs == nil || *f.UncertaintyNs >= 0, "uncertainty_ns", "is negative")
		check(f.Status != nil || !f.Outcome.Answered(), "status", "is null, yet the outcome is %s", f.Outcome)
		check(r.Users == nil || f.User >= 0 && f.User < users, "user", "%d is not in 0..%d", f.User, users-1)
		counts[f.Outcome]++
		if f.TNs < 0 && f.Outcome.Failed() {
			before++
		}
	}
	if r.Completeness != Complete {
		return // a client that was lost may have told its counts and not its failures
	}
	for _, o := range outcomes {
		if o.Failed() {
			c.check(counts[o] == r.Requests.Outcomes[o], "failures", "hold %d %s, and requests.outcomes says %d", counts[o], o, r.Requests.Outcomes[o])
		}
	}
	c.check(before == r.Requests.FailedBefore, "failures", "hold %d that ended before the trigger, and requests.failed_before is %d", before, r.Requests.FailedBefore)
}

func (c *checker) users(r Record) {
	u := *r.Users
	c.check(u.Hurt == len(u.HurtIDs), "users.hurt", "is %d, but hurt_ids names %d", u.Hurt, len(u.HurtIDs))
	for i, id := range u.HurtIDs {
		at := fmt.Sprintf("users.hurt_ids[%d]", i)
		c.check(id >= 0 && id < u.Total, at, "%d is not in 0..%d", id, u.Total-1)
		c.check(i == 0 || u.HurtIDs[i-1] < id, at, "%d is out of order or there twice", id)
	}
	if r.Completeness != Complete {
		return
	}
	hurt := map[int]bool{}
	for _, f := range r.Failures {
		if f.TNs >= 0 && f.Outcome.Failed() {
			hurt[f.User] = true
		}
	}
	c.check(slices.Equal(slices.Sorted(maps.Keys(hurt)), slices.Sorted(slices.Values(u.HurtIDs))), "users.hurt_ids", "are not the %d users of the failures from the trigger on", len(hurt))
}

func (c *checker) latency(l Latency, q Requests) {
	var sum int64
	for _, p := range []struct {
		name string
		of   *Quantiles
	}{{"before", l.Before}, {"during", l.During}, {"after", l.After}} {
		sum += c.quantiles("latency."+p.name, p.of)
	}
	var answered int64
	for o, n := range q.Outcomes {
		if o.Answered() {
			answered += n
		}
	}
	c.check(sum == answered, "latency", "counts %d answers, and the outcomes say %d", sum, answered)
	c.check(l.DuringToTNs == nil || *l.DuringToTNs >= 0, "latency.during_to_t_ns", "is before the trigger")
	c.check(l.DuringToTNs != nil || l.After == nil, "latency.after", "is there, yet the end of the disruption is not known")
	var named int64
	for i, n := range l.Instances {
		at := fmt.Sprintf("latency.instances[%d]", i)
		c.check(i == 0 || l.Instances[i-1].Instance < n.Instance, at+".instance", "%q is out of order or there twice", n.Instance)
		named += c.quantiles(at+".quantiles", n.Quantiles)
	}
	c.check(named <= answered, "latency.instances", "count %d answers of %d", named, answered)
}

// quantiles checks one distribution and gives how many values it counts.
func (c *checker) quantiles(at string, q *Quantiles) int64 {
	if q == nil {
		return 0
	}
	c.check(q.Count > 0, at+".count", "is not above zero: without an answer it is null")
	c.check(slices.IsSorted([]int64{0, q.MinNs, q.P50Ns, q.P90Ns, q.P99Ns, q.P999Ns, q.MaxNs}), at, "is not in ascending order from min_ns to max_ns")
	c.check(q.Histogram != "", at+".histogram", "is empty")
	return q.Count
}

func (c *checker) workload(r Record) {
	if r.Workload == nil {
		return
	}
	w := *r.Workload
	oneOf(c, "workload.kind", w.Kind, WorkloadKinds())
	oneOf(c, "workload.strategy", w.Strategy, Strategies())
	c.check(w.Name != "", "workload.name", "is empty")
	c.check(w.Replicas >= 0, "workload.replicas", "is negative")
	c.check(w.GraceNs >= 0, "workload.grace_ns", "is negative")
	c.check(w.PreStopSleepNs == nil || *w.PreStopSleepNs >= 0, "workload.pre_stop_sleep_ns", "is negative")
	for i, p := range w.Pods {
		c.check(p.Name != "", fmt.Sprintf("workload.pods[%d].name", i), "is empty")
	}
}

// verdict checks that a judgement follows from its own lines, and that nothing passes which was not measured whole.
func (c *checker) verdict(r Record) {
	if r.Verdict == nil {
		return
	}
	v := *r.Verdict
	oneOf(c, "verdict.result", v.Result, VerdictResults())
	c.check(v.Reason != "", "verdict.reason", "is empty")
	allOK := true
	for i, k := range v.Checks {
		at := fmt.Sprintf("verdict.checks[%d]", i)
		c.check(k.Name != "", at+".name", "is empty")
		c.check(k.OK == (k.Seen != nil && *k.Seen <= k.Limit), at+".ok", "is %t, which is not what limit and seen say", k.OK)
		allOK = allOK && k.OK
	}
	switch v.Result {
	case Pass:
		c.check(allOK, "verdict.result", "is pass, yet a check is not ok")
		c.check(r.Requests != nil && r.Requests.Total > 0, "verdict.result", "is pass, yet nothing was measured")
		c.check(r.Completeness == Complete, "verdict.result", "is pass, yet the record is incomplete")
	case Fail:
		c.check(!allOK, "verdict.result", "is fail, yet every check is ok")
	}
}
