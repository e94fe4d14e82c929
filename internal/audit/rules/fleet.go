package rules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// everyContainer is all containers that run beside each other in a Pod.
func everyContainer(w *model.Workload) []*model.Container {
	if len(w.Pod.Sidecars) == 0 {
		return w.Pod.Containers
	}
	return slices.Concat(w.Pod.Containers, w.Pod.Sidecars)
}

// carries says that clients reach the workload and that it means to run: a Job counts only
// where a Service selects it, and nothing counts that is scaled to zero for good.
func carries(w *model.Workload) bool {
	if !w.ReceivesTraffic() {
		return false
	}
	switch w.Object.Kind {
	case "Job", "CronJob":
		return len(w.Services) > 0
	case "DaemonSet", "Pod":
		return true
	}
	return w.Replicas.N > 0 || len(w.HPAs) > 0
}

// isJob says that the workload's Pods run to an end.
func isJob(w *model.Workload) bool { return w.Object.Kind == "Job" || w.Object.Kind == "CronJob" }

// onlyHeadless says that every Service of the workload is headless and nothing stands before them:
// clients find the Pods by DNS, each by its own rules.
func onlyHeadless(w *model.Workload) bool {
	for _, s := range w.Services {
		if !s.Headless || len(s.Fronts) > 0 {
			return false
		}
	}
	return len(w.Services) > 0 && len(w.Fronts) == 0
}

// hostPorts are the ports that a Pod takes on its node. With the host's network each
// declared port is one: the API server fills hostPort in.
func hostPorts(w *model.Workload) []int64 {
	var ports []int64
	for _, k := range everyContainer(w) {
		for _, p := range k.Ports {
			switch {
			case p.HostPort > 0:
				ports = append(ports, p.HostPort)
			case w.Pod.HostNetwork:
				ports = append(ports, p.Number)
			}
		}
	}
	return ports
}

// fleet is the least number of Pods that a workload keeps.
type fleet struct {
	n    int64
	fact finding.Fact
	// at is the field that says so.
	at *Place
	// scaler is set where an autoscaler decides.
	scaler *model.HPA
}

// leastPods gives the least number of Pods that a workload keeps; not known for a DaemonSet,
// whose nodes decide, and for Jobs.
func leastPods(w *model.Workload) (f fleet, known bool) {
	switch w.Object.Kind {
	case "DaemonSet", "Job", "CronJob":
		return fleet{}, false
	case "Pod":
		return fleet{n: 1, fact: finding.Fact{Name: "replicas", Value: "1", From: "a bare Pod"}, at: At(w.Object, "spec")}, true
	}
	for i, h := range w.HPAs {
		if i > 0 && h.MinReplicas.N >= f.n {
			continue
		}
		field := scaleField(h)
		f = fleet{n: h.MinReplicas.N, at: At(h.Object, "spec."+field), scaler: h}
		f.fact = finding.Fact{Name: field, Value: strconv.FormatInt(f.n, 10), From: h.Object.Kind + " " + h.Object.Name + ": " + scalerOrigin(h, h.MinReplicas, "spec."+field)}
	}
	if f.scaler == nil {
		f = fleet{n: w.Replicas.N, at: At(w.Object, "spec.replicas"), fact: countFact("replicas", w.Replicas, "spec.replicas")}
	}
	return f, true
}

// written shows an IntOrPercent as it stands in a manifest.
func written(v model.IntOrPercent) string {
	if v.Percent {
		return strconv.FormatInt(v.N, 10) + "%"
	}
	return strconv.FormatInt(v.N, 10)
}

// shareFact is a maxSurge or the like with its origin.
func shareFact(name string, v model.IntOrPercent, path string) finding.Fact {
	f := finding.Fact{Name: name, Value: written(v), From: path}
	if !v.Set {
		f.From = byDefault
	}
	return f
}

// namesOf lists Services for a sentence: "Service a", "Services a and b".
func namesOf(services []*model.Service) string {
	var names []string
	seen := make(map[string]bool, len(services))
	for _, s := range services {
		if name := s.Object.Name; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return "Service " + names[0]
	}
	return "Services " + inWords(names)
}

// inWords joins names as a sentence does.
func inWords(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// askTest names the test that settles what a termination of the workload costs, as the subject of a sentence.
func askTest(w *model.Workload, trigger string) string {
	kind, ok := map[string]string{"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "Pod": "pod"}[w.Object.Kind]
	if !ok {
		return "A test under traffic (a " + trigger + " of " + strings.ToLower(w.Object.Kind) + "/" + w.Object.Name + ")"
	}
	test := "drainproof test " + kind + "/" + w.Object.Name
	if w.Object.Namespace != "" {
		test += " -n " + w.Object.Namespace
	}
	switch {
	case kind == "pod":
		test += " --trigger delete"
	case trigger == "scale":
		test += " --trigger scale --count 1"
	case trigger != "rollout":
		test += " --trigger " + trigger
	}
	return "`" + test + "`"
}

// askTell is askTest as a sentence.
func askTell(w *model.Workload, trigger string) string {
	return askTest(w, trigger) + " tells."
}
