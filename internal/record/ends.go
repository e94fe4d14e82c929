package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// end is one end of a window: an event, or why there is none.
type end struct {
	event *Event
	why   string
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
	return v.first(TriggerSent, "the trial ended before its trigger")
}

func atAccepted(v *trialView) end {
	return v.first(TriggerAccepted, "the API server was not seen to accept the trigger")
}

func (v *trialView) first(kind EventKind, why string) end {
	if i := slices.IndexFunc(v.r.Events, func(e Event) bool { return e.Kind == kind }); i >= 0 {
		return end{event: &v.r.Events[i]}
	}
	return end{why: why}
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

// Exits are the events that tell the end of Pods' containers, in order of time: of each Pod those that its termination names, which are the kernel's own where an agent saw
// them; of one without such the news of the API, which comes some time later.
func (r Record) Exits() (list []Event) {
	named, told := map[int]bool{}, map[string]bool{}
	for _, t := range r.Terminations {
		for _, c := range t.Containers {
			if c.Exit.TNs != nil {
				named[c.Exit.Event], told[cmp.Or(t.UID, t.Pod)] = true, true
			}
		}
	}
	for _, e := range r.Events {
		if named[e.ID] || e.Kind == ContainerExited && !told[cmp.Or(e.PodUID, PodOf(e.Subject))] {
			list = append(list, e)
		}
	}
	return list
}
