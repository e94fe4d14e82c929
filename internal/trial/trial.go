// Package trial runs one trial: preflight, deploy, attach, settle, trigger,
// observe, collect - and puts back whatever it changed, also when it is interrupted.
//
// It is where kube, trigger and traffic meet; they do not know each other. It
// must not know experiments, reports or the command line, and it draws no
// conclusion beyond what record derives.
package trial

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/trigger"
)

// Phase of a trial, in order.
type Phase string

const (
	Preflight Phase = "preflight"
	Deploy    Phase = "deploy"
	Attach    Phase = "attach"
	Settle    Phase = "settle"
	Fire      Phase = "trigger"
	Observe   Phase = "observe"
	Collect   Phase = "collect"
	PutBack   Phase = "put back"
)

// Phases lists them in order.
func Phases() []Phase {
	return []Phase{Preflight, Deploy, Attach, Settle, Fire, Observe, Collect, PutBack}
}

// Timeouts of the steps that wait for others.
const (
	deployTimeout  = 90 * time.Second
	attachTimeout  = 30 * time.Second
	undoTimeout    = 45 * time.Second // of each step
	connectTimeout = 10 * time.Second
	// tail is how long the observation goes on after everything expected has
	// been seen, so that what comes unexpectedly is seen too.
	tail = 1500 * time.Millisecond
)

// Spec is what to run; an ID is as NewID makes them.
type Spec = course.Origin

// Deps is what a trial works with.
type Deps struct {
	API        kube.API
	NewTrigger func(context.Context, trigger.Kind, trigger.Target) (trigger.Trigger, error)
	// Agents lists the agents of the nodes; nil where nobody is to be asked.
	Agents evidence.Lister
	// RequireAgents ends the trial before it disturbs anything where a node has none to speak to.
	RequireAgents bool
	// Local starts a client in this process (vantage host).
	Local func() (traffic.Session, error)
	// Progress is called at each step, from one goroutine at a time.
	Progress func(Phase, string)
}

// NewID makes a trial's id: sortable by time, unique, valid in object names.
func NewID(now time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails, crypto/rand
	return now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

// Run runs one trial. The record is never nil: where an error came before the
// end, it is marked incomplete and says what is missing. Everything created is
// gone when Run returns, or the error says what is left and how to remove it.
func Run(ctx context.Context, s Spec, d Deps) (*record.Record, error) {
	now := time.Now()
	s.ID = cmp.Or(s.ID, NewID(now))
	r := &running{
		spec: s, deps: d, cfg: s.Config, id: s.ID, journal: journal.New(), flows: newFlowStates(), bootID: clock.BootID(),
		undos: course.Undos{Timeout: undoTimeout},
	}
	r.rec = course.NewRecord(s, r.bootID, now)
	r.rec.Notes = causedByUs(s.Config)
	err := course.Course{
		Record: r.rec, Journal: r.journal,
		Steps:   []func(context.Context) error{r.preflight, r.deploy, r.attach, r.settle, r.fire, r.observe},
		Phase:   func() string { return string(r.phase) },
		Collect: r.collect, Assemble: r.assemble,
		PuttingBack: func() { r.enter(PutBack, "removing what this trial made") }, Undos: &r.undos,
	}.Run(ctx)
	return r.rec, err
}

// running is one trial under way.
type running struct {
	spec    Spec
	deps    Deps
	cfg     record.Config
	id      string
	bootID  string
	phase   Phase
	journal *journal.Journal
	rec     *record.Record

	namespace   string
	nodes       *evidence.Nodes // nil without agents
	probe       *kube.Probe
	worker      kube.PodRef
	session     traffic.Session
	offset      clock.Offset // of the client
	probeOffset *clock.Offset
	notesDone   chan struct{}
	flows       *flowStates
	report      *traffic.Report
	zeroMonoNs  int64
	zeroWall    time.Time
	fired       bool
	// stops end the observers, undos put things back; both run in reverse order.
	stops []func()
	undos course.Undos
}

func (r *running) enter(p Phase, format string, args ...any) {
	r.phase = p
	r.say(format, args...)
}

func (r *running) say(format string, args ...any) {
	if r.deps.Progress != nil {
		r.deps.Progress(r.phase, fmt.Sprintf(format, args...))
	}
}
