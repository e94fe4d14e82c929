package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// WindowNames of schema v1. "delete" stands for the trigger, whatever its kind.
const (
	DeleteToTerm             = "delete-to-term"
	DeleteToNotReady         = "delete-to-not-ready"
	DeleteToEndpointRemoved  = "delete-to-endpoint-removed"
	DeleteToExit             = "delete-to-exit"
	TermToNotReady           = "term-to-not-ready"
	TermToExit               = "term-to-exit"
	FirstTCPEnd              = "first-tcp-end"
	LastTCPEnd               = "last-tcp-end"
	FirstUDPEnd              = "first-udp-end"
	LastUDPEnd               = "last-udp-end"
	DeadEndpoint             = "dead-endpoint"
	DeadEndpointReady        = "dead-endpoint-ready"
	KillAfterGrace           = "kill-after-grace"
	UDPRehomeBeforeExit      = "udp-rehome-before-exit"
	UDPRehomeBeforeExiting   = "udp-rehome-before-exiting"
	ExitToLastUDPEnd         = "exit-to-last-udp-end"
	ExitingToLastUDPEnd      = "exiting-to-last-udp-end"
	ReplacementReady         = "replacement-ready"
	ReplacementEndpointReady = "replacement-endpoint-ready"
)

// WindowDef is what a window's name means.
type WindowDef struct {
	Name string
	// From and To say in words where it begins and ends.
	From, To string

	from, to func(*trialView) end
	// minus is taken off the length.
	minus func(*trialView) int64
	// unless gives a reason why the window has no meaning in this trial.
	unless func(*trialView) string
}

// WindowDefs lists every window, in the order in which records hold them.
func WindowDefs() []WindowDef {
	const trigger, sigterm = "the trigger was sent", "the probe received SIGTERM"
	const exited = "the API showed the container as exited"
	const exiting = "the probe wrote that it exits"
	const notReady = "the API showed the Pod's endpoint as not ready"
	const removed = "the API showed the Pod's endpoint as removed"
	return []WindowDef{
		{Name: DeleteToTerm, From: trigger, To: sigterm, from: atTrigger, to: ofPod(ProbeSigterm)},
		{Name: DeleteToNotReady, From: trigger, To: notReady, from: atTrigger, to: ofPod(EndpointNotReady)},
		{Name: DeleteToEndpointRemoved, From: trigger, To: removed, from: atTrigger, to: ofPod(EndpointRemoved)},
		{Name: DeleteToExit, From: trigger, To: exited, from: atTrigger, to: ofPod(ContainerExited)},
		{Name: TermToNotReady, From: sigterm, To: notReady, from: ofPod(ProbeSigterm), to: ofPod(EndpointNotReady)},
		{Name: TermToExit, From: sigterm, To: exited, from: ofPod(ProbeSigterm), to: ofPod(ContainerExited)},
		{Name: FirstTCPEnd, From: trigger, To: "the first TCP flow ended", from: atTrigger, to: firstEnd(TCP)},
		{Name: LastTCPEnd, From: trigger, To: "the last TCP flow ended", from: atTrigger, to: lastEnd(TCP)},
		{Name: FirstUDPEnd, From: trigger, To: "the first UDP flow ended or was rehomed", from: atTrigger, to: firstEnd(UDP)},
		{Name: LastUDPEnd, From: trigger, To: "the last UDP flow ended or was rehomed", from: atTrigger, to: lastEnd(UDP)},
		{Name: DeadEndpoint, From: "the last TCP flow ended", To: removed, from: lastEnd(TCP), to: ofPod(EndpointRemoved)},
		{Name: DeadEndpointReady, From: "the last TCP flow ended", To: notReady, from: lastEnd(TCP), to: ofPod(EndpointNotReady)},
		{Name: KillAfterGrace, From: "the trigger was sent, plus the grace period", To: "the last TCP flow ended (exit code 137 only)",
			from: atTrigger, to: lastEnd(TCP), minus: func(v *trialView) int64 { return v.r.Config.GraceNs }, unless: notKilled},
		{Name: UDPRehomeBeforeExit, From: "the first UDP flow was rehomed", To: exited, from: firstRehome, to: ofPod(ContainerExited)},
		{Name: UDPRehomeBeforeExiting, From: "the first UDP flow was rehomed", To: exiting, from: firstRehome, to: ofPod(ProbeExiting)},
		{Name: ExitToLastUDPEnd, From: exited, To: "the last UDP flow that was not rehomed ended", from: ofPod(ContainerExited), to: lastUDPCut},
		{Name: ExitingToLastUDPEnd, From: exiting, To: "the last UDP flow that was not rehomed ended", from: ofPod(ProbeExiting), to: lastUDPCut},
		{Name: ReplacementReady, From: trigger, To: "the API showed another Pod as ready", from: atTrigger, to: ofOtherPod(PodReady)},
		{Name: ReplacementEndpointReady, From: trigger, To: "the API showed another Pod's endpoint as ready", from: atTrigger, to: ofOtherPod(EndpointReady)},
	}
}

// DeriveWindows derives every window of WindowDefs from the events and flows of r. podUID names
// the probe's Pod; with "" it is found by ProbePod. It is pure, and what r.Windows holds is not looked at.
func DeriveWindows(r Record, podUID string) []Window {
	v := newTrialView(r, podUID)
	defs := WindowDefs()
	ws := make([]Window, 0, len(defs))
	for _, d := range defs {
		ws = append(ws, v.window(d))
	}
	return ws
}

// Window gives the window of that name as r holds it; ok is false without one.
func (r Record) Window(name string) (w Window, ok bool) {
	i := slices.IndexFunc(r.Windows, func(w Window) bool { return w.Name == name })
	if i < 0 {
		return Window{}, false
	}
	return r.Windows[i], true
}

// end is one end of a window: an event, or why there is none.
type end struct {
	event *Event
	why   string
}

func (v *trialView) window(d WindowDef) Window {
	w := Window{Name: d.Name, Bound: Exact}
	if d.unless != nil {
		if why := d.unless(v); why != "" {
			w.Why = why
			return w
		}
	}
	from, to := d.from(v), d.to(v)
	var why []string
	if from.event != nil {
		w.FromEvent = from.event.ID
	} else {
		why = append(why, from.why)
	}
	if to.event != nil {
		w.ToEvent = to.event.ID
	} else if !slices.Contains(why, to.why) {
		why = append(why, to.why)
	}
	if len(why) > 0 {
		w.Why = strings.Join(why, "; ")
		return w
	}
	ns := to.event.TNs - from.event.TNs
	if d.minus != nil {
		ns -= d.minus(v)
	}
	w.Ns = &ns
	if a, b := from.event.UncertaintyNs, to.event.UncertaintyNs; a != nil && b != nil {
		sum := *a + *b
		w.UncertaintyNs = &sum
	}
	w.Bound = boundOf(from.event.Bound, to.event.Bound)
	return w
}

// boundOf combines the bounds of both ends: a late receipt at the end makes
// the interval too long (upper), one at the beginning makes it too short (lower).
func boundOf(from, to Bound) Bound {
	switch from {
	case Upper:
		from = Lower
	case Lower:
		from = Upper
	}
	switch {
	case from == to || to == Exact:
		return from
	case from == Exact:
		return to
	default:
		return Either
	}
}

// trialView indexes what the windows ask for.
type trialView struct {
	r Record
	// pod is the probe's Pod; podWhy says why it is not known.
	pod, podUID, podWhy string
	flows               map[string]Flow
}

func newTrialView(r Record, podUID string) *trialView {
	v := &trialView{r: r, flows: make(map[string]Flow, len(r.Flows))}
	for _, f := range r.Flows {
		v.flows["flow/"+f.ID] = f
	}
	if podUID == "" {
		v.pod, v.podUID = r.ProbePod()
	} else {
		v.pod, v.podUID = r.podName(podUID), podUID
	}
	if v.pod == "" && v.podUID == "" {
		v.podWhy = "no Pod was seen to be terminated"
	}
	return v
}

// podName finds the name of the Pod with that UID; the UID itself where nothing names it.
func (r Record) podName(uid string) string {
	for _, e := range r.Events {
		if e.PodUID == uid && PodOf(e.Subject) != "" {
			return PodOf(e.Subject)
		}
	}
	for _, f := range r.Flows {
		if f.FirstPodUID != nil && *f.FirstPodUID == uid && f.FirstInstance != nil {
			return *f.FirstInstance
		}
	}
	return uid
}

// ProbePod names the Pod that the trial was about: the one that first answered
// its flows, else the first that was seen terminating. Both are "" where neither is known.
func (r Record) ProbePod() (name, uid string) {
	for _, f := range r.Flows {
		if f.FirstInstance != nil {
			if f.FirstPodUID != nil {
				uid = *f.FirstPodUID
			}
			return *f.FirstInstance, uid
		}
	}
	for _, kind := range []EventKind{PodTerminating, ProbeSigterm, EndpointTerminating, ContainerExited} {
		for _, e := range r.Events {
			if e.Kind == kind && e.TNs >= 0 {
				return PodOf(e.Subject), e.PodUID
			}
		}
	}
	return "", ""
}

// PodOf gives the Pod's name in a subject pod/NAME, endpoint/NAME or container/NAME/CONTAINER; "" in others.
func PodOf(subject string) string {
	kind, rest, _ := strings.Cut(subject, "/")
	switch kind {
	case "pod", "endpoint", "container":
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	return ""
}

// isPod reports whether e is about the probe's Pod: by UID where both sides know it, else by name.
func (v *trialView) isPod(e Event) bool {
	if v.podUID != "" && e.PodUID != "" {
		return v.podUID == e.PodUID
	}
	return PodOf(e.Subject) == v.pod
}

func atTrigger(v *trialView) end {
	if i := slices.IndexFunc(v.r.Events, func(e Event) bool { return e.Kind == TriggerSent }); i >= 0 {
		return end{event: &v.r.Events[i]}
	}
	return end{why: "the trial ended before its trigger"}
}

// ofPod finds the first event of a kind about the probe's Pod, from the trigger on.
func ofPod(kind EventKind) func(*trialView) end {
	return func(v *trialView) end {
		if v.podWhy != "" {
			return end{why: v.podWhy}
		}
		for i, e := range v.r.Events {
			if e.Kind == kind && e.TNs >= 0 && v.isPod(e) {
				return end{event: &v.r.Events[i]}
			}
		}
		return end{why: fmt.Sprintf("no %s of Pod %s was observed", kind, v.pod)}
	}
}

// ofOtherPod finds the first event of a kind about a Pod other than the probe's first.
func ofOtherPod(kind EventKind) func(*trialView) end {
	return func(v *trialView) end {
		if v.podWhy != "" {
			return end{why: v.podWhy}
		}
		for i, e := range v.r.Events {
			if e.Kind == kind && e.TNs >= 0 && PodOf(e.Subject) != "" && !v.isPod(e) {
				return end{event: &v.r.Events[i]}
			}
		}
		return end{why: fmt.Sprintf("no %s of another Pod was observed", kind)}
	}
}

// endKind is the event that was the end of a flow.
func endKind(f Flow) EventKind {
	if f.Outcome == Rehomed {
		return FlowRehomed
	}
	return FlowEnded
}

// ends gives the end of each flow that match accepts, in order of time, and how many flows match without an end.
func (v *trialView) ends(match func(Flow) bool) (ended []*Event, flows int) {
	seen := map[string]bool{}
	for i, e := range v.r.Events {
		f, ok := v.flows[e.Subject]
		if !ok || e.TNs < 0 || seen[e.Subject] || !match(f) || e.Kind != endKind(f) || f.Outcome == Survived || f.Outcome == NotMeasured {
			continue
		}
		seen[e.Subject] = true
		ended = append(ended, &v.r.Events[i])
	}
	for _, f := range v.r.Flows {
		if match(f) {
			flows++
		}
	}
	slices.SortStableFunc(ended, func(a, b *Event) int { return cmp.Compare(a.TNs, b.TNs) })
	return ended, flows
}

func firstEnd(p Protocol) func(*trialView) end {
	return func(v *trialView) end {
		ended, flows := v.ends(func(f Flow) bool { return f.Protocol == p })
		switch {
		case flows == 0:
			return end{why: fmt.Sprintf("there was no %s flow", p)}
		case len(ended) == 0:
			return end{why: fmt.Sprintf("no %s flow was seen to end", p)}
		}
		return end{event: ended[0]}
	}
}

// lastEnd needs every flow's end: while one lives, the last end is not known.
func lastEnd(p Protocol) func(*trialView) end {
	return func(v *trialView) end {
		return v.lastOf(string(p)+" flows", func(f Flow) bool { return f.Protocol == p })
	}
}

func lastUDPCut(v *trialView) end {
	return v.lastOf("udp flows that stayed", func(f Flow) bool { return f.Protocol == UDP && f.Outcome != Rehomed })
}

func (v *trialView) lastOf(what string, match func(Flow) bool) end {
	ended, flows := v.ends(match)
	switch {
	case flows == 0:
		return end{why: "there were no " + what}
	case len(ended) < flows:
		return end{why: fmt.Sprintf("%d of %d %s were not seen to end", flows-len(ended), flows, what)}
	}
	return end{event: ended[len(ended)-1]}
}

func firstRehome(v *trialView) end {
	ended, _ := v.ends(func(f Flow) bool { return f.Protocol == UDP && f.Outcome == Rehomed })
	if len(ended) == 0 {
		return end{why: "no udp flow was rehomed"}
	}
	return end{event: ended[0]}
}

// killed is the exit code that a container runtime reports for SIGKILL: 128 + 9.
const killed = 137

func notKilled(v *trialView) string {
	code, _ := v.exit()
	switch {
	case v.podWhy != "":
		return v.podWhy
	case code == nil:
		return "the container's exit code was not observed"
	case *code != killed:
		return fmt.Sprintf("the container exited with %d, not %d", *code, killed)
	}
	return ""
}
