package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
)

const (
	// noticesKept is how many commits may wait to be looked into, before the kernel has to keep them.
	noticesKept = 4096
	// patience is how long the word on a commit may be on its way, after the rules are in force and where none is known to be lost. It takes
	// microseconds, but this process or the one that commits may be kept from running.
	patience = time.Second
)

// session is one run of Read.
type session struct {
	w       *Watcher
	each    func(Change)
	notices chan notice

	// states are the last of each front.
	states map[Front]State
	// Of rules in nf_tables: their generation when they were last read, when it was last known to be in force, and the commits told since.
	generation uint32
	proven     int64
	pending    []notice
	// overrun is whether the kernel said since then that it could not tell of some.
	overrun bool
	// Of legacy tables: when the last look at them began, and how long it took.
	looked int64
	cost   time.Duration
}

// Read tells the present State of each front, then every change of one, until ctx ends; then it returns nil. Any other end is an error: what the
// rules say is no longer known. each is called from Read's goroutine; while it runs, commits wait, but their times are already taken. Read is to be
// called once.
func (w *Watcher) Read(ctx context.Context, each func(Change)) error {
	s := &session{w: w, each: each, notices: make(chan notice, noticesKept), states: map[Front]State{}}
	if w.commits != nil {
		stop := make(chan struct{})
		var listening sync.WaitGroup
		listening.Go(func() { s.listen(stop) })
		defer func() {
			close(stop)
			_ = w.commits.SetReadDeadline(time.Unix(1, 0)) // it wakes the listener; only a closed socket refuses it, and that wakes it too
			listening.Wait()
		}()
	}
	err := s.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// listen takes the time of each commit's message as it comes in.
func (s *session) listen(stop <-chan struct{}) {
	for {
		messages, err := s.w.commits.Receive()
		at := clock.MonoNs()
		var heard []notice
		switch {
		case errors.Is(err, unix.ENOBUFS):
			heard = []notice{{lost: true, at: at}}
		case err != nil:
			heard = []notice{{err: fmt.Errorf("listen to commits: %w", err)}}
		}
		for _, m := range messages {
			if n, ok := decodeNotice(m.Data); ok && m.Header.Type == newGeneration {
				n.at = at
				heard = append(heard, n)
			}
		}
		for _, n := range heard {
			select {
			case s.notices <- n:
			case <-stop:
				return
			}
			if n.err != nil {
				return
			}
		}
	}
}

func (s *session) run(ctx context.Context) error {
	if s.w.nft != nil {
		if err := s.read(ctx); err != nil {
			return err
		}
	}
	if err := s.look(); err != nil {
		return err
	}
	timer := time.NewTimer(s.pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-s.notices:
			if err := s.note(n); err != nil {
				return err
			}
			if err := s.read(ctx); err != nil {
				return err
			}
		case <-timer.C:
			if err := s.check(ctx); err != nil {
				return err
			}
			if err := s.look(); err != nil {
				return err
			}
			timer.Reset(s.pause())
		}
	}
}

// pause is how long to wait for the next look: a tenth of one processor's time is enough for them.
func (s *session) pause() time.Duration { return max(s.w.poll, 9*s.cost) }

// note keeps a commit.
func (s *session) note(n notice) error {
	switch {
	case n.err != nil:
		return n.err
	case n.lost:
		s.w.lost.Add(1)
		s.overrun = true
	default:
		s.w.told.Add(1)
		s.pending = append(s.pending, n)
	}
	return nil
}

// drain keeps what was told meanwhile.
func (s *session) drain() error {
	for {
		select {
		case n := <-s.notices:
			if err := s.note(n); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// check asks whether the rules are still those that were read: it moves the lower bound of the next change up, and finds commits of
// which the word was lost.
func (s *session) check(ctx context.Context) error {
	if s.w.nft == nil {
		return nil
	}
	at := clock.MonoNs()
	now, err := s.w.nft.generation()
	if err != nil {
		return err
	}
	if now == s.generation {
		s.proven = at
		return nil
	}
	if err := s.await(ctx, now); err != nil {
		return err
	}
	return s.read(ctx)
}

// await waits for the word on a generation, which the kernel sends when a commit is done: its number is in force a little earlier, when not
// all of its rules need be. Where it does not come, it is lost.
func (s *session) await(ctx context.Context, generation uint32) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		if err := s.drain(); err != nil {
			return err
		}
		if toldOf(generation, s.pending) {
			return nil
		}
		if s.overrun {
			timeout.Reset(s.w.poll)
		}
		select {
		case n := <-s.notices:
			if err := s.note(n); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			if !s.overrun {
				s.w.lost.Add(1)
			}
			s.pending = append(s.pending, notice{lost: true, generation: generation, at: clock.MonoNs()})
			return nil
		}
	}
}

// read reads the fronts from rules in nf_tables, again and again until they are of one generation, of which the word has come, and no later one's has.
func (s *session) read(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		first, err := s.w.nft.generation()
		if err != nil {
			return err
		}
		states, err := s.w.statesInNFTables()
		if errors.Is(err, errInterrupted) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			s.w.repeated.Add(1)
			continue
		} else if err != nil {
			return err
		}
		at := clock.MonoNs()
		last, err := s.w.nft.generation()
		if err != nil {
			return err
		}
		if first != last {
			s.w.repeated.Add(1)
			continue
		}
		if err := s.drain(); err != nil {
			return err
		}
		begin := s.proven == 0
		if !begin && last != s.generation && !toldOf(last, s.pending) {
			if err := s.await(ctx, last); err != nil {
				return err
			}
			s.w.repeated.Add(1)
			continue
		}
		s.w.reads.Add(1)
		s.accept(states, last, at, begin)
		if len(s.pending) == 0 {
			return nil
		}
	}
}

// accept tells what changed with a reading of a generation that was in force at a time.
func (s *session) accept(states []State, generation uint32, at int64, begin bool) {
	c := Change{First: true, MonoNs: at, NotBeforeNs: at}
	if !begin {
		c = committed(s.generation, generation, s.pending)
		c.MonoNs, c.NotBeforeNs = cmp.Or(c.MonoNs, at), s.proven
	}
	s.tell(states, c)
	s.generation, s.proven, s.overrun = generation, at, false
	s.pending = slices.DeleteFunc(s.pending, func(n notice) bool { return !before(generation, n.generation) })
}

// look reads the fronts from legacy tables.
func (s *session) look() error {
	var states []State
	began := clock.MonoNs()
	for _, p := range s.w.planes {
		if p.legacy == nil {
			continue
		}
		of, err := s.w.statesInLegacyTables(p)
		if err != nil {
			return err
		}
		states = append(states, of...)
	}
	if states == nil {
		return nil
	}
	ended := clock.MonoNs()
	s.w.reads.Add(1)
	c := Change{MonoNs: ended, NotBeforeNs: s.looked}
	if s.looked == 0 {
		c = Change{First: true, MonoNs: began, NotBeforeNs: began}
	}
	s.looked, s.cost = began, time.Duration(ended-began)
	s.tell(states, c)
	return nil
}

// tell passes on the states that are new, each as a change like c.
func (s *session) tell(states []State, c Change) {
	for _, state := range states {
		if last, known := s.states[state.Front]; !known || !last.Same(state) {
			s.states[state.Front] = state
			c.State = state
			s.each(c)
		}
	}
}

// statesInNFTables reads the fronts whose data plane is in nf_tables.
func (w *Watcher) statesInNFTables() ([]State, error) {
	var out []State
	for _, p := range w.planes {
		if p.legacy != nil {
			continue
		}
		nat, filter := newView(w.nft, p.bits, "nat", w.only), newView(w.nft, p.bits, "filter", w.only)
		of := func(f Front) (State, error) { return stateOfChains(IPTablesNFT, nat, filter, f) }
		if p.name == NFTables {
			own := newView(w.nft, p.bits, proxyTable, nil)
			of = func(f Front) (State, error) { return stateOfMaps(own, f) }
		}
		states, err := w.states(p, of)
		if err != nil {
			return nil, err
		}
		out = append(out, states...)
	}
	return out, nil
}

// statesInLegacyTables reads the fronts whose data plane is in legacy tables: nat first, because kube-proxy writes filter first, so that a backend
// that is taken away is never missing without the word of what becomes of its connections.
func (w *Watcher) statesInLegacyTables(p plane) ([]State, error) {
	nat, err := p.legacy.table("nat", w.only)
	if err != nil {
		return nil, err
	}
	filter, err := p.legacy.table("filter", w.only)
	if err != nil {
		return nil, err
	}
	return w.states(p, func(f Front) (State, error) { return stateOfChains(IPTablesLegacy, nat, filter, f) })
}

// states asks for each front of a plane's family, in the order of the options.
func (w *Watcher) states(p plane, of func(Front) (State, error)) ([]State, error) {
	var out []State
	for _, f := range w.fronts {
		if f.Addr.Addr().BitLen() != p.bits {
			continue
		}
		s, err := of(f)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
