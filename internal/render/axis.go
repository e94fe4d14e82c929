package render

import (
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// axisFor spans all that changes in r, with a little room on both sides: the
// trigger stands near the left edge, and what outlives the trial runs off the right one.
func axisFor(r record.Record, columns int) page.Axis {
	last := int64(0)
	for _, e := range r.Events {
		switch e.Kind {
		case record.FlowEnded, record.FlowRehomed, record.ContainerExited, record.EndpointRemoved,
			record.EndpointReady, record.EndpointNotReady, record.ProbeSigterm, record.PodReady:
			last = max(last, e.TNs)
		}
	}
	for _, f := range r.Flows {
		// A trial in which flows lived on is interesting up to its end.
		if f.Outcome == record.Survived || f.Outcome == record.NotMeasured || last == 0 {
			for _, e := range r.Events {
				last = max(last, e.TNs)
			}
			break
		}
	}
	if last == 0 {
		last = 1e9
	}
	return page.Axis{From: -last / 25, To: last + last/12, Columns: columns}
}
