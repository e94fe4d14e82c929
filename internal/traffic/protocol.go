package traffic

import (
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// The protocol between coordinator and worker: one JSON object a line.
//
//	worker       {"say":"hello","protocol":2,"version":"v1.2.3","pid":7,"clock":{...}}  first, unasked
//	coordinator  {"do":"clock","id":1}              worker  {"say":"clock","id":1,"clock":{...}}   16 times, one at a time
//	coordinator  {"do":"plan","plan":{...}}         the durations, without flows
//	coordinator  {"do":"flows","flows":[...]}       up to chunk of them, as often as needed
//	coordinator  {"do":"open"}                      worker  {"say":"opened","failures":[...],"failed":2}   once all were answered or failed
//	                                                worker  {"say":"note","note":{...}}            as they happen
//	                                                worker  {"say":"status","status":{...}}        every second from open on: proof of life
//	coordinator  {"do":"close"}                     worker  {"say":"flows","flows":[...]}          up to chunk of them, as often as needed
//	                                                worker  {"say":"report","report":{...}}        the rest of it; then the worker ends
//	                                                worker  {"say":"refused","error":"..."}        in place of opened, for a plan it cannot hold
//
// For requests in place of flows:
//
//	coordinator  {"do":"once","requests":{...}}     worker  {"say":"once","answer":{...}}          one request, as often as asked
//	coordinator  {"do":"requests","requests":{...}} worker  {"say":"opened"}                       sending has begun
//	                                                worker  {"say":"batch","batch":{...}}          four times a second
//	coordinator  {"do":"close"}                     worker  {"say":"batch",...} {"say":"report"}   once all that was under way has ended
//
// A worker ends when its input does. Lines are bounded by jsonlines.MaxLine; whatever
// cannot be decoded ends the session, as the two no longer understand each other.
const (
	protocolVersion = 2
	chunk           = 128
	clockExchanges  = 16
	// failuresTold bounds the list of flows that could not be opened; their number is told in full.
	failuresTold = 10
)

// order is what a coordinator says.
type order struct {
	Do       string        `json:"do"`
	ID       int           `json:"id,omitempty"`
	Plan     *Plan         `json:"plan,omitempty"`
	Flows    []FlowPlan    `json:"flows,omitempty"`
	Requests *request.Plan `json:"requests,omitempty"`
}

// word is what a worker says.
type word struct {
	Say      string          `json:"say"`
	Protocol int             `json:"protocol,omitempty"`
	Version  string          `json:"version,omitempty"`
	PID      int             `json:"pid,omitempty"`
	ID       int             `json:"id,omitempty"`
	Clock    *clock.Reading  `json:"clock,omitempty"`
	Note     *Note           `json:"note,omitempty"`
	Status   *Status         `json:"status,omitempty"`
	Failures []string        `json:"failures,omitempty"`
	Failed   int             `json:"failed,omitempty"`
	Flows    []FlowReport    `json:"flows,omitempty"`
	Report   *Report         `json:"report,omitempty"`
	Error    string          `json:"error,omitempty"`
	Batch    *request.Batch  `json:"batch,omitempty"`
	Answer   *request.Answer `json:"answer,omitempty"`
}

// blank is a report without its flows, which travel in lines of their own.
func (r *Report) blank() *Report {
	b := *r
	b.Flows = nil
	return &b
}

// lostReport is what a coordinator knows of a worker that was lost: what the notes told.
func lostReport(p Plan, told map[string]*FlowReport, last *Status) *Report {
	r := &Report{Flows: make([]FlowReport, 0, len(p.Flows))}
	if last != nil {
		r.Health = last.Health
	}
	for _, f := range p.Flows {
		known := told[f.ID]
		if known == nil {
			known = &FlowReport{ID: f.ID}
		}
		known.Protocol = f.Protocol
		if known.Remote == "" {
			known.Remote = f.Address
		}
		if known.End.Kind == "" {
			known.End.Kind = EndClientLost
		}
		r.Flows = append(r.Flows, *known)
	}
	return r
}

// remember keeps what a note tells about its flow.
func remember(told map[string]*FlowReport, n Note) {
	if n.Flow == "" {
		return
	}
	f := told[n.Flow]
	if f == nil {
		f = &FlowReport{ID: n.Flow}
		told[n.Flow] = f
	}
	switch n.Kind {
	case NoteOpened:
		f.OpenedMonoNs, f.Local, f.Remote = n.MonoNs, n.Local, n.Remote
		f.FirstInstance, f.FirstPodUID, f.LastInstance, f.LastPodUID = n.Instance, n.PodUID, n.Instance, n.PodUID
	case NoteRehomed:
		f.RehomedMonoNs, f.LastInstance, f.LastPodUID = n.MonoNs, n.Instance, n.PodUID
	case NoteEnded:
		f.EndedMonoNs = n.MonoNs
		if n.End != nil {
			f.End = *n.End
		}
	}
}

// limitsOrEmpty keeps a missing map out of records, where null would mean that nobody counted.
func limitsOrEmpty(h *record.ClientHealth) {
	if h.Limits == nil {
		h.Limits = map[string]int{}
	}
}
