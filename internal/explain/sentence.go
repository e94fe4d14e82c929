package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// unattributed places a loss among what the API told, and names what speaks against a cause, and what is missing.
func (v *view) unattributed(f loss, found []finding) *record.Cause {
	t := f.when()
	head := f.what()
	if f.Instance != nil {
		head += ", from " + *f.Instance
	}
	if f.Instance != nil || f.Outcome.Answered() || t != f.TNs {
		head += ","
	}
	if t != f.TNs {
		head += map[bool]string{true: " last heard of", false: " begun"}[f.flow != nil]
	}
	pods := v.around(f, t)
	var facts []string
	var ids []int
	switch known := v.instance(f); {
	case t < 0:
		head += " " + length(-t) + " before the trigger"
	case known != nil && known.end() == nil:
		head += " " + length(t) + " after the trigger"
		facts, ids = append(facts, alive(known, t)), told(known.ready)
	case len(pods) > 0 && pods[0].end() != nil:
		head += " " + place(pods[0], t, known != nil)
		facts, ids = append(facts, steps(pods[0], t)...), append(ids, evidence(pods[0])...)
		others, otherIDs := bystanders(pods[1:], t)
		facts, ids = append(facts, others...), append(ids, otherIDs...)
	case len(pods) > 0:
		head += " " + length(t) + " after the trigger"
		facts, ids = bystanders(pods, t)
	default:
		head += " " + length(t) + " after the trigger"
		facts = append(facts, "no Pod was seen to end or start then")
	}
	sentence := head
	if len(facts) > 0 {
		sentence += ": " + strings.Join(facts, ", ")
	}
	var against, missing []string
	for _, x := range found {
		ids = append(ids, x.evidence...)
		if x.against != "" && !slices.Contains(against, x.against) {
			against = append(against, x.against)
		}
		if x.missing != "" && !slices.Contains(missing, x.missing) {
			missing = append(missing, x.missing)
		}
	}
	if len(against) > 0 {
		sentence += "; but " + strings.Join(against, ", and ")
	}
	switch {
	case len(missing) > 0:
		sentence += isMissing + strings.Join(missing, ", and ")
		if v.deaf(min(t, 0), t) {
			sentence += unheard
		}
	case len(against) == 0:
		sentence += isMissing + v.missing(f, t)
	}
	return &record.Cause{Kind: unattributed, Evidence: ordered(ids), Sentence: sentence}
}

const (
	// isMissing begins the end of a sentence that names the missing evidence.
	isMissing = "; missing: "
	unheard   = ", and what the API told while its watch was broken"
)

// around gives the Pods that a failure at t may have to do with: the one that is known, else those that were ending or starting then,
// the one whose end is nearest first.
func (v *view) around(f loss, t int64) []*life {
	if known := v.instance(f); known != nil {
		return []*life{known}
	}
	var list []*life
	for _, l := range v.lives {
		if f.Instance != nil && l.name != *f.Instance {
			continue
		}
		if l.endingAt(t) || l.startingAt(t) {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b *life) int { return cmp.Compare(a.farFrom(t), b.farFrom(t)) })
	return list
}

// happened says in words how a request ended.
func happened(f record.Failure) string {
	switch f.Outcome {
	case record.HTTPError, record.GRPCError:
		what := "status"
		if f.Outcome == record.GRPCError {
			what = "gRPC status"
		}
		if f.Status == nil {
			return "answered without a " + what
		}
		return fmt.Sprintf("answered with %s %d", what, *f.Status)
	case record.Refused:
		return "refused"
	case record.Unreachable:
		return "unreachable"
	case record.ResetBeforeResponse:
		return "reset before a response"
	case record.ResetMidResponse:
		return "reset in the middle of its response"
	case record.EOFBeforeResponse:
		return "closed without a response"
	case record.Truncated:
		return "closed in the middle of its response"
	case record.ConnectTimeout:
		return "not connected in time"
	case record.ResponseTimeout:
		return "not answered in time"
	case record.DNSFailure:
		return "its name not resolved"
	case record.TLSFailure:
		return "its TLS handshake failed"
	case record.GoawayUnprocessed:
		return "turned away by a server that announced its end"
	case record.ProtocolError:
		return "answered by what is no answer of its protocol"
	default:
		return string(f.Outcome)
	}
}

// place says where t lies against the end of a Pod, which was named already or is named here.
func place(l *life, t int64, named bool) string {
	subject := l.name
	if named {
		subject = "it"
	}
	sign := " was seen to be deleted"
	if l.ending == nil {
		sign = " was seen to have exited"
	}
	zero := l.end().TNs
	if t < zero {
		return length(zero-t) + " before " + subject + sign
	}
	return length(t-zero) + " after " + subject + sign
}

// alive tells of a known Pod that was not ended.
func alive(l *life, t int64) string {
	switch {
	case l.ready == nil:
		return "it was not seen to end, nor to become ready"
	case l.ready.TNs > t:
		return "it was not seen to end, and became ready " + length(l.ready.TNs-t) + " later"
	}
	return "it was not seen to end"
}

// steps tells what was known at t of a Pod's end. Times count from the first sign of it, and are upper bounds where the API told them.
func steps(l *life, t int64) []string {
	zero := l.end().TNs
	at := func(e *record.Event) string { return "+" + length(e.TNs-zero) }
	var facts []string
	if l.ending != nil || l.sigterm != nil {
		facts = append(facts, term(l, zero))
	}
	if l.listenClosed != nil && l.listenClosed.TNs <= t {
		facts = append(facts, "it had closed its listener at "+at(l.listenClosed))
	}
	switch {
	case l.notReady == nil:
		facts = append(facts, "its endpoint was not seen to become not ready")
	case l.notReady.TNs > t:
		facts = append(facts, "the news that its endpoint is not ready came later ("+at(l.notReady)+")")
	default:
		facts = append(facts, "its endpoint had been not ready since "+at(l.notReady)+" at the latest")
	}
	if l.removed != nil && l.removed.TNs <= t {
		facts = append(facts, "removed by "+at(l.removed))
	}
	if l.exiting != nil {
		facts = append(facts, "it wrote that it exits at "+at(l.exiting))
	}
	switch {
	case l.ending == nil: // the exit is what times count from
	case l.exited == nil:
		facts = append(facts, "its container was not seen to exit")
	case l.exited.TNs > t:
		facts = append(facts, "the news that its container exited came later ("+at(l.exited)+")")
	default:
		facts = append(facts, "its container exited by "+at(l.exited))
	}
	return facts
}

// term is when the Pod's process was told to end: exactly where it wrote so itself, else the kubelet's word, which comes before the preStop
// hook, and the length of that hook.
func term(l *life, zero int64) string {
	switch {
	case l.sigterm != nil:
		return "SIGTERM at +" + length(l.sigterm.TNs-zero)
	case l.killing == nil:
		return "SIGTERM not known"
	case l.hookNs == nil:
		return "SIGTERM not known (a hook of unknown length began by +" + length(l.killing.TNs-zero) + ")"
	}
	return "SIGTERM at about +" + length(l.killing.TNs+*l.hookNs-zero) + " (an estimate)"
}

// evidence are the events that steps may name.
func evidence(l *life) []int {
	ids := told(l.ending, l.notReady, l.removed, l.exited, l.exiting, l.listenClosed)
	switch {
	case l.sigterm != nil:
		ids = append(ids, l.sigterm.ID)
	case l.killing != nil:
		ids = append(ids, l.killing.ID)
	}
	return ids
}

// bystanders counts the other Pods that were ending, and tells of those that were starting.
func bystanders(pods []*life, t int64) (facts []string, ids []int) {
	ending, starting := 0, 0
	var soonest *life
	for _, l := range pods {
		switch {
		case l.end() != nil:
			ending++
			ids = append(ids, told(l.end())...)
		case l.ready != nil && l.ready.TNs <= t:
			facts = append(facts, "new Pod "+l.name+" had been ready for "+length(t-l.ready.TNs))
			ids = append(ids, told(l.ready)...)
		default:
			starting++
			if l.ready != nil && (soonest == nil || l.ready.TNs < soonest.ready.TNs) {
				soonest = l
			}
		}
	}
	if ending > 0 {
		facts = append(facts, figure.Plural(ending, "other Pod")+" ending then")
	}
	if starting > 0 {
		text := figure.Plural(starting, "new Pod") + " not ready yet"
		if soonest != nil {
			text += " (the first " + length(soonest.ready.TNs-t) + " later)"
			ids = append(ids, told(soonest.ready)...)
		}
		facts = append(facts, text)
	}
	return facts, ids
}

// missing names the evidence that would tell more.
func (v *view) missing(f loss, t int64) string {
	var what string
	switch {
	case f.rehomed():
		what = "who moved it to another Pod: its conntrack entries (node evidence)"
	case f.Outcome == record.DNSFailure:
		what = "why the name was not resolved (the resolver's evidence)"
	case f.Outcome == record.HTTPError && f.Status != nil && *f.Status >= 502 && *f.Status <= 504 && f.Instance == nil:
		what = "whether the workload or a proxy before it answered so"
	case f.Outcome.Answered():
		what = "why the workload answered so (its own log)"
	case f.Instance == nil && (!v.asked || f.to.life == nil):
		what = "which Pod the node sent it to (node evidence)"
	default:
		what = "what ended it there: the application, its exit or the node (node evidence)"
	}
	if f.Instance != nil && len(v.named(*f.Instance)) != 1 {
		what += ", and which Pod " + *f.Instance + " is"
	}
	if v.deaf(min(t, 0), t) {
		what += unheard
	}
	return what
}

// length prints a length of time as events are read: to the millisecond below ten seconds, to the tenth of a second above.
func length(ns int64) string {
	switch ms := time.Duration(ns).Round(time.Millisecond).Milliseconds(); {
	case ms < 1000 && ms > -1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 10_000 && ms > -10_000:
		return fmt.Sprintf("%.3f s", float64(ms)/1e3)
	}
	return fmt.Sprintf("%.1f s", float64(ns)/1e9)
}
