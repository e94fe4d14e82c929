package htmlview

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// island is a trial's data as the script reads it. Lists of numbers are columns: a list, or one number where all are
// equal. Texts are indexes into Strings, which are clean. Times are nanoseconds from the trigger.
type island struct {
	Strings []string `json:"strings"`
	All     [2]int64 `json:"all"`
	View    [2]int64 `json:"view"`
	// Zero is what the time counts from.
	Zero     string       `json:"zero"`
	Lanes    []islandLane `json:"lanes"`
	Events   eventColumns `json:"events"`
	Failures failureRows  `json:"failures"`
	Flows    []islandFlow `json:"flows"`
	Series   *islandSerie `json:"series"`
	// DuringTo is where the disruption ended; null where that was not told.
	DuringTo *int64 `json:"during_to"`
}

type islandLane struct {
	lane
	// Bars replaces the lane's: from, to (null where it has no end or beginning in sight), state, row, event, flow.
	Bars [][6]any `json:"bars,omitempty"`
}

type eventColumns struct {
	N           int `json:"n"`
	ID          any `json:"id"`
	T           any `json:"t"`
	Source      any `json:"source"`
	Kind        any `json:"kind"`
	Subject     any `json:"subject"`
	Pod         any `json:"pod"`
	Node        any `json:"node"`
	Bound       any `json:"bound"`
	Uncertainty any `json:"uncertainty"`
	Detail      any `json:"detail"`
	NotBefore   any `json:"not_before"`
}

// failureRows are the failures in order of their end. Waited is from due to ended, Sent from due to sent.
type failureRows struct {
	N           int `json:"n"`
	T           any `json:"t"`
	Waited      any `json:"waited"`
	Sent        any `json:"sent"`
	Outcome     any `json:"outcome"`
	Phase       any `json:"phase"`
	Connection  any `json:"connection"`
	Instance    any `json:"instance"`
	User        any `json:"user"`
	Worker      any `json:"worker"`
	Status      any `json:"status"`
	Errno       any `json:"errno"`
	Message     any `json:"message"`
	Bytes       any `json:"bytes"`
	Host        any `json:"host"`
	Port        any `json:"port"`
	Remote      any `json:"remote"`
	Age         any `json:"age"`
	Carried     any `json:"carried"`
	Retryable   any `json:"retryable"`
	Uncertainty any `json:"uncertainty"`
	Cause       any `json:"cause"`
	// Causes are the forms of sentences with their evidence; the numbers of each failure's own stand in Numbers, in the places of the form's marks.
	Causes  []islandCause `json:"causes"`
	Numbers any           `json:"numbers"`
}

type islandCause struct {
	Kind     int   `json:"kind"`
	Form     int   `json:"form"`
	Evidence []int `json:"evidence"`
}

type islandFlow struct {
	ID          string       `json:"id"`
	Outcome     string       `json:"outcome"`
	Mechanism   string       `json:"mechanism"`
	Opened      *int64       `json:"opened"`
	Ended       *int64       `json:"ended"`
	After       *int64       `json:"after"`
	Uncertainty *int64       `json:"uncertainty"`
	First       *string      `json:"first"`
	Last        *string      `json:"last"`
	Sent        uint64       `json:"sent"`
	Answered    uint64       `json:"answered"`
	End         string       `json:"end"`
	Errno       string       `json:"errno"`
	Local       string       `json:"local"`
	Remote      string       `json:"remote"`
	Cause       *islandWhole `json:"cause"`
}

// islandWhole is a cause that is told whole.
type islandWhole struct {
	Kind     string `json:"kind"`
	Sentence string `json:"sentence"`
	Evidence []int  `json:"evidence"`
}

type islandSerie struct {
	From    int64    `json:"from"`
	Bucket  int64    `json:"bucket"`
	Sent    []int64  `json:"sent"`
	Failed  []int64  `json:"failed"`
	P50     []*int64 `json:"p50"`
	P99     []*int64 `json:"p99"`
	Rates   coarse   `json:"rates"`
	Answers coarse   `json:"answers"`
}

// texts interns clean strings.
type texts struct {
	list []string
	at   map[string]int
}

func (t *texts) of(s string) int {
	if i, ok := t.at[s]; ok {
		return i
	}
	i := len(t.list)
	t.at[s], t.list = i, append(t.list, page.Clean(s))
	return i
}

// or gives null for no string.
func (t *texts) or(s *string) any {
	if s == nil {
		return nil
	}
	return t.of(*s)
}

func (m *model) island() ([]byte, error) {
	t := &texts{at: map[string]int{}}
	t.of("") // index 0 is no text
	d := island{
		All: [2]int64{m.all.from, m.all.to}, View: [2]int64{m.view.from, m.view.to}, Zero: "trigger",
		Events: m.events(t), Failures: m.failureRows(t), Flows: m.flowList(), Series: m.series(), Lanes: []islandLane{},
	}
	if m.r.Trigger == nil {
		d.Zero = "end"
	} else if k := m.r.Trigger.Kind; k != "" {
		d.Zero = page.Clean(k)
	}
	if l := m.r.Latency; l != nil {
		d.DuringTo = l.DuringToTNs
	}
	for _, l := range m.lanes {
		x := islandLane{lane: l}
		x.Label, x.Sub, x.Pod, x.Node, x.Outcome = page.Clean(l.Label), page.Clean(l.Sub), page.Clean(l.Pod), page.Clean(l.Node), page.Clean(l.Outcome)
		for _, b := range l.Bars {
			x.Bars = append(x.Bars, [6]any{inSight(b.from), inSight(b.to), b.state, b.row, b.event, b.flow})
		}
		d.Lanes = append(d.Lanes, x)
	}
	d.Strings = t.list
	return json.Marshal(d)
}

func inSight(t int64) any {
	if t == before || t == beyond {
		return nil
	}
	return t
}

// columnOf makes a list of n values, or one value where all are equal.
func columnOf[T comparable](n int, at func(int) T) any {
	list := make([]T, n)
	same := true
	for i := range list {
		list[i] = at(i)
		same = same && list[i] == list[0]
	}
	if same && n > 0 {
		return list[0]
	}
	return list
}

// nullable is columnOf for numbers that may be null.
func nullable[N int | int64](n int, at func(int) *N) any {
	return columnOf(n, func(i int) any {
		if v := at(i); v != nil {
			return *v
		}
		return nil
	})
}

func (m *model) events(t *texts) eventColumns {
	list := m.r.Events
	text := func(of func(record.Event) string) any {
		return columnOf(len(list), func(i int) int { return t.of(of(list[i])) })
	}
	return eventColumns{
		N:           len(list),
		ID:          columnOf(len(list), func(i int) int { return list[i].ID }),
		T:           columnOf(len(list), func(i int) int64 { return list[i].TNs }),
		Source:      text(func(e record.Event) string { return string(e.Source) }),
		Kind:        text(func(e record.Event) string { return string(e.Kind) }),
		Subject:     text(func(e record.Event) string { return e.Subject }),
		Pod:         text(func(e record.Event) string { return record.PodOf(e.Subject) }),
		Node:        text(func(e record.Event) string { return e.Node }),
		Bound:       text(func(e record.Event) string { return string(e.Bound) }),
		Uncertainty: nullable(len(list), func(i int) *int64 { return list[i].UncertaintyNs }),
		Detail:      text(func(e record.Event) string { return detailText(e.Detail) }),
		NotBefore: nullable(len(list), func(i int) *int64 {
			if v, ok := record.Integer(list[i].Detail["not_before_t_ns"]); ok {
				return &v
			}
			return nil
		}),
	}
}

func (m *model) failureRows(t *texts) failureRows {
	list := m.r.Failures
	n := len(list)
	text := func(of func(*record.Failure) string) any {
		return columnOf(n, func(i int) int { return t.of(of(&list[i])) })
	}
	out := failureRows{
		N:          n,
		T:          columnOf(n, func(i int) int64 { return list[i].TNs }),
		Waited:     columnOf(n, func(i int) int64 { return list[i].TNs - list[i].PlannedTNs }),
		Outcome:    text(func(f *record.Failure) string { return string(f.Outcome) }),
		Phase:      text(func(f *record.Failure) string { return string(f.Phase) }),
		Connection: text(func(f *record.Failure) string { return string(f.Connection) }),
		Worker:     text(func(f *record.Failure) string { return f.Worker }),
		Errno:      text(func(f *record.Failure) string { return f.Errno }),
		Message:    text(func(f *record.Failure) string { return f.Message }),
		Remote:     text(func(f *record.Failure) string { return f.Remote }),
		Instance:   columnOf(n, func(i int) any { return t.or(list[i].Instance) }),
		User:       columnOf(n, func(i int) int { return list[i].User }),
		Status:     nullable(n, func(i int) *int { return list[i].Status }),
		Bytes:      columnOf(n, func(i int) int64 { return list[i].BytesReceived }),
		Age:        columnOf(n, func(i int) int64 { return list[i].ConnectionAgeNs }),
		Carried:    columnOf(n, func(i int) int { return list[i].ConnectionRequests }),
		Retryable:  columnOf(n, func(i int) bool { return list[i].Retryable }),
		Uncertainty: nullable(n, func(i int) *int64 {
			return list[i].UncertaintyNs
		}),
		Sent: nullable(n, func(i int) *int64 {
			if s := list[i].SentTNs; s != nil {
				return new(*s - list[i].PlannedTNs)
			}
			return nil
		}),
	}
	host := func(i int) (string, string) {
		if h, p, err := net.SplitHostPort(list[i].Local); err == nil {
			return h, p
		}
		return list[i].Local, ""
	}
	out.Host = columnOf(n, func(i int) int { h, _ := host(i); return t.of(h) })
	out.Port = columnOf(n, func(i int) any {
		_, p := host(i)
		if v, err := strconv.Atoi(p); err == nil {
			return v
		}
		return nil
	})
	m.causes(t, &out)
	return out
}

// causes shares what the sentences have in common: of many thousand failures most differ in their numbers only.
func (m *model) causes(t *texts, out *failureRows) {
	list := m.r.Failures
	at := map[string]int{}
	out.Causes = []islandCause{}
	out.Numbers = columnOf(len(list), func(i int) string {
		if list[i].Cause == nil {
			return ""
		}
		_, numbers := split(list[i].Cause.Sentence)
		return strings.Join(numbers, " ")
	})
	out.Cause = columnOf(len(list), func(i int) int {
		c := list[i].Cause
		if c == nil {
			return -1
		}
		form, _ := split(c.Sentence)
		var key strings.Builder
		key.WriteString(c.Kind + "\x00" + form)
		for _, id := range c.Evidence {
			key.WriteString("\x00" + strconv.Itoa(id))
		}
		k, seen := at[key.String()]
		if !seen {
			k = len(out.Causes)
			at[key.String()] = k
			out.Causes = append(out.Causes, islandCause{Kind: t.of(c.Kind), Form: t.of(form), Evidence: append([]int{}, c.Evidence...)})
		}
		return k
	})
}

// mark stands for a number in a form.
const mark = "\u2423"

// split parts a sentence into its form and the numbers that stand alone; those in names and addresses stay in the form.
// A sentence that holds the mark itself is its own form.
func split(sentence string) (form string, numbers []string) {
	if strings.Contains(sentence, mark) || !strings.ContainsAny(sentence, "0123456789") {
		return sentence, nil
	}
	words := strings.Split(sentence, " ")
	for i, w := range words {
		lead := w[:len(w)-len(strings.TrimLeft(w, "(+"))]
		core := strings.TrimRight(w[len(lead):], "),;:")
		if core != "" && strings.Trim(core, "0123456789.,") == "" {
			words[i] = lead + mark + w[len(lead)+len(core):]
			numbers = append(numbers, core)
		}
	}
	return strings.Join(words, " "), numbers
}

func (m *model) flowList() []islandFlow {
	list := make([]islandFlow, len(m.r.Flows))
	clean := func(s *string) *string {
		if s == nil {
			return nil
		}
		return new(page.Clean(*s))
	}
	for i, f := range m.r.Flows {
		list[i] = islandFlow{
			ID: page.Clean(f.ID), Outcome: string(f.Outcome), Mechanism: string(f.Mechanism), Opened: f.OpenedTNs, Ended: f.EndedTNs, After: f.EndedAfterTNs,
			Uncertainty: f.UncertaintyNs, First: clean(f.FirstInstance), Last: clean(f.LastInstance), Sent: f.Sent, Answered: f.Answered,
			End: page.Clean(f.Detail.End), Errno: page.Clean(f.Detail.Errno), Local: page.Clean(f.Local), Remote: page.Clean(f.Remote),
		}
		if c := f.Cause; c != nil {
			list[i].Cause = &islandWhole{page.Clean(c.Kind), page.Clean(c.Sentence), append([]int{}, c.Evidence...)}
		}
	}
	return list
}

func (m *model) series() *islandSerie {
	if m.r.Requests == nil || !sound(m.r.Requests.Series) {
		return nil
	}
	s := m.r.Requests.Series
	out := &islandSerie{From: s.FromTNs, Bucket: s.BucketNs, Sent: s.Sent, Failed: s.Failed, P50: s.P50Ns, P99: s.P99Ns, Rates: ratesOf(*s), Answers: answersOf(*s)}
	for i := range out.Answers.Lines {
		out.Answers.Lines[i].Name = page.Clean(out.Answers.Lines[i].Name)
	}
	return out
}
