package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

// rule is one cause that recorded events can prove. A failure that no rule fits is unattributed.
type rule struct {
	kind string
	// when says in words what must have been seen.
	when string
	// fits gives the cause without its kind; nil where it is not proved.
	fits func(*view, record.Failure) *record.Cause
}

// rules is the table of what is claimed, and on what evidence.
var rules = []rule{
	{
		kind: "client-limit",
		when: "the outcome says so: the client had no descriptor, port or memory, or ended itself",
		fits: clientLimit,
	},
	{
		kind: "cut-by-exit",
		when: "the request was under way on a connection to a Pod that is known, when that Pod wrote that it exits, and was reset or closed " +
			"between that line and the news of the container's exit; both clocks are tied to the harness's",
		fits: cutByExit,
	},
	{
		kind: "no-endpoints",
		when: "a connection through a Service was refused, and from 1 s before the request until then the API named no endpoint that was ready or serving, its watch without a gap",
		fits: noEndpoints,
	},
	{
		kind: "not-ready-yet",
		when: "the Pod that answered, or took a new connection, is known, and the API called it and its endpoint ready only later, for the first time",
		fits: notReadyYet,
	},
}

// settled is for how long before a request no endpoint may have been there, so that nodes that follow the API late had heard as well.
const settled = 1_000_000_000

func clientLimit(_ *view, f record.Failure) *record.Cause {
	if f.Outcome != record.ClientLimited {
		return nil
	}
	why := cmp.Or(f.Errno, f.Message, "its own end")
	return &record.Cause{Evidence: []int{}, Sentence: fmt.Sprintf("the client itself could not go on (%s, phase %s): nothing that the workload did", why, f.Phase)}
}

func cutByExit(v *view, f record.Failure) *record.Cause {
	switch f.Outcome {
	case record.ResetBeforeResponse, record.ResetMidResponse, record.EOFBeforeResponse, record.Truncated:
	default:
		return nil
	}
	pod := v.instance(f)
	if pod == nil || pod.exiting == nil || pod.exited == nil || f.SentTNs == nil {
		return nil
	}
	// A probe that resets its connections does so just before it writes that it exits, and as a part of it.
	first := pod.exiting
	if pod.forced != nil && pod.forced.TNs < first.TNs {
		first = pod.forced
	}
	if first.Bound != record.Exact || first.UncertaintyNs == nil || f.UncertaintyNs == nil {
		return nil
	}
	doubt := *first.UncertaintyNs + *f.UncertaintyNs
	if *f.SentTNs > first.TNs+doubt || f.TNs < first.TNs-doubt || f.TNs > pod.exited.TNs+doubt {
		return nil
	}
	return &record.Cause{
		Evidence: told(pod.forced, pod.exiting, pod.exited),
		Sentence: fmt.Sprintf("%s %s after %s wrote that it exits, while it was under way: the exit cut its connection (the news of the exit came %s after that line)",
			happened(f), length(max(0, f.TNs-first.TNs)), pod.name, length(pod.exited.TNs-first.TNs)),
	}
}

func noEndpoints(v *view, f record.Failure) *record.Cause {
	if f.Outcome != record.Refused && f.Outcome != record.Unreachable || v.r.Workload == nil || v.r.Workload.Service == "" || !throughService(v.r.Config.Path) {
		return nil
	}
	from := began(f) - settled
	down, ok := v.downThroughout(from, f.TNs)
	if !ok || v.deaf(from, f.TNs) {
		return nil
	}
	return &record.Cause{
		Evidence: slices.Clone(down.news),
		Sentence: fmt.Sprintf("%s: the Service had had no endpoint that was ready or serving for %s, as the API told", happened(f), length(f.TNs-down.from)),
	}
}

// throughService reports whether requests on that path ask a Service's rules.
func throughService(path string) bool { return path == "clusterip" || path == "nodeport" }

func notReadyYet(v *view, f record.Failure) *record.Cause {
	if !f.Outcome.Failed() || !f.Outcome.Answered() && f.Connection != record.NewConnection {
		return nil
	}
	pod := v.instance(f)
	if pod == nil || pod.added == nil || pod.ready == nil || pod.added.TNs < 0 || pod.ready.TNs-f.TNs < settled {
		return nil // what was there before the watch may have been ready before; and the API's word reaches us later than the nodes
	}
	if pod.endpointReady != nil && pod.endpointReady.TNs <= f.TNs || v.deaf(pod.added.TNs, pod.ready.TNs) {
		return nil
	}
	return &record.Cause{
		Evidence: told(pod.added, pod.ready),
		Sentence: fmt.Sprintf("%s by %s, which the API called ready for the first time %s later: it was sent there too early", happened(f), pod.name, length(pod.ready.TNs-f.TNs)),
	}
}
