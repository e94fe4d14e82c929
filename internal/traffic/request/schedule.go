package request

// Schedule is the fixed grid of an open loop: request k is due at start + phase + k/rate. Pure.
type Schedule struct {
	startNs int64
	rate    float64
}

// NewSchedule begins at startNs, phaseNs later for the first request. rate is per second, above zero.
func NewSchedule(startNs, phaseNs int64, rate float64) Schedule {
	return Schedule{startNs: startNs + phaseNs, rate: rate}
}

// DueNs is when request k (from 0) is due. Computed from k alone, so that no error adds up.
func (s Schedule) DueNs(k int64) int64 { return s.startNs + int64(float64(k)*1e9/s.rate) }
