package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/agent/conntrack"
	"github.com/drainproof/drainproof/internal/agent/containers"
	"github.com/drainproof/drainproof/internal/agent/dataplane"
	"github.com/drainproof/drainproof/internal/agent/kernel"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/jsonlines"
	"github.com/drainproof/drainproof/internal/record"
)

const (
	// remembered is how many things that happened to connections are kept: 24 MiB of them.
	remembered = 750_000
	// tellEvery bounds how long a fact waits for others on its way out, and what the kernel tells of connections to be taken.
	tellEvery = 100 * time.Millisecond
	// lookEvery is how often the processes and netlink sockets of the node are looked at, so that a number has a name.
	lookEvery = time.Second
	// harnessPatience is how long the harness may say nothing: some of its PingEvery.
	harnessPatience = 5 * PingEvery
	// partsPatience bounds the end of a session.
	partsPatience = 3 * time.Second
	// maxStrays bounds what is told of processes that are not their containers' first: probes and hooks, a server that forks.
	maxStrays = 5000
)

// Options of a session.
type Options struct {
	// Version is the program's, which the harness demands to be its own.
	Version string
	// RingBytes is the size of the buffer between the kernel and the agent; 0 for kernel.DefaultRingBytes.
	RingBytes int
}

// Serve is one session: it obeys the harness on in and answers on out, until in ends, the harness says so, or ctx ends. Everything that it
// loads or opens is gone when it returns. What cannot be seen is told, and no error.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watch{
		out: jsonlines.NewWriter(out), memory: newMemory(remembered), owners: containers.New(procRoot), fail: cancel, heardAt: time.Now(), blindness: map[record.EventFrom]string{},
		pods: pods{named: map[string]time.Time{}, found: map[string]bool{}, networks: map[uint32]string{}, processes: map[uint32]string{}},
	}
	defer func() {
		cancel()
		w.close()
		err = errors.Join(err, w.err())
	}()
	w.startKernel(ctx, o.RingBytes)
	reading := clock.Read()
	if err := w.out.Write(word{Say: "hello", Protocol: protocolVersion, Version: o.Version, Clock: &reading, Sights: w.sights}); err != nil {
		return err
	}
	w.start(func() { w.tell(ctx) })
	read := make(chan error, 1)
	go func() {
		read <- jsonlines.Read(in, func(o order) error { return w.obey(ctx, o) })
	}()
	select {
	case err := <-read:
		if errors.Is(err, errEnded) {
			return nil
		}
		return err
	case <-ctx.Done():
		return nil
	}
}

// errEnded ends the reading of orders.
var errEnded = errors.New("the harness ended the session")

// watch is one session's state.
type watch struct {
	out    *jsonlines.Writer
	memory *memory
	owners *containers.Map
	tasks  sync.WaitGroup
	// fail ends the session.
	fail func()

	tracer   *kernel.Tracer
	listener *conntrack.Listener
	rules    *dataplane.Watcher
	sights   []Sight
	// ownNetNs is the inode of the node's network namespace, the agent's own.
	ownNetNs uint32
	// exactDeletions: the kernel itself tells of every deletion of an entry, so that conntrack's own word is not asked for. It does not
	// change once there are events.
	exactDeletions bool
	// fronts are nil until there is something to watch.
	fronts []Front
	// firstPIDs: the numbers that the kernel tells are those of procRoot.
	firstPIDs bool
	// looking is held while Pods are looked for.
	looking sync.Mutex

	mu    sync.Mutex
	facts []Fact
	pods  pods
	// strays counts the facts of processes that are not their containers' first.
	strays int
	// blindness is what was last told of a source that is blind.
	blindness map[record.EventFrom]string
	// heardAt is when the harness last said something.
	heardAt time.Time
	closed  bool
	failed  error
	// telling is held over gapsTold, which counts the gaps of conntrack that were told.
	telling  sync.Mutex
	gapsTold int
}

func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// broke ends the session: what it would tell from now on would have holes that nobody knows.
func (w *watch) broke(err error) {
	w.mu.Lock()
	if w.failed == nil {
		w.failed = err
	}
	w.mu.Unlock()
	w.fail()
}

// start runs a part of the session, unless the session has ended.
func (w *watch) start(part func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.tasks.Go(part)
	}
}

// close lets go of all that the session holds. A part that hangs in a write to a harness that is gone is not waited for: its process ends.
func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	l, rules := w.listener, w.rules
	w.mu.Unlock()
	if w.tracer != nil {
		_ = w.tracer.Close()
	}
	if l != nil {
		_ = l.Close()
	}
	ended := make(chan struct{})
	go func() { w.tasks.Wait(); close(ended) }()
	select {
	case <-ended:
		if rules != nil {
			_ = rules.Close()
		}
	case <-time.After(partsPatience):
	}
}

// silence is for how long the harness has said nothing.
func (w *watch) silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.heardAt)
}

// blind tells that a source sees nothing from now on, once for each reason; the others go on.
func (w *watch) blind(source record.EventFrom, err error) {
	gap := Gap{Source: source, FromMonoNs: clock.MonoNs(), Why: err.Error()}
	w.mu.Lock()
	again := w.blindness[source] == gap.Why
	w.blindness[source] = gap.Why
	w.mu.Unlock()
	if again {
		return
	}
	if err := w.out.Write(word{Say: "gap", Gap: &gap}); err != nil {
		w.broke(err)
	}
}

func (w *watch) obey(ctx context.Context, o order) error {
	w.mu.Lock()
	w.heardAt = time.Now()
	w.mu.Unlock()
	switch o.Do {
	case "clock":
		reading := clock.Read()
		return w.out.Write(word{Say: "clock", ID: o.ID, Clock: &reading})
	case "watch":
		if o.Watch == nil || w.fronts != nil {
			return w.out.Write(word{Say: "refused", ID: o.ID, Error: "there is nothing to watch, or it is being watched already"})
		}
		w.begin(ctx, *o.Watch)
		return w.out.Write(word{Say: "watching", ID: o.ID, Sights: w.sights})
	case "pods":
		w.expect(o.Pods)
		w.look()
		return w.out.Write(word{Say: "watching", ID: o.ID})
	case "find":
		return w.answer(o)
	case "end":
		return w.end(o)
	}
	return w.out.Write(word{Say: "refused", ID: o.ID, Error: fmt.Sprintf("this agent cannot %q", o.Do)})
}

// say takes a fact, which goes out within tellEvery.
func (w *watch) say(f Fact) {
	w.mu.Lock()
	w.facts = append(w.facts, f)
	w.mu.Unlock()
}

// flush sends the facts that wait.
func (w *watch) flush() error {
	w.mu.Lock()
	facts := w.facts
	w.facts = nil
	w.mu.Unlock()
	return w.send(0, facts)
}

func (w *watch) send(id int, facts []Fact) error {
	for len(facts) > 0 {
		n := min(len(facts), factsPerLine)
		if err := w.out.Write(word{Say: "facts", ID: id, Facts: facts[:n]}); err != nil {
			return err
		}
		facts = facts[n:]
	}
	return nil
}

// tell sends what waits, looks for Pods that are to come, and tells of what was missed.
func (w *watch) tell(ctx context.Context) {
	t := time.NewTicker(tellEvery)
	defer t.Stop()
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		w.catchUp() // the tracer looks by this timer; conntrack's listener looks by one of its own, too
		due := time.Since(looked) > lookEvery
		if due || w.awaited() {
			w.look()
		}
		if due {
			looked = time.Now()
			if l := w.connections(); l != nil {
				_ = l.Remember() // without it a deletion has a number in place of a name
			}
		}
		if err := errors.Join(w.flush(), w.tellGaps(false)); err != nil {
			w.broke(err)
			return
		}
		if w.silence() > harnessPatience {
			w.broke(errors.New("the harness has been silent for too long: it is taken for gone"))
			return
		}
	}
}

func (w *watch) answer(o order) error {
	w.catchUp()
	var facts []Fact
	forgotten := w.memory.find(o.Pairs, func(f Fact) { facts = append(facts, f) })
	if err := w.send(o.ID, facts); err != nil {
		return err
	}
	return w.out.Write(word{Say: "found", ID: o.ID, ForgottenBeforeMonoNs: forgotten})
}

// end tells the last facts and what was lost.
func (w *watch) end(o order) error {
	w.catchUp()
	lost := w.lost()
	cost := costNow()
	if err := errors.Join(w.flush(), w.tellGaps(true), w.out.Write(word{Say: "ended", ID: o.ID, Lost: lost, Unfound: w.unfound(), Cost: &cost})); err != nil {
		return err
	}
	return errEnded
}
