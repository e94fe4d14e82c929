package htmlview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/verdict"
)

// verdictView is the verdict in a word, a sentence, a sign and a class, so that it is never told by colour alone.
type verdictView struct {
	Class, Sign, Word, Reason, Budget string
	Checks                            []checkView
}

type checkView struct{ Sign, Name, Seen, Limit string }

func verdictOf(r record.Record) verdictView {
	v := r.Verdict
	if v == nil {
		return verdictView{Class: "none", Sign: "–", Word: "Not judged", Reason: unjudged(r)}
	}
	out := verdictView{Class: "inconclusive", Sign: "?", Word: upperFirst(string(v.Result)), Reason: v.Reason, Budget: v.Budget}
	switch v.Result {
	case record.Pass:
		out.Class, out.Sign = "pass", "✓"
	case record.Fail:
		out.Class, out.Sign = "fail", "✗"
	}
	for _, c := range v.Checks {
		k := checkView{Sign: "✗", Name: c.Name, Limit: budgetFigure(c.Name, c.Limit), Seen: page.NotMeasured}
		if c.OK {
			k.Sign = "✓"
		}
		if c.Seen != nil {
			k.Seen = budgetFigure(c.Name, *c.Seen)
		}
		out.Checks = append(out.Checks, k)
	}
	return out
}

// unjudged sums a trial up that no budget was set for.
func unjudged(r record.Record) string {
	if r.IsTest() {
		if r.Requests == nil {
			return "No requests were sent, and the record holds no verdict."
		}
		return "The record holds no verdict."
	}
	var parts []string
	for _, p := range record.Protocols() {
		if list, total := fatesOf(r, p); total > 0 {
			parts = append(parts, fmt.Sprintf("Of %s: %s", figure.Plural(total, strings.ToUpper(string(p))+" flow"), fatesText(list)))
		}
	}
	if len(parts) == 0 {
		return "The record holds no flows and no requests."
	}
	return strings.Join(parts, ". ") + "."
}

// fate is one way in which flows ended, and how many did.
type fate struct {
	outcome   record.Outcome
	mechanism record.Mechanism
	n         int
}

func (f fate) lost() bool { return f.outcome == record.Severed || f.outcome == record.ReadTimeout }

func (f fate) String() string {
	switch {
	case f.outcome == record.NotMeasured:
		return page.NotMeasured
	case f.outcome == record.Severed && f.mechanism != "":
		return fmt.Sprintf("%s (%s)", f.outcome, f.mechanism)
	}
	return string(f.outcome)
}

// fatesOf counts the flows of a protocol by how they ended: what was lost first, then the most frequent.
func fatesOf(r record.Record, p record.Protocol) (list []fate, total int) {
	for _, f := range r.Flows {
		if f.Protocol != p {
			continue
		}
		total++
		i := slices.IndexFunc(list, func(x fate) bool { return x.outcome == f.Outcome && x.mechanism == f.Mechanism })
		if i < 0 {
			i, list = len(list), append(list, fate{outcome: f.Outcome, mechanism: f.Mechanism})
		}
		list[i].n++
	}
	slices.SortStableFunc(list, func(a, b fate) int {
		if a.lost() != b.lost() {
			return map[bool]int{true: -1, false: 1}[a.lost()]
		}
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.mechanism, b.mechanism))
	})
	return list, total
}

// fatesText lists fates, such as 8 drained, 2 severed (rst).
func fatesText(list []fate) string {
	var parts []string
	for _, f := range list {
		parts = append(parts, figure.Count(int64(f.n))+" "+f.String())
	}
	return strings.Join(parts, ", ")
}

// budgetFigure prints a limit of a budget or what was seen, in the unit that its name says.
func budgetFigure(name string, v float64) string {
	switch {
	case strings.HasSuffix(name, "-share"):
		return figure.Share(v)
	case name == "max" || strings.HasPrefix(name, "p") && strings.Trim(name[1:], "0123456789.") == "":
		return figure.Nanoseconds(int64(v))
	}
	return figure.Trimmed(v)
}

// tile is one number that matters, with what it is out of.
type tile struct {
	Name, Value, Of string
	// Bad marks what was lost.
	Bad bool
	// Steps are several values in order of time, instead of one.
	Steps []fact
}

func tilesOf(r record.Record) []tile {
	if r.IsTest() {
		return testTiles(r)
	}
	var list []tile
	for _, p := range record.Protocols() {
		fates, total := fatesOf(r, p)
		if total == 0 {
			continue
		}
		t := tile{Name: strings.ToUpper(string(p)) + " flows", Value: page.NotMeasured}
		if f := fates[0]; f.outcome != record.NotMeasured {
			t.Value, t.Of, t.Bad = fmt.Sprintf("%s of %s", figure.Count(int64(f.n)), figure.Count(int64(total))), f.String(), f.lost()
			if len(fates) > 1 {
				t.Of += "; " + fatesText(fates[1:])
			}
		}
		list = append(list, t)
	}
	type window struct{ name, title string }
	ends := []window{{record.DeadEndpoint, "Dead-endpoint window"}, {record.LastTCPEnd, "Last TCP flow ended"}}
	if _, tcp := fatesOf(r, record.TCP); tcp == 0 { // both are of TCP flows
		ends = []window{{record.LastUDPEnd, "Last UDP flow ended or rehomed"}}
	}
	for _, w := range append(ends, window{record.DeleteToEndpointRemoved, "Endpoint removed"}) {
		t := tile{Name: w.title, Value: page.NotMeasured}
		if x, ok := r.Window(w.name); ok && x.Ns != nil {
			t.Value = page.Sign(x.Bound) + figure.Nanoseconds(*x.Ns) + page.Uncertainty(x.UncertaintyNs)
			if w.name != record.DeadEndpoint {
				t.Of = "after the trigger"
			}
		} else {
			t.Of = x.Why
		}
		list = append(list, t)
	}
	exit := tile{Name: "Container exit code", Value: page.NotMeasured}
	if c := r.Summary.ContainerExitCode; c != nil {
		exit.Value = strconv.Itoa(*c)
	}
	if s := r.Summary.ContainerExitReason; s != nil {
		exit.Of = *s
	}
	return append(list, exit)
}

func testTiles(r record.Record) []tile {
	requests, failed, hurt := tile{Name: "Requests", Value: page.NotMeasured}, tile{Name: "Failed", Value: page.NotMeasured}, tile{Name: "Users hurt", Value: page.NotMeasured}
	if q := r.Requests; q != nil {
		requests.Value = figure.Count(q.Total)
		if t := r.Config.Traffic; t != nil {
			requests.Of = figure.Trimmed(t.Rate) + " a second, " + t.Mode
		}
		failed.Value, failed.Bad, failed.Of = figure.Count(q.Failed), q.Failed > 0, "after the trigger"
		if n := verdict.Since(r); n > 0 {
			failed.Of += ", " + figure.Share(float64(q.Failed)/float64(n)) + " of the requests since"
		}
		if q.FailedBefore > 0 {
			failed.Of += "; " + figure.Count(q.FailedBefore) + " before it"
		}
	}
	if u := r.Users; u != nil {
		hurt.Value, hurt.Bad, hurt.Of = figure.Count(int64(u.Hurt)), u.Hurt > 0, "of "+figure.Plural(u.Total, "user")
	}
	p99 := tile{Name: "p99 latency", Steps: []fact{{"before", page.NotMeasured}, {"during", page.NotMeasured}, {"after", page.NotMeasured}}}
	length := tile{Name: "Disruption", Value: page.NotMeasured, Of: "its end was not told"}
	if l := r.Latency; l != nil {
		for i, q := range []*record.Quantiles{l.Before, l.During, l.After} {
			if q != nil {
				p99.Steps[i].Value = figure.Nanoseconds(q.P99Ns)
			}
		}
		if l.DuringToTNs != nil {
			length.Value, length.Of = figure.Nanoseconds(*l.DuringToTNs), "from the trigger to its end as Kubernetes told it"
		}
	}
	if r.Trigger != nil && r.Trigger.Kind == "none" && length.Value == page.NotMeasured {
		length.Value, length.Of = "none", "a control: nothing was ended"
	}
	if from, to, ok := lossSpan(r); ok {
		failed.Of += "; due " + figure.Precise(from, to)
	}
	return []tile{requests, failed, hurt, p99, length}
}

// lossSpan is when the failures since the trigger were due.
func lossSpan(r record.Record) (from, to int64, ok bool) {
	for _, f := range r.Failures {
		if f.TNs < 0 || !f.Outcome.Failed() {
			continue
		}
		if !ok {
			from, to, ok = f.PlannedTNs, f.PlannedTNs, true
		}
		from, to = min(from, f.PlannedTNs), max(to, f.PlannedTNs)
	}
	return from, to, ok
}

// testedOf says what was tested, by what, and where.
func testedOf(r record.Record) []fact {
	var list []fact
	add := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			list = append(list, fact{name, strings.Join(parts, ", ")})
		}
	}
	if w := r.Workload; w != nil {
		add("Workload", fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name), figure.Plural(w.Replicas, "replica"), page.Strategy(*w))
		hook := "no preStop hook"
		if w.PreStop != "" {
			hook = "preStop " + w.PreStop
		}
		ready := "readiness probe"
		if !w.ReadinessProbe {
			ready = "no readiness probe"
		}
		add("Shutdown", "grace "+figure.Setting(w.GraceNs), hook, ready, strings.Join(w.Budgets, ", "))
		add("Images", w.Images...)
	} else if !r.IsTest() {
		c := r.Config
		add("Workload", "the bundled probe, "+cmp.Or(c.Arm, "no arm named"), "grace "+figure.Setting(c.GraceNs), "drain window "+figure.Setting(c.DrainWindowNs), hookText(c))
		add("Flows", figure.Plural(c.TCP, "TCP flow"), figure.Plural(c.UDP, "UDP flow"), "a heartbeat every "+figure.Setting(c.HeartbeatNs))
	}
	if t := r.Trigger; t != nil {
		add("Trigger", t.Kind+" "+t.Subject, t.At.UTC().Format("2006-01-02 15:04:05.000 UTC"))
	} else {
		add("Trigger", cmp.Or(r.Config.Trigger, "none named"), "never sent")
	}
	service := ""
	if w := r.Workload; w != nil && w.Service != "" {
		service = "Service " + w.Service + ":" + strconv.Itoa(w.Port)
	}
	add("Path", r.Config.Path, service, "clients on "+cmp.Or(r.Config.Vantage, page.NotMeasured))
	if t := r.Config.Traffic; t != nil {
		tls := ""
		if t.InsecureTLS {
			tls = "certificates not checked"
		}
		add("Traffic", strings.TrimSpace(t.Mode+" "+t.Method+" "+t.URL), figure.Trimmed(t.Rate)+" a second", figure.Plural(t.Users, "user"), figure.Plural(t.Workers, "client"), "expecting "+cmp.Or(t.Expect, "any answer"), tls)
	}
	e := r.Environment
	mode := "proxy mode " + page.NotMeasured
	if e.ProxyMode != nil {
		mode = "kube-proxy " + *e.ProxyMode
	}
	cluster := ""
	switch {
	case e.Cluster != "":
		cluster = "cluster " + e.Cluster
	case e.Context != "":
		cluster = "context " + e.Context
	}
	add("Cluster", "Kubernetes "+e.Kubernetes, mode, figure.Plural(len(e.Nodes), "node"), cluster)
	add("Measured by", toolText(r.Tool), e.OS+"/"+e.Arch+" "+e.Kernel, figure.Plural(e.CPUs, "CPU"))
	add("Record", r.ID, r.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	return list
}

func hookText(c record.Config) string {
	if c.PreStopSleepNs == 0 {
		return "no preStop hook"
	}
	return "preStop sleep " + figure.Setting(c.PreStopSleepNs)
}

// doubtsOf lists what is missing, and what a reader must know to trust the rest.
func doubtsOf(r record.Record) []string {
	var list []string
	if r.Completeness != record.Complete {
		list = append(list, "The record is incomplete.")
	}
	for _, m := range r.Missing {
		list = append(list, "Missing: "+m)
	}
	if r.Trigger == nil {
		list = append(list, "The trial ended before its trigger: all times lie before zero, and only their distances mean something.")
	}
	list = append(list, absent(r)...)
	list = append(list, clientDoubts(r)...)
	for _, s := range r.Sources {
		for _, g := range s.Gaps {
			to := "the end"
			if g.ToTNs != nil {
				to = figure.Precise(*g.ToTNs, *g.ToTNs)
			}
			list = append(list, fmt.Sprintf("%s did not listen from %s to %s: %s", s.Name, figure.Precise(g.FromTNs, g.FromTNs), to, g.Why))
		}
		if s.Ended != "" {
			list = append(list, s.Name+" ended early: "+s.Ended)
		}
	}
	for _, c := range r.Clocks {
		if c.OffsetNs == nil || c.UncertaintyNs == nil {
			list = append(list, "The clock of "+c.Name+" could not be compared with the harness's.")
		}
	}
	return append(list, agentDoubts(r)...)
}

// absent names the parts that an older or broken-off record does not have.
func absent(r record.Record) []string {
	var list []string
	miss := func(is bool, what string) {
		if is {
			list = append(list, "The record holds no "+what+".")
		}
	}
	if r.IsTest() {
		miss(r.Requests == nil, "count of requests")
		miss(r.Requests != nil && !sound(r.Requests.Series), "course over time")
		if r.Requests != nil {
			if counted, held := failuresHeld(r); held != counted {
				list = append(list, fmt.Sprintf("The record counts %s and holds %s of them: the others have no mark, no row and no cause.", figure.Plural(int(counted), "failed request"), figure.Count(held)))
			}
		}
		miss(r.Users == nil, "count of users")
		miss(r.Latency == nil, "latency")
		miss(r.Workload == nil, "description of the workload")
		miss(r.Verdict == nil, "verdict")
	} else {
		miss(len(r.Flows) == 0, "flows and no requests")
	}
	miss(len(r.Events) == 0, "events")
	miss(len(r.Sources) == 0, "proof of life of its sources")
	return list
}

// failuresHeld are how many failed requests a record counts, and how many it holds whole.
func failuresHeld(r record.Record) (counted, held int64) {
	for _, f := range r.Failures {
		if f.Outcome.Failed() {
			held++
		}
	}
	return r.Requests.Failed + r.Requests.FailedBefore, held
}

// keptOf says what each mark is, and where all the requests are that have none.
func keptOf(r record.Record) string {
	if r.Requests == nil || !sound(r.Requests.Series) {
		return ""
	}
	_, held := failuresHeld(r)
	return fmt.Sprintf("%s were sent. Each of the %s that failed is a mark, where many lie upon each other they are one; the others are counted, in steps of %s.",
		figure.Plural(int(r.Requests.Total), "request"), figure.Count(held), figure.Setting(r.Requests.Series.BucketNs))
}

func clientDoubts(r record.Record) []string {
	h := r.Client
	if h == nil {
		return []string{"Whether the client kept up was not measured."}
	}
	var list []string
	if h.FellBehind {
		list = append(list, fmt.Sprintf("The client fell behind: it was up to %s late, %s at the 99.9th percentile. No workload is blamed or excused by this trial.",
			figure.Nanoseconds(h.LateMaxNs), figure.Nanoseconds(h.LateP999Ns)))
	}
	for _, errno := range slices.Sorted(maps.Keys(h.Limits)) {
		list = append(list, fmt.Sprintf("The client hit its own limits: %s × %s.", figure.Count(int64(h.Limits[errno])), errno))
	}
	return list
}

func agentDoubts(r record.Record) []string {
	if len(r.Agents) == 0 && !slices.ContainsFunc(r.Events, func(e record.Event) bool { return ofNode(e.Source) }) {
		return []string{"No agent was on the nodes: their kernels, connection tracking and rules were not watched."}
	}
	var list []string
	for _, a := range r.Agents {
		if a.Ended != "" {
			list = append(list, "The agent on "+a.Node+" ended early: "+a.Ended)
		}
		for _, s := range a.Sights {
			if !s.Seen {
				list = append(list, fmt.Sprintf("%s was not watched on %s: %s", s.Name, a.Node, s.Why))
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(a.Lost)) {
			list = append(list, fmt.Sprintf("The agent on %s lost %s.", a.Node, figure.Plural(int(a.Lost[kind]), kind+" event")))
		}
	}
	return list
}

// ofNode reports whether events of that source are a node's.
func ofNode(s record.EventFrom) bool {
	return s == record.FromKernel || s == record.FromConntrack || s == record.FromDataplane
}

// soundOf says what speaks for the record; it stands beside the doubts.
func soundOf(r record.Record) string {
	var parts []string
	if r.Completeness == record.Complete {
		parts = append(parts, "the record is complete")
	}
	if h := r.Client; h != nil && !h.FellBehind {
		parts = append(parts, "the client kept up (at most "+figure.Nanoseconds(h.LateMaxNs)+" late)")
	}
	whole := 0
	for _, s := range r.Sources {
		if len(s.Gaps) == 0 && s.Ended == "" {
			whole++
		}
	}
	if n := len(r.Sources); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s listened without a gap", whole, figure.Plural(n, "source")))
	}
	if len(parts) == 0 {
		return ""
	}
	return upperFirst(strings.Join(parts, "; ")) + "."
}
