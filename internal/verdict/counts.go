package verdict

import "github.com/drainproof/drainproof/internal/record"

// Counts are what trials sent and lost, from the trigger on: in all, and one value for each trial that has it.
type Counts struct {
	Requests, Failed int64
	// Outcomes counts those that failed.
	Outcomes map[record.RequestOutcome]int64
	// Users is how many a trial had; 0 where that was not recorded.
	Users int
	// Of counts, too, a median may lie between two.
	RequestsEach, FailedEach, ShareEach, HurtEach []float64
}

// CountsOf passes over trials that hold no requests.
func CountsOf(trials []record.Record) Counts {
	c := Counts{Outcomes: map[record.RequestOutcome]int64{}}
	for _, r := range trials {
		if r.Requests == nil {
			continue
		}
		n := Since(r)
		c.Requests, c.Failed = c.Requests+n, c.Failed+r.Requests.Failed
		c.RequestsEach, c.FailedEach = append(c.RequestsEach, float64(n)), append(c.FailedEach, float64(r.Requests.Failed))
		if n > 0 {
			c.ShareEach = append(c.ShareEach, float64(r.Requests.Failed)/float64(n))
		}
		if r.Users != nil {
			c.HurtEach, c.Users = append(c.HurtEach, float64(r.Users.Hurt)), r.Users.Total
		}
		for _, f := range r.FailuresFrom() {
			c.Outcomes[f.Outcome]++
		}
	}
	return c
}
