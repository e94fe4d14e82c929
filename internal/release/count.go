package release

import (
	"fmt"
	"sync"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// counter gathers what the clients told. Samples keep absolute times of this process's clock until the trial's zero is known.
type counter struct {
	mu         sync.Mutex
	samples    []request.Sample
	names      []string
	byName     map[string]int32
	failures   []told
	reconnects int64
	// broken says that a batch could not be read; empty otherwise.
	broken string
	live   map[record.RequestOutcome]int64
}

// told is a failure with its client.
type told struct {
	request.Failed
	client *client
}

func newCounter() *counter {
	return &counter{byName: map[string]int32{}, live: map[record.RequestOutcome]int64{}}
}

// take adds one batch of a client, whose times and names become ours.
func (c *counter) take(from *client, b request.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range b.Names {
		i, ok := c.byName[name]
		if !ok {
			i = int32(len(c.names))
			c.byName[name] = i
			c.names = append(c.names, name)
		}
		from.names = append(from.names, i)
	}
	had := len(c.samples)
	var err error
	if c.samples, err = request.DecodeSamples(b.Samples, b.Count, c.samples); err != nil {
		c.broken = fmt.Sprintf("%s sent a batch that cannot be read: %v", from.name, err)
		return
	}
	for i := had; i < len(c.samples); i++ {
		s := &c.samples[i]
		s.PlannedNs -= from.offset.AheadNs
		switch {
		case s.Instance < 0:
		case int(s.Instance) < len(from.names):
			s.Instance = from.names[s.Instance]
		default:
			c.broken = fmt.Sprintf("%s named an instance that it had not introduced", from.name)
			s.Instance = -1
		}
		c.live[s.RequestOutcome()]++
	}
	for _, f := range b.Failures {
		f.PlannedNs -= from.offset.AheadNs
		f.EndedNs -= from.offset.AheadNs
		if f.SentNs != 0 {
			f.SentNs -= from.offset.AheadNs
		}
		if f.ConnOpenedNs != 0 {
			f.ConnOpenedNs -= from.offset.AheadNs
		}
		c.failures = append(c.failures, told{f, from})
	}
	c.reconnects += b.Reconnects
}

// failedSoFar counts failures by outcome, and all requests, client limits excluded.
func (c *counter) failedSoFar() (failed, total int64, first *request.Failed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, n := range c.live {
		if o == record.ClientLimited {
			continue
		}
		total += n
		if o.Failed() {
			failed += n
		}
	}
	for _, f := range c.failures {
		if f.Outcome.Failed() {
			return failed, total, &f.Failed
		}
	}
	return failed, total, nil
}

// counts copies the counts for the live line.
func (c *counter) counts() map[record.RequestOutcome]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[record.RequestOutcome]int64, len(c.live))
	for o, n := range c.live {
		out[o] = n
	}
	return out
}

// oneInstance names who answered where that is certain; the caller holds mu.
func (c *counter) oneInstance(name string) {
	i, ok := c.byName[name]
	if !ok {
		i = int32(len(c.names))
		c.byName[name], c.names = i, append(c.names, name)
	}
	for k := range c.samples {
		if c.samples[k].Instance < 0 {
			c.samples[k].Instance = i
		}
	}
	for k := range c.failures {
		if c.failures[k].Instance == "" {
			c.failures[k].Instance = name
		}
	}
}
