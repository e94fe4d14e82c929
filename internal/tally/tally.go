// Package tally counts requests: from samples to the numbers of a record. Pure, so that any old set can be counted again.
//
// It must not know how a request is sent or what a failure means.
package tally

import (
	"slices"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// Input is all requests of one trial. Times of samples are nanoseconds from the trigger (PlannedNs is planned_t_ns).
type Input struct {
	Samples []request.Sample
	// Names of instances, by the samples' index. One name may stand there more than once.
	Names      []string
	Reconnects int64
	// Users is how many there were.
	Users int
	// DuringToTNs is where the disruption ended; nil where that is not known: then all from the trigger on is during.
	DuringToTNs *int64
}

// Fold counts. Latency holds the answered requests only (ok, http-error, grpc-error). The order of the samples does not matter,
// and they are left as they were.
func Fold(in Input) (record.Requests, record.Users, record.Latency) {
	p := newPeers(in)
	return requests(in, p), users(in), latency(in, p)
}

func requests(in Input, p *peers) record.Requests {
	r := record.Requests{Total: int64(len(in.Samples)), Outcomes: map[record.RequestOutcome]int64{}, Reconnects: in.Reconnects, Instances: p.counts(in)}
	for i := range in.Samples {
		s := &in.Samples[i]
		o := s.RequestOutcome()
		r.Outcomes[o]++
		switch {
		case !o.Failed():
		case endedBefore(s):
			r.FailedBefore++
		default:
			r.Failed++
		}
	}
	r.Series = series(in, p)
	return r
}

// endedBefore reports whether the request was over when the trigger was sent: nothing that the trigger did can have failed
// it. One that was under way by then may well have been cut by it.
func endedBefore(s *request.Sample) bool { return s.PlannedNs+s.LatencyNs < 0 }

// users finds who was hurt: a failed request that ended at or after the trigger.
func users(in Input) record.Users {
	hurt := map[int32]bool{}
	for i := range in.Samples {
		if s := &in.Samples[i]; !endedBefore(s) && s.RequestOutcome().Failed() {
			hurt[s.User] = true
		}
	}
	ids := make([]int, 0, len(hurt))
	for id := range hurt {
		ids = append(ids, int(id))
	}
	slices.Sort(ids)
	return record.Users{Total: in.Users, Hurt: len(ids), HurtIDs: ids}
}
