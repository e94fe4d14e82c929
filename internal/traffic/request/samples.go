package request

import (
	"encoding/binary"
	"errors"

	"github.com/drainproof/drainproof/internal/record"
)

// Sample is one request, as compact as counting it again needs.
type Sample struct {
	PlannedNs int64
	// LatencyNs is from the planned time to the end.
	LatencyNs int64
	// LateNs is how long after its planned time it was begun.
	LateNs int64
	User   int32
	// Instance is an index into the batches' names; -1 where unknown.
	Instance int32
	Outcome  uint8 // an index into record.RequestOutcomes
	Reused   bool
}

// RequestOutcome is the sample's outcome as a word.
func (s Sample) RequestOutcome() record.RequestOutcome { return outcomes[s.Outcome] }

var outcomes = record.RequestOutcomes()

var outcomeIndex = func() map[record.RequestOutcome]uint8 {
	m := make(map[record.RequestOutcome]uint8, len(outcomes))
	for i, o := range outcomes {
		m[o] = uint8(i)
	}
	return m
}()

// Failed is a failed request, whole; times on the client's clock, User absolute.
type Failed struct {
	PlannedNs     int64                 `json:"planned_ns"`
	SentNs        int64                 `json:"sent_ns"`
	EndedNs       int64                 `json:"ended_ns"`
	User          int                   `json:"user"`
	Outcome       record.RequestOutcome `json:"outcome"`
	Phase         record.RequestPhase   `json:"phase"`
	Kind          EndKind               `json:"kind"`
	Errno         string                `json:"errno,omitempty"`
	Message       string                `json:"message,omitempty"`
	Reused        bool                  `json:"reused"`
	Retryable     bool                  `json:"retryable"`
	Status        int                   `json:"status"`
	Answered      bool                  `json:"answered"`
	Instance      string                `json:"instance,omitempty"`
	BytesReceived int64                 `json:"bytes_received"`
	Local         string                `json:"local,omitempty"`
	Remote        string                `json:"remote,omitempty"`
	ConnOpenedNs  int64                 `json:"conn_opened_ns"`
	ConnRequests  int                   `json:"conn_requests"`
}

// Batch is what a collector hands over now and then, and what a worker sends.
type Batch struct {
	// Samples in EncodeSamples' form.
	Samples []byte `json:"samples,omitempty"`
	Count   int    `json:"count"`
	// Names are the instances that are new since the batch before; indexes count through all batches.
	Names      []string `json:"names,omitempty"`
	Failures   []Failed `json:"failures,omitempty"`
	Reconnects int64    `json:"reconnects"`
}

// EncodeSamples writes samples as varints, each planned time as a difference to the one before.
func EncodeSamples(samples []Sample) []byte {
	b := make([]byte, 0, len(samples)*14)
	var before int64
	for _, s := range samples {
		b = binary.AppendVarint(b, s.PlannedNs-before)
		before = s.PlannedNs
		b = binary.AppendVarint(b, s.LatencyNs)
		b = binary.AppendVarint(b, s.LateNs)
		b = binary.AppendUvarint(b, uint64(uint32(s.User)))
		b = binary.AppendVarint(b, int64(s.Instance))
		flags := s.Outcome << 1
		if s.Reused {
			flags |= 1
		}
		b = append(b, flags)
	}
	return b
}

var errSamples = errors.New("samples that cannot be decoded")

// DecodeSamples reads count samples and appends them to into.
func DecodeSamples(b []byte, count int, into []Sample) ([]Sample, error) {
	var before int64
	next := func() (v int64) {
		n := 0
		if v, n = binary.Varint(b); n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	for range count {
		var s Sample
		s.PlannedNs = before + next()
		before = s.PlannedNs
		s.LatencyNs, s.LateNs = next(), next()
		user, n := binary.Uvarint(b)
		if n <= 0 {
			return into, errSamples
		}
		b = b[n:]
		s.User = int32(uint32(user))
		s.Instance = int32(next())
		if len(b) == 0 || int(b[0]>>1) >= len(outcomes) {
			return into, errSamples
		}
		s.Outcome, s.Reused = b[0]>>1, b[0]&1 == 1
		b = b[1:]
		into = append(into, s)
	}
	if len(b) != 0 {
		return into, errSamples
	}
	return into, nil
}
