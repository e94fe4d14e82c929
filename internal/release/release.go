// Package release runs one trial of a workload under requests, a user's own or
// the probe as an experiment deploys it, through its phases - preflight, deploy, attach,
// before, trigger, observe, after, collect - and puts back whatever it changed, also when it is interrupted.
//
// It is where kube, trigger and traffic meet for requests, as trial is for
// flows. It must not know the command line or how a result is drawn; what a failure means,
// tally, explain and verdict say.
package release

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/trial"
	"github.com/drainproof/drainproof/internal/trigger"
	"github.com/drainproof/drainproof/internal/verdict"
)

// Phase of a trial, in order.
type Phase string

const (
	Preflight Phase = "preflight"
	Deploy    Phase = "deploy"
	Attach    Phase = "attach"
	Before    Phase = "before"
	Fire      Phase = "trigger"
	Observe   Phase = "observe"
	After     Phase = "after"
	Collect   Phase = "collect"
	PutBack   Phase = "put back"
)

// Timeouts of the steps that wait for others.
const (
	deployTimeout = 90 * time.Second
	attachTimeout = 30 * time.Second
	// undoTimeout bounds each step of putting back.
	undoTimeout = 90 * time.Second
	// claimSlack is how much longer than planned a claim on the workload holds.
	claimSlack = 2 * time.Minute
)

// Spec is what to run.
type Spec struct {
	// Its Config's Traffic is not nil.
	trial.Spec
	// Ref is the workload; not looked at where Config.Probe asks for the bundled one.
	Ref kube.Ref
	// Service and Port (a name or a number) choose how to reach it, where there are several; empty for the only one.
	Service, Port string
	// Container names the one whose process a kill ends; empty for the one that serves.
	Container string
	// Pod names the Pod to end, where the trigger ends single ones; empty for the first by name.
	Pod string
	// Plan is what each client sends, but for rate, users and, unless URL was given, the address.
	Plan request.Plan
	// Budget judges the record.
	Budget verdict.Budget
}

// API is the cluster.
type API interface {
	kube.API
	kube.Workloads
	// DeployKiller makes a privileged Pod on a node, from which a process there can be ended.
	DeployKiller(ctx context.Context, namespace, trial, image, node string, timeout time.Duration) (kube.PodRef, error)
}

// Deps is what a trial works with.
type Deps struct {
	API        API
	NewTrigger func(context.Context, trigger.Kind, trigger.Target) (trigger.Trigger, error)
	// Agents lists the agents of the nodes; nil where nobody is to be asked.
	Agents evidence.Lister
	// RequireAgents ends the trial before it disturbs anything where a node has none to speak to.
	RequireAgents bool
	// Local starts a client in this process (vantage host).
	Local func() (traffic.Sender, error)
	// Progress is called at each step, from one goroutine at a time.
	Progress func(Phase, string)
	// Live, where set, is called twice a second while requests are sent, from one goroutine.
	Live func(Live)
}

// Run runs one trial. The record is never nil: where an error came before the end, it is marked incomplete and
// says what is missing. Everything created is gone when Run returns, and what was changed is put back, or the error
// says what is left and how to remove it.
func Run(ctx context.Context, s Spec, d Deps) (*record.Record, error) {
	now := time.Now()
	s.ID = cmp.Or(s.ID, trial.NewID(now))
	traffic := *s.Config.Traffic
	s.Config.Traffic = &traffic
	r := &running{
		spec: s, deps: d, cfg: s.Config, id: s.ID, journal: journal.New(), tally: newCounter(), bootID: clock.BootID(),
		undos: course.Undos{Timeout: undoTimeout},
	}
	r.rec = course.NewRecord(s.Spec, r.bootID, now)
	err := course.Course{
		Record: r.rec, Journal: r.journal,
		Steps:   []func(context.Context) error{r.preflight, r.deploy, r.attach, r.before, r.fire, r.observe, r.backUp, r.after},
		Phase:   func() string { return string(r.phase) },
		Collect: r.collect, Assemble: r.assemble,
		PuttingBack: func() { r.enter(PutBack, "putting back what this trial changed") }, Undos: &r.undos,
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
	journal *journal.Journal
	rec     *record.Record

	// namespace is the trial's own, for the workers and the probe; empty until it is made.
	namespace string
	workload  *kube.Workload
	// victim is the Pod that the trigger acts on, or the first of them.
	victim record.WorkloadPod
	target trigger.Target
	// trigger is nil until it is made: in preflight, but for kill.
	trigger trigger.Trigger
	plan    request.Plan
	// podPort is where the Pods listen; 0 where it is not known.
	podPort   int
	nodes     *evidence.Nodes // nil without agents
	workers   []kube.PodRef
	clients   []*client
	tally     *counter
	reading   sync.WaitGroup
	following sync.WaitGroup
	pods      podStates
	// serving is the container that listens on the Service's port; empty where nobody says.
	serving string
	// exitsBefore is how many ends of the victim's containers had been told when its process was to be killed.
	exitsBefore int
	// ended are UIDs of the Pods that the trigger ends.
	ended []string
	// mu guards what the live line reads beside: phase, fired and zeroMonoNs are written under it, by one goroutine.
	mu          sync.Mutex
	phase       Phase
	fired       bool
	zeroMonoNs  int64
	overMonoNs  int64 // the end of the disruption; 0 where it was not seen
	stops       []func()
	undos       course.Undos
	requestsRan bool
}

func (r *running) enter(p Phase, format string, args ...any) {
	r.setPhase(p)
	r.say(format, args...)
}

func (r *running) setPhase(p Phase) {
	r.mu.Lock()
	r.phase = p
	r.mu.Unlock()
}

// setZero sets the instant of the trigger.
func (r *running) setZero(monoNs int64) {
	r.mu.Lock()
	r.fired, r.zeroMonoNs = true, monoNs
	r.mu.Unlock()
}

// now gives the phase and the zero, 0 before the trigger, for the live line.
func (r *running) now() (p Phase, zeroMonoNs int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase, r.zeroMonoNs
}

func (r *running) say(format string, args ...any) {
	if r.deps.Progress != nil {
		r.deps.Progress(r.phase, fmt.Sprintf(format, args...))
	}
}

func (r *running) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rec.Notes = append(r.rec.Notes, fmt.Sprintf(format, args...))
}
