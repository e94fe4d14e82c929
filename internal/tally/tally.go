// Package tally counts requests: from samples to the numbers of a record. Pure, so that any old set can be counted again.
//
// It must not know how a request is sent or what a failure means.
package tally

import (
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// Input is all requests of one trial. Times of samples are nanoseconds from the trigger (PlannedNs is planned_t_ns).
type Input struct {
	Samples []request.Sample
	// Names of instances, by the samples' index.
	Names      []string
	Reconnects int64
	// Users is how many there were.
	Users int
	// DuringToTNs is where the disruption ended; nil where that is not known: then all from the trigger on is during.
	DuringToTNs *int64
}

// Fold counts. Latency holds the answered requests only (ok, http-error, grpc-error).
func Fold(in Input) (record.Requests, record.Users, record.Latency) { panic("not built yet") }
