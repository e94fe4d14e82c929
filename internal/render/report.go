package render

import (
	"cmp"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

// ReportSchema names the machine form of a report.
const ReportSchema = "drainproof.dev/report/v1"

// Input is one record and where it was read.
type Input struct {
	// Path is used in errors only.
	Path   string
	Record record.Record
}

// Report is the machine form of the tables over sets; every table is a view of it.
type Report struct {
	Schema string      `json:"schema"`
	Sets   []SetReport `json:"sets"`
}

// SetReport is one experiment under one set of conditions.
type SetReport struct {
	// Experiment is empty for trials that belong to none.
	Experiment       string `json:"experiment"`
	ExperimentSha256 string `json:"experiment_sha256"`
	Kubernetes       string `json:"kubernetes"`
	// ProxyMode is null where it could not be read.
	ProxyMode *string     `json:"proxy_mode"`
	Tool      record.Tool `json:"tool"`
	Arms      []ArmReport `json:"arms"`
	// Notes are the distinct notes of the set's records, sorted.
	Notes []string `json:"notes"`
}

// ArmReport sums up all repeats of one arm.
type ArmReport struct {
	Arm string `json:"arm"`
	// Config is that of every repeat, but for the address in a URL and the namespace.
	Config  record.Config `json:"config"`
	Repeats int           `json:"repeats"`
	// Requests and Workload are of tests, TCP and UDP of trials of flows; null for the other.
	Workload *record.Workload `json:"workload"`
	Requests *RequestsReport  `json:"requests"`
	TCP      *Fates           `json:"tcp"`
	UDP      *Fates           `json:"udp"`
	// ContainerExitCodes has one entry a repeat; null where it was not seen.
	ContainerExitCodes []*int `json:"container_exit_codes"`
	// Windows has one entry for each of the record's windows.
	Windows []WindowReport `json:"windows"`
	// Causes counts, over all repeats, why requests and flows were lost; empty without losses.
	Causes map[string]int `json:"causes"`
	// Order has one entry for each station of a Pod that was deleted; null where no agent told.
	Order []StationReport `json:"order"`
	// DeadEndpoints has one entry for each node that clients went through, in order of names; Conntrack is of flows of datagrams. Null where no
	// agent told, or there is nothing to tell.
	DeadEndpoints []NodeReport   `json:"dead_endpoints"`
	Conntrack     *EntriesReport `json:"conntrack"`
}

// NodeReport is how long a node's rules went on naming Pods to new clients after nothing listened there any more.
type NodeReport struct {
	Node string `json:"node"`
	// WindowsNs has one value for each Pod; negative where the rules had ceased before.
	WindowsNs []int64 `json:"windows_ns"`
	// Failed counts the requests and flows that this cost.
	Failed int `json:"failed"`
}

// EntriesReport tells of the first conntrack entries of flows of datagrams.
type EntriesReport struct {
	Entries int `json:"entries"`
	// DeletedNs are the times of those that were deleted, from the trigger; By counts them by who did it.
	DeletedNs []int64        `json:"deleted_ns"`
	By        map[string]int `json:"by"`
	// ICMPFromPod and ICMPFromNodes count the ICMP errors about these flows, by sender.
	ICMPFromPod   int `json:"icmp_from_pod"`
	ICMPFromNodes int `json:"icmp_from_nodes"`
}

// StationReport is when Pods that were deleted passed a station.
type StationReport struct {
	Name string `json:"name"`
	// ValuesNs are of the Pods that were seen there, counted from their deletion.
	ValuesNs []int64 `json:"values_ns"`
}

// Fates says what became of the flows of one protocol.
type Fates struct {
	// Agree: every repeat had the same number of flows of each outcome.
	Agree bool `json:"agree"`
	// Repeats has one list a repeat, ordered best outcome first, then by mechanism.
	Repeats [][]Fate `json:"repeats"`
}

// Fate counts the flows of one repeat that ended the same way.
type Fate struct {
	Outcome   record.Outcome   `json:"outcome"`
	Mechanism record.Mechanism `json:"mechanism"`
	Flows     int              `json:"flows"`
}

// WindowReport is one window over all repeats of an arm.
type WindowReport struct {
	Name string `json:"name"`
	// N is in how many repeats it was measured. The median and range are over those; null without any.
	N        int    `json:"n"`
	MedianNs *int64 `json:"median_ns"`
	MinNs    *int64 `json:"min_ns"`
	MaxNs    *int64 `json:"max_ns"`
	// Bound of all values; either where they differ.
	Bound record.Bound `json:"bound"`
	// UncertaintyNs is the largest clock bound of a value; null where one is not known.
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	// ValuesNs has one entry a repeat; null where it was not measured.
	ValuesNs []*int64 `json:"values_ns"`
	// Why the first repeat that lacks it does; empty where none does.
	Why string `json:"why"`
}

// New sums up records, set by set. It refuses, with an error of this package's types,
// a set with a hole (*HoleError), one that mixes conditions (*MixedError) or holds a repeat twice
// (*DuplicateError), and an empty list (*NoRecordsError).
func New(inputs []Input) (*Report, error) {
	cohorts, err := cohortsOf(inputs)
	if err != nil {
		return nil, err
	}
	rep := &Report{Schema: ReportSchema, Sets: []SetReport{}}
	for _, g := range cohorts {
		rep.Sets = append(rep.Sets, g.report())
	}
	return rep, nil
}

func (g *cohort) report() SetReport {
	first := g.trials[0].Record
	s := SetReport{
		Experiment: g.key.experiment, ExperimentSha256: g.key.experimentSha, Kubernetes: g.key.kubernetes,
		ProxyMode: first.Environment.ProxyMode, Tool: first.Tool, Arms: []ArmReport{}, Notes: []string{},
	}
	for _, arm := range g.arms {
		s.Arms = append(s.Arms, armReport(arm, g.of(arm)))
	}
	for _, t := range g.trials {
		s.Notes = append(s.Notes, t.Record.Notes...)
	}
	slices.Sort(s.Notes)
	s.Notes = slices.Compact(s.Notes)
	return s
}

// armReport takes the repeats of an arm in order.
func armReport(arm string, trials []trial) ArmReport {
	whole := recordsOf(trials)
	a := ArmReport{Arm: arm, Config: whole[0].Config, Repeats: len(trials), Workload: whole[0].Workload, Requests: RequestsOf(whole)}
	if a.Requests == nil {
		a.TCP, a.UDP = fatesOf(whole, record.TCP), fatesOf(whole, record.UDP)
	}
	windows := make([][]record.Window, len(trials))
	for i, t := range trials {
		a.ContainerExitCodes = append(a.ContainerExitCodes, record.Summarize(t.Record, "").ContainerExitCode)
		windows[i] = record.DeriveWindows(t.Record, "")
	}
	for i := range record.WindowDefs() {
		var ws []record.Window
		for _, w := range windows {
			ws = append(ws, w[i])
		}
		a.Windows = append(a.Windows, windowReport(ws))
	}
	a.Causes, _ = causeCounts(whole)
	if anyAgents(whole) {
		_, passed := passings(whole)
		for i, name := range stations {
			a.Order = append(a.Order, StationReport{name, append([]int64{}, passed[i]...)})
		}
		a.DeadEndpoints, a.Conntrack = lateNodes(whole), entriesOf(whole)
	}
	return a
}

func fatesOf(trials []record.Record, p record.Protocol) *Fates {
	f := &Fates{}
	for _, r := range trials {
		f.Repeats = append(f.Repeats, fates(r.Flows, p))
	}
	f.Agree = agree(f.Repeats)
	return f
}

// fates counts flows by outcome and mechanism.
func fates(flows []record.Flow, p record.Protocol) []Fate {
	list := []Fate{}
	for _, f := range flows {
		if f.Protocol != p {
			continue
		}
		i := slices.IndexFunc(list, func(x Fate) bool { return x.Outcome == f.Outcome && x.Mechanism == f.Mechanism })
		if i < 0 {
			i = len(list)
			list = append(list, Fate{Outcome: f.Outcome, Mechanism: f.Mechanism})
		}
		list[i].Flows++
	}
	order := record.Outcomes()
	slices.SortFunc(list, func(a, b Fate) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Outcome), slices.Index(order, b.Outcome)), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	return list
}

// byOutcome drops the mechanisms: whether a cut reached the client as a reset
// or as a broken pipe depends on what it was doing, not on the arm.
func byOutcome(list []Fate) []Fate {
	var out []Fate
	for _, f := range list {
		if n := len(out); n > 0 && out[n-1].Outcome == f.Outcome {
			out[n-1].Flows += f.Flows
			continue
		}
		out = append(out, Fate{Outcome: f.Outcome, Flows: f.Flows})
	}
	return out
}

func agree(repeats [][]Fate) bool {
	for _, r := range repeats[1:] {
		if !slices.Equal(byOutcome(r), byOutcome(repeats[0])) {
			return false
		}
	}
	return true
}

// windowReport sums up one window of all repeats.
func windowReport(ws []record.Window) WindowReport {
	out := WindowReport{Name: ws[0].Name, ValuesNs: []*int64{}}
	var values []int64
	known, widest := true, int64(0)
	for _, w := range ws {
		out.ValuesNs = append(out.ValuesNs, w.Ns)
		if w.Ns == nil {
			out.Why = cmp.Or(out.Why, w.Why)
			continue
		}
		values = append(values, *w.Ns)
		if w.UncertaintyNs == nil {
			known = false
		} else {
			widest = max(widest, *w.UncertaintyNs)
		}
		if out.Bound != "" && out.Bound != w.Bound {
			out.Bound = record.Either
		} else {
			out.Bound = w.Bound
		}
	}
	out.Bound = cmp.Or(out.Bound, record.Exact)
	if s, ok := stats.Summarize(values); ok {
		out.N, out.MedianNs, out.MinNs, out.MaxNs = s.N, &s.Median, &s.Min, &s.Max
		if known {
			out.UncertaintyNs = &widest
		}
	}
	return out
}

// Window gives the report of that name; ok is false without one.
func (a ArmReport) Window(name string) (w WindowReport, ok bool) {
	i := slices.IndexFunc(a.Windows, func(w WindowReport) bool { return w.Name == name })
	if i < 0 {
		return WindowReport{}, false
	}
	return a.Windows[i], true
}
