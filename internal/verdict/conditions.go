package verdict

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// condition is one thing that decides how much a trial loses.
type condition struct {
	what string
	// fixed: two sides that differ in it are two experiments. What is not fixed is what a fix may change.
	fixed bool
	of    func(record.Record) string
}

const (
	none     = "none"
	notKnown = "not known"
)

// allConditions is the table of them. Where a record does not say, the value is "not known", which equals itself only.
func allConditions() []condition {
	return []condition{
		{"trigger", true, func(r record.Record) string { return r.Config.Trigger }},
		{"path", true, func(r record.Record) string { return cmp.Or(r.Config.Path, none) }},
		{"vantage", true, func(r record.Record) string { return cmp.Or(r.Config.Vantage, none) }},
		{"clients", true, traffic(func(t record.Traffic) string { return strconv.Itoa(t.Workers) })},
		{"expected statuses", true, traffic(func(t record.Traffic) string { return cmp.Or(t.Expect, none) })},
		{"mode", true, traffic(func(t record.Traffic) string { return t.Mode })},
		{"rate", true, traffic(func(t record.Traffic) string { return figure.Trimmed(t.Rate) })},
		{"users", true, traffic(func(t record.Traffic) string { return strconv.Itoa(t.Users) })},
		{"Pods ended", true, ended},
		{"Kubernetes", true, func(r record.Record) string { return cmp.Or(r.Environment.Kubernetes, notKnown) }},
		{"proxy mode", true, func(r record.Record) string {
			if m := r.Environment.ProxyMode; m != nil {
				return *m
			}
			return notKnown
		}},
		{"workload", false, workloadName},
		{"replicas", false, workload(func(w record.Workload) string { return strconv.Itoa(w.Replicas) })},
		{"strategy", false, workload(func(w record.Workload) string { return cmp.Or(w.Strategy, none) })},
		{"maxUnavailable", false, workload(func(w record.Workload) string { return cmp.Or(w.MaxUnavailable, none) })},
		{"maxSurge", false, workload(func(w record.Workload) string { return cmp.Or(w.MaxSurge, none) })},
		{"grace", false, workload(func(w record.Workload) string { return figure.Setting(w.GraceNs) })},
		{"preStop", false, workload(func(w record.Workload) string { return cmp.Or(w.PreStop, none) })},
		{"readiness probe", false, workload(func(w record.Workload) string { return yesNo(w.ReadinessProbe) })},
		{"disruption budgets", false, workload(func(w record.Workload) string { return cmp.Or(strings.Join(w.Budgets, ", "), none) })},
		{"service", false, workload(func(w record.Workload) string { return cmp.Or(w.Service, none) })},
		{"images", false, workload(func(w record.Workload) string { return cmp.Or(strings.Join(w.Images, ", "), none) })},
		{"method", false, traffic(func(t record.Traffic) string { return cmp.Or(t.Method, none) })},
		{"time before", false, traffic(func(t record.Traffic) string { return figure.Setting(t.BeforeNs) })},
		{"time after", false, traffic(func(t record.Traffic) string { return figure.Setting(t.AfterNs) })},
		{"drainproof", false, func(r record.Record) string { return r.Tool.Version }},
	}
}

func traffic(of func(record.Traffic) string) func(record.Record) string {
	return func(r record.Record) string {
		if r.Config.Traffic == nil {
			return notKnown
		}
		return of(*r.Config.Traffic)
	}
}

func workload(of func(record.Workload) string) func(record.Record) string {
	return func(r record.Record) string {
		if r.Workload == nil {
			return notKnown
		}
		return of(*r.Workload)
	}
}

// workloadName leaves out a namespace that was made for the one trial.
func workloadName(r record.Record) string {
	return workload(func(w record.Workload) string {
		if w.Namespace == "drainproof-"+r.ID {
			return w.Kind + " " + w.Name
		}
		return w.Kind + " " + w.Namespace + "/" + w.Name
	})(r)
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// ended says how many Pods the trigger takes.
func ended(r record.Record) string {
	if r.Config.Traffic == nil {
		return notKnown
	}
	n := r.Config.Traffic.TriggerCount
	switch {
	case r.Config.Trigger == "none":
		return none
	case r.Config.Trigger == "rollout", r.Config.Trigger == "scale" && n == 0:
		return "all"
	case r.Config.Trigger == "drain":
		return "those of a node"
	case n == 0:
		return "1"
	default:
		return strconv.Itoa(n)
	}
}
