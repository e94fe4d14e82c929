package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// column of a table over arms.
type column struct {
	head string
	cell func(ArmReport) string
}

func (s SetReport) tables() []page.Table {
	arm := column{"arm", func(a ArmReport) string { return a.Arm }}
	trigger := column{"trigger", func(a ArmReport) string { return a.Config.Trigger }}
	n := column{"n", func(a ArmReport) string { return fmt.Sprint(a.Repeats) }}
	hasTCP := s.has(func(a ArmReport) *Fates { return a.TCP })
	// of is a column about TCP flows; none where no arm has any.
	of := func(c column) column {
		if !hasTCP {
			return column{}
		}
		return c
	}
	core := "What became of the Pod, and when, counted from the trigger."
	if hasTCP {
		core = "What became of the TCP flows, and when, counted from the trigger."
	}
	tables := []page.Table{
		s.table("Core", core,
			arm, of(column{"TCP flows", func(a ArmReport) string { return a.TCP.String() }}), of(s.window("first end", record.FirstTCPEnd)), of(s.window("last end", record.LastTCPEnd)),
			s.window("endpoint removed", record.DeleteToEndpointRemoved), s.window("container exit", record.DeleteToExit),
			column{"code", exitCode}, s.window("after grace", record.KillAfterGrace), n),
		s.table("Triggers", "What each way to end the Pod set in motion, counted from the trigger.",
			arm, trigger, s.window("accepted", record.DeleteToAccepted), s.window("SIGTERM", record.DeleteToTerm),
			s.window("endpoint not ready", record.DeleteToNotReady), of(s.window("last TCP end", record.LastTCPEnd)),
			s.window("replacement ready", record.ReplacementReady), n),
	}
	if s.has(func(a ArmReport) *Fates { return a.UDP }) {
		tables = append(tables, s.table("UDP", "Where each UDP flow went, and how far from the container's exit.",
			arm, trigger, column{"UDP flows", func(a ArmReport) string { return a.UDP.String() }},
			s.window("first end", record.FirstUDPEnd), s.window("last end", record.LastUDPEnd),
			s.window("first rehome to exit", record.UDPRehomeBeforeExit), s.window("exit to last end", record.ExitToLastUDPEnd),
			s.window("exiting to last end", record.ExitingToLastUDPEnd), n))
	}
	if hasTCP {
		tables = append(tables, s.table("Dead endpoint", "How long the API named an endpoint after its last TCP flow had died; negative: it was withdrawn first.",
			arm, s.window("last TCP end", record.LastTCPEnd), s.window("to not ready", record.DeadEndpointReady),
			s.window("to removed", record.DeadEndpoint), n))
	}
	return tables
}

// has reports whether any arm had flows of a protocol.
func (s SetReport) has(of func(ArmReport) *Fates) bool {
	return slices.ContainsFunc(s.Arms, func(a ArmReport) bool {
		f := of(a)
		return f != nil && slices.ContainsFunc(f.Repeats, func(f []Fate) bool { return len(f) > 0 })
	})
}

// table leaves out columns in which no arm has a value, except those that every table needs.
func (s SetReport) table(title, note string, columns ...column) page.Table {
	t := page.Table{Title: title, Note: note, Paint: fate}
	columns = slices.DeleteFunc(columns, func(c column) bool { return c.cell == nil })
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	for _, a := range s.Arms {
		var row []string
		for _, c := range columns {
			row = append(row, c.cell(a))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// window is the column of one window. A bound that all arms share moves into the heading, and a
// window that means nothing to any arm (killed after its grace) has no column.
func (s SetReport) window(head, name string) column {
	var bounds []record.Bound
	for _, a := range s.Arms {
		if w, ok := a.Window(name); ok && w.N > 0 && !slices.Contains(bounds, w.Bound) {
			bounds = append(bounds, w.Bound)
		}
	}
	if len(bounds) == 0 && name == record.KillAfterGrace {
		return column{}
	}
	shared := len(bounds) == 1
	if shared {
		head = strings.TrimSpace(head + " " + page.Sign(bounds[0]))
	}
	return column{head, func(a ArmReport) string {
		w, _ := a.Window(name)
		text := w.String()
		if shared || w.N == 0 {
			return text
		}
		return page.Sign(w.Bound) + text
	}}
}

// String gives median and range, such as 45 ms (30–98), without the sign of its bound.
func (w WindowReport) String() string {
	if w.N == 0 {
		return page.NotMeasured
	}
	u := figure.UnitFor(*w.MedianNs)
	s := u.Number(*w.MedianNs) + " " + u.Name
	if *w.MedianNs == 0 {
		s = figure.Nanoseconds(0)
	}
	if w.N > 1 {
		s += " (" + u.Number(*w.MinNs) + figure.Dash(*w.MinNs, *w.MaxNs) + u.Number(*w.MaxNs) + ")"
	}
	if w.UncertaintyNs == nil || *w.UncertaintyNs > 0 {
		s += page.Uncertainty(w.UncertaintyNs)
	}
	if w.N < len(w.ValuesNs) {
		s += fmt.Sprintf(" in %d of %d", w.N, len(w.ValuesNs))
	}
	return s
}

// String gives the outcomes of all repeats in one line, such as 10/10 severed (rst).
func (f Fates) String() string {
	if f.Agree {
		return fatesText(f.merged())
	}
	// Repeats that agree with each other are counted together, the most frequent first.
	var texts []string
	times := map[string]int{}
	for _, r := range f.Repeats {
		t := fatesText(r)
		if times[t] == 0 {
			texts = append(texts, t)
		}
		times[t]++
	}
	slices.SortStableFunc(texts, func(a, b string) int { return times[b] - times[a] })
	for i, t := range texts {
		texts[i] = fmt.Sprintf("%d×: %s", times[t], t)
	}
	return strings.Join(texts, "; ")
}

// merged gives the counts that all repeats agree on, with every mechanism that occurred.
func (f Fates) merged() []Fate {
	var all []Fate
	for _, o := range byOutcome(f.Repeats[0]) {
		var mechanisms []record.Mechanism
		for _, r := range f.Repeats {
			for _, x := range r {
				if x.Outcome == o.Outcome && !slices.Contains(mechanisms, x.Mechanism) {
					mechanisms = append(mechanisms, x.Mechanism)
				}
			}
		}
		slices.Sort(mechanisms)
		for i, m := range mechanisms {
			x := Fate{Outcome: o.Outcome, Mechanism: m}
			if i == 0 {
				x.Flows = o.Flows
			}
			all = append(all, x)
		}
	}
	return all
}

func fatesText(list []Fate) string {
	total := 0
	for _, f := range list {
		total += f.Flows
	}
	if total == 0 {
		return "none"
	}
	var parts []string
	for _, o := range byOutcome(list) {
		var mechanisms []string
		for _, f := range list {
			// What a rehome or an announced end is carried by goes without saying.
			if f.Outcome == o.Outcome && f.Mechanism != record.None && f.Mechanism != record.OtherInstance && f.Mechanism != record.AnnouncedFIN {
				mechanisms = append(mechanisms, page.Clean(string(f.Mechanism)))
			}
		}
		text := fmt.Sprintf("%d/%d %s", o.Flows, total, page.Clean(string(o.Outcome)))
		if len(mechanisms) > 0 {
			text += " (" + strings.Join(mechanisms, ", ") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// exitCode gives the code that all repeats agree on, else each one's.
func exitCode(a ArmReport) string {
	var codes []string
	for _, c := range a.ContainerExitCodes {
		text := page.NotMeasured
		if c != nil {
			text = fmt.Sprint(*c)
		}
		codes = append(codes, text)
	}
	if distinct := slices.Compact(slices.Clone(codes)); len(distinct) == 1 {
		return distinct[0]
	}
	return strings.Join(codes, ", ")
}
