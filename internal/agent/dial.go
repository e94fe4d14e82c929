package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/jsonlines"
)

// Heard is what a session tells as it happens. Both are called from one goroutine, in the order of the agent's words; the times are the agent's.
type Heard struct {
	Facts func([]Fact)
	Gap   func(Gap)
}

// errCutOff is the end of an agent's words of which nothing else is known, as where its node went down.
var errCutOff = errors.New("it was cut off without a last word")

// Session is the harness's end of one agent.
type Session struct {
	in        *jsonlines.Writer
	transport func() error
	heard     Heard
	sights    []Sight
	offset    clock.Offset
	remote    clock.Reading

	// asking is held over one question, so that an answer needs no address.
	asking  sync.Mutex
	id      int
	answers chan word
	ended   chan struct{} // closed when the agent's words have ended; err is set then
	err     error
	once    sync.Once

	// unfound is what the agent's last word told.
	unfound []string

	mu sync.Mutex
	// gaveUp is why this end abandoned the session; nil where it did not.
	gaveUp error
	found  []Fact
	// finding is the number of the question whose facts are gathered.
	finding int
}

// Dial speaks to an agent over its streams and measures its clock. closeTransport ends the agent.
func Dial(ctx context.Context, stdout io.Reader, stdin io.Writer, closeTransport func() error, version string, heard Heard) (*Session, error) {
	s := &Session{in: jsonlines.NewWriter(stdin), transport: closeTransport, heard: heard, answers: make(chan word, 1), ended: make(chan struct{})}
	go func() {
		err := jsonlines.Read(stdout, s.hear)
		if err == nil {
			err = errCutOff
		}
		s.err = err
		close(s.ended)
	}()
	if err := s.greet(ctx, version); err != nil {
		s.Abandon()
		return nil, err
	}
	return s, nil
}

func (s *Session) greet(ctx context.Context, version string) error {
	hello, err := s.answer(ctx)
	if err != nil {
		return fmt.Errorf("waiting for the agent's first word: %w", err)
	}
	switch {
	case hello.Say != "hello" || hello.Clock == nil:
		return fmt.Errorf("the agent began with %q", hello.Say)
	case hello.Protocol != protocolVersion:
		return fmt.Errorf("the agent speaks protocol %d, this program %d", hello.Protocol, protocolVersion)
	case hello.Version != version:
		return fault.Measuref(nil, "install the agent of this version again: drainproof agent install", "the agent is drainproof %s, this program %s", hello.Version, version)
	}
	s.sights, s.remote = hello.Sights, *hello.Clock
	s.offset, err = s.Measure(ctx)
	return err
}

// Measure takes the agent's clock against ours.
func (s *Session) Measure(ctx context.Context) (clock.Offset, error) {
	local := clock.BootID()
	var exchanges []clock.Exchange
	for range clockExchanges {
		sent := clock.MonoNs()
		w, err := s.ask(ctx, order{Do: "clock"}, "clock")
		if err != nil {
			return clock.Offset{}, fmt.Errorf("measuring the agent's clock: %w", err)
		}
		if w.Clock == nil {
			return clock.Offset{}, errors.New("measuring the agent's clock: an answer without a reading")
		}
		exchanges = append(exchanges, clock.Exchange{SentMonoNs: sent, ReceivedMonoNs: clock.MonoNs(), Remote: *w.Clock})
		if local != "" && w.Clock.BootID == local {
			break // one kernel: nothing to measure
		}
	}
	o, _ := clock.Estimate(local, exchanges)
	return o, nil
}

// Ping tells the agent that its harness is there, and sees that it is itself.
func (s *Session) Ping(ctx context.Context) error {
	_, err := s.ask(ctx, order{Do: "clock"}, "clock")
	return err
}

func (s *Session) hear(w word) error {
	switch w.Say {
	case "facts":
		if w.ID == 0 {
			s.heard.Facts(w.Facts)
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.ID == s.finding {
			s.found = append(s.found, w.Facts...)
		}
		return nil
	case "gap":
		if w.Gap != nil {
			s.heard.Gap(*w.Gap)
		}
		return nil
	}
	select {
	case s.answers <- w:
		return nil
	default:
		return fmt.Errorf("the agent said %q unasked", w.Say)
	}
}

func (s *Session) answer(ctx context.Context) (word, error) {
	select {
	case w := <-s.answers:
		return w, nil
	case <-s.ended:
		// What it said last may still be there.
		select {
		case w := <-s.answers:
			return w, nil
		default:
		}
		return word{}, s.err
	case <-ctx.Done():
		return word{}, ctx.Err()
	}
}

const (
	// PingEvery is how often an agent is to hear that its harness is there: it ends by itself when that is silent for some of them.
	PingEvery = time.Minute
	// askTimeout bounds one question.
	askTimeout = 15 * time.Second
)

// ask puts one question and waits for its answer. One that is given up ends the session, as its answer might still come.
func (s *Session) ask(giving context.Context, o order, want string) (w word, err error) {
	ctx, cancel := context.WithTimeout(giving, askTimeout)
	defer cancel()
	s.asking.Lock()
	defer s.asking.Unlock()
	s.id++
	o.ID = s.id
	if o.Do == "find" {
		s.mu.Lock()
		s.finding, s.found = o.ID, nil
		s.mu.Unlock()
	}
	wrote := make(chan error, 1)
	go func() { wrote <- s.in.Write(o) }()
	select {
	case err = <-wrote:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		w, err = s.answer(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		if giving.Err() == nil {
			err = fmt.Errorf("no answer to %q within %v", o.Do, askTimeout)
		}
		s.mu.Lock()
		s.gaveUp = err
		s.mu.Unlock()
		s.Abandon()
		return word{}, err
	case err != nil:
		return word{}, err
	case w.Say == "refused":
		return word{}, errors.New(w.Error)
	case w.Say != want || w.ID != o.ID:
		return word{}, fmt.Errorf("the agent answered %q with %q", o.Do, w.Say)
	}
	return w, nil
}

// Clock gives the agent's clock against ours.
func (s *Session) Clock() (clock.Offset, clock.Reading) { return s.offset, s.remote }

// Sights says what the agent sees, and what not and why; after Watch those of the data plane too.
func (s *Session) Sights() []Sight { return s.sights }

// Watch begins: from its return on nothing is missed that is not told as a gap.
func (s *Session) Watch(ctx context.Context, w Watch) error {
	answer, err := s.ask(ctx, order{Do: "watch", Watch: &w}, "watching")
	if err != nil {
		return fmt.Errorf("telling the agent what to watch: %w", err)
	}
	if answer.Sights != nil {
		s.sights = answer.Sights
	}
	return nil
}

// Add watches more Pods.
func (s *Session) Add(ctx context.Context, pods []string) error {
	if _, err := s.ask(ctx, order{Do: "pods", Pods: pods}, "watching"); err != nil {
		return fmt.Errorf("telling the agent of new Pods: %w", err)
	}
	return nil
}

// Find gives what is remembered of those connections. Ends before forgottenBeforeMonoNs (on the agent's clock; 0 for none) may be forgotten.
func (s *Session) Find(ctx context.Context, pairs []Pair) (facts []Fact, forgottenBeforeMonoNs int64, err error) {
	for len(pairs) > 0 {
		n := min(len(pairs), pairsPerOrder)
		w, err := s.ask(ctx, order{Do: "find", Pairs: pairs[:n]}, "found")
		if err != nil {
			return facts, forgottenBeforeMonoNs, fmt.Errorf("asking the agent for connections: %w", err)
		}
		s.mu.Lock()
		facts = append(facts, s.found...)
		s.found = nil
		s.mu.Unlock()
		forgottenBeforeMonoNs = max(forgottenBeforeMonoNs, w.ForgottenBeforeMonoNs)
		pairs = pairs[n:]
	}
	return facts, forgottenBeforeMonoNs, nil
}

// End ends the agent's session. lost counts what its kernel could not hand over, by kind.
func (s *Session) End(ctx context.Context) (lost map[string]uint64, cost Cost, err error) {
	w, err := s.ask(ctx, order{Do: "end"}, "ended")
	if w.Cost != nil {
		cost = *w.Cost
	}
	s.Abandon()
	if err != nil {
		return nil, cost, fmt.Errorf("ending the agent's session: %w", err)
	}
	s.unfound = w.Unfound
	return w.Lost, cost, nil
}

// Unfound lists the Pods that the agent was told of and never found, by UID, once End has succeeded: they never had a process on its node, or it was
// gone before the agent looked.
func (s *Session) Unfound() []string { return s.unfound }

// Ended is closed when the agent says no more, whoever ended the session; Err then says why.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Err is why the agent says no more. It is to be called once Ended is closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gaveUp != nil {
		return s.gaveUp
	}
	return s.err
}

// Abandon ends the session without a last word; safe to call twice.
func (s *Session) Abandon() {
	s.once.Do(func() {
		_ = s.transport()
		<-s.ended
	})
}
