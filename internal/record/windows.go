package record

import (
	"slices"
	"strings"
)

// WindowNames of schema v1. "delete" stands for the trigger, whatever its kind.
const (
	DeleteToAccepted         = "delete-to-accepted"
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
	minus func(Config) int64
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
		{Name: DeleteToAccepted, From: trigger, To: "the API server had accepted it", from: atTrigger, to: atAccepted},
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
			from: atTrigger, to: lastEnd(TCP), minus: func(c Config) int64 { return c.GraceNs }, unless: notKilled},
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
	w.Ns, w.UncertaintyNs, w.Bound = d.between(*from.event, *to.event, v.r.Config)
	return w
}

// between measures from one event to another: the length, the sum of the clocks' bounds, and which way the receipt times pull.
func (d WindowDef) between(from, to Event, c Config) (ns, uncertaintyNs *int64, bound Bound) {
	length := to.TNs - from.TNs
	if d.minus != nil {
		length -= d.minus(c)
	}
	if a, b := from.UncertaintyNs, to.UncertaintyNs; a != nil && b != nil {
		uncertaintyNs = new(*a + *b)
	}
	return &length, uncertaintyNs, boundOf(from.Bound, to.Bound)
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
