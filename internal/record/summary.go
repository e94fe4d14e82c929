package record

import "encoding/json"

// Detail keys of a container-exited event.
const (
	DetailExitCode = "exit_code"
	DetailReason   = "reason"
)

// Summarize counts what r's flows and events say. podUID names the probe's Pod; with "" it
// is found by ProbePod. It is pure, and what r.Summary holds is not looked at.
func Summarize(r Record, podUID string) Summary {
	s := Summary{TCP: map[Outcome]int{}, UDP: map[Outcome]int{}}
	for _, f := range r.Flows {
		switch f.Protocol {
		case TCP:
			s.TCP[f.Outcome]++
		case UDP:
			s.UDP[f.Outcome]++
		}
	}
	s.ContainerExitCode, s.ContainerExitReason = newTrialView(r, podUID).exit()
	return s
}

// Derive fills Summary and Windows from the events and flows of r.
func Derive(r *Record) {
	r.Summary = Summarize(*r, "")
	r.Windows = DeriveWindows(*r, "")
}

// exit gives the exit code and reason of the probe's container; nil where they were not seen.
func (v *trialView) exit() (code *int, reason *string) {
	e := ofPod(ContainerExited)(v).event
	if e == nil {
		return nil, nil
	}
	if n, ok := Integer(e.Detail[DetailExitCode]); ok {
		c := int(n)
		code = &c
	}
	if s, ok := e.Detail[DetailReason].(string); ok && s != "" {
		reason = &s
	}
	return code, reason
}

// Integer reads a whole number from an event's detail, which holds Go numbers
// in a fresh record and json.Number in one that was read.
func Integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		return int64(n), n == float64(int64(n))
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}
