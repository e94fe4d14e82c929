package htmlview

import (
	"net"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// island is a trial's data as the script reads it. What there is many of stands in vectors. Texts are indexes into Strings,
// which are clean, and times nanoseconds from the trigger.
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
	N           int    `json:"n"`
	ID          vector `json:"id"`
	T           vector `json:"t"`
	Source      vector `json:"source"`
	Kind        vector `json:"kind"`
	Word        vector `json:"word"`
	Subject     vector `json:"subject"`
	Pod         vector `json:"pod"`
	Node        vector `json:"node"`
	Bound       vector `json:"bound"`
	Uncertainty vector `json:"uncertainty"`
	Detail      vector `json:"detail"`
	NotBefore   vector `json:"not_before"`
}

// failureRows are the failures in order of their end. T is from the end of the one before, which for the first is zero: small
// numbers pack better. Waited is from due to ended, Sent from due to sent.
type failureRows struct {
	N           int    `json:"n"`
	T           vector `json:"t"`
	Waited      vector `json:"waited"`
	Sent        vector `json:"sent"`
	Outcome     vector `json:"outcome"`
	Phase       vector `json:"phase"`
	Connection  vector `json:"connection"`
	Instance    vector `json:"instance"`
	User        vector `json:"user"`
	Worker      vector `json:"worker"`
	Status      vector `json:"status"`
	Errno       vector `json:"errno"`
	Message     vector `json:"message"`
	Bytes       vector `json:"bytes"`
	Host        vector `json:"host"`
	Port        vector `json:"port"`
	Remote      vector `json:"remote"`
	Age         vector `json:"age"`
	Carried     vector `json:"carried"`
	Retryable   vector `json:"retryable"`
	Uncertainty vector `json:"uncertainty"`
	Cause       vector `json:"cause"`
	// Causes are the forms of sentences with their evidence; the numbers of each failure's own stand in Numbers, in the places of the form's marks.
	Causes  []islandCause `json:"causes"`
	Numbers vector        `json:"numbers"`
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

// or gives nil for no string.
func (t *texts) or(s *string) *int {
	if s == nil {
		return nil
	}
	return new(t.of(*s))
}

func (m *model) island() (string, error) {
	t := &texts{at: map[string]int{}}
	t.of("") // index 0 is no text
	v := &vectors{}
	d := island{
		All: [2]int64{m.all.from, m.all.to}, View: [2]int64{m.view.from, m.view.to}, Zero: "trigger",
		Events: m.events(t, v), Failures: m.failureRows(t, v), Flows: m.flowList(), Series: m.series(), Lanes: []islandLane{},
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
	return pack(d, v)
}

func inSight(t int64) any {
	if t == before || t == beyond {
		return nil
	}
	return t
}

func (m *model) events(t *texts, v *vectors) eventColumns {
	list := m.r.Events
	n := len(list)
	text := func(of func(record.Event) string) vector {
		return number(v, n, func(i int) int { return t.of(of(list[i])) })
	}
	return eventColumns{
		N:           n,
		ID:          number(v, n, func(i int) int { return list[i].ID }),
		T:           number(v, n, func(i int) int64 { return list[i].TNs }),
		Source:      text(func(e record.Event) string { return string(e.Source) }),
		Kind:        text(func(e record.Event) string { return string(e.Kind) }),
		Word:        text(wordOf),
		Subject:     text(func(e record.Event) string { return e.Subject }),
		Pod:         text(func(e record.Event) string { return record.PodOf(e.Subject) }),
		Node:        text(func(e record.Event) string { return e.Node }),
		Bound:       text(func(e record.Event) string { return string(e.Bound) }),
		Uncertainty: optional(v, n, func(i int) *int64 { return list[i].UncertaintyNs }),
		Detail:      text(func(e record.Event) string { return detailText(e.Detail) }),
		NotBefore: optional(v, n, func(i int) *int64 {
			if v, ok := record.Integer(list[i].Detail["not_before_t_ns"]); ok {
				return &v
			}
			return nil
		}),
	}
}

func (m *model) failureRows(t *texts, v *vectors) failureRows {
	list := m.r.Failures
	n := len(list)
	text := func(of func(*record.Failure) string) vector {
		return number(v, n, func(i int) int { return t.of(of(&list[i])) })
	}
	host := func(i int) (string, *int) {
		if h, p, err := net.SplitHostPort(list[i].Local); err == nil {
			if v, err := strconv.Atoi(p); err == nil {
				return h, &v
			}
		}
		return list[i].Local, nil
	}
	out := failureRows{
		N: n,
		T: number(v, n, func(i int) int64 {
			if i == 0 {
				return list[i].TNs
			}
			return list[i].TNs - list[i-1].TNs
		}),
		Waited:     number(v, n, func(i int) int64 { return list[i].TNs - list[i].PlannedTNs }),
		Outcome:    text(func(f *record.Failure) string { return string(f.Outcome) }),
		Phase:      text(func(f *record.Failure) string { return string(f.Phase) }),
		Connection: text(func(f *record.Failure) string { return string(f.Connection) }),
		Worker:     text(func(f *record.Failure) string { return f.Worker }),
		Errno:      text(func(f *record.Failure) string { return f.Errno }),
		Message:    text(func(f *record.Failure) string { return f.Message }),
		Remote:     text(func(f *record.Failure) string { return f.Remote }),
		Instance:   optional(v, n, func(i int) *int { return t.or(list[i].Instance) }),
		User:       number(v, n, func(i int) int { return list[i].User }),
		Status:     optional(v, n, func(i int) *int { return list[i].Status }),
		Bytes:      number(v, n, func(i int) int64 { return list[i].BytesReceived }),
		Age:        number(v, n, func(i int) int64 { return list[i].ConnectionAgeNs }),
		Carried:    number(v, n, func(i int) int { return list[i].ConnectionRequests }),
		Retryable: number(v, n, func(i int) int {
			if list[i].Retryable {
				return 1
			}
			return 0
		}),
		Uncertainty: optional(v, n, func(i int) *int64 { return list[i].UncertaintyNs }),
		Sent: optional(v, n, func(i int) *int64 {
			if s := list[i].SentTNs; s != nil {
				return new(*s - list[i].PlannedTNs)
			}
			return nil
		}),
		Host: number(v, n, func(i int) int { h, _ := host(i); return t.of(h) }),
		Port: optional(v, n, func(i int) *int { _, p := host(i); return p }),
	}
	m.causes(t, v, &out)
	return out
}

// causes shares what the sentences have in common: of many thousand failures most differ in their numbers only.
func (m *model) causes(t *texts, v *vectors, out *failureRows) {
	list := m.r.Failures
	at := map[string]int{}
	out.Causes = []islandCause{}
	numbers := make([]int, len(list))
	out.Cause = optional(v, len(list), func(i int) *int {
		cause := list[i].Cause
		if cause == nil {
			return nil
		}
		form, own := split(cause.Sentence)
		numbers[i] = t.of(strings.Join(own, " "))
		var key strings.Builder
		key.WriteString(cause.Kind + "\x00" + form)
		for _, id := range cause.Evidence {
			key.WriteString("\x00" + strconv.Itoa(id))
		}
		k, seen := at[key.String()]
		if !seen {
			k = len(out.Causes)
			at[key.String()] = k
			out.Causes = append(out.Causes, islandCause{Kind: t.of(cause.Kind), Form: t.of(form), Evidence: append([]int{}, cause.Evidence...)})
		}
		return &k
	})
	out.Numbers = number(v, len(list), func(i int) int { return numbers[i] })
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
