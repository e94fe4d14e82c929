package fix

import (
	"fmt"
	"slices"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// readiness gives containers that have no readiness probe the one that needs no knowledge
// of the application: a TCP connection to the port that it serves.
func (p *planner) readiness(w *model.Workload, fs []finding.Finding) []Change {
	var all []Change
	about := map[*model.Container][]finding.Finding{}
	for _, f := range fs {
		c := containerOf(w, f)
		if c == nil || c.Readiness != nil {
			all = append(all, p.skip(f, f.Remedy))
			continue
		}
		about[c] = append(about[c], f)
	}
	for _, c := range slices.Concat(w.Pod.Containers, w.Pod.Sidecars) {
		if about[c] == nil {
			continue
		}
		port, ok := servedPort(w, c)
		reason := peers(w)
		if !ok {
			reason = "no TCP port of the container is known, and nothing can ask a UDP port whether it serves: let an exec probe, or an HTTP check on another port, tell"
		}
		if reason != "" {
			for _, f := range about[c] {
				all = append(all, p.skip(f, reason))
			}
			continue
		}
		probe := mapping(field{"tcpSocket", mapping(field{"port", port})}, field{"periodSeconds", whole(period(c))})
		path := c.Path + ".readinessProbe"
		what := fmt.Sprintf("give container %s a readiness probe, a TCP connection to port %s; if it has an HTTP or gRPC health check, that knows more: put it in its place", c.Name, port.text)
		all = append(all, change(w.PodObject, path, what, about[c], edit{path: path, value: probe}))
	}
	return all
}

// peers says why a probe could do harm: a headless Service names ready Pods only, and Pods that look
// for each other through it before they listen would wait for ever.
func peers(w *model.Workload) string {
	for _, s := range w.Services {
		if s.Headless && !s.PublishNotReady {
			return fmt.Sprintf("headless Service %s selects the Pods too and names only ready ones: if they look for each other through it at their start, set publishNotReadyAddresses there; then add a readiness probe", s.Object.Name)
		}
	}
	return ""
}

// period is short, so that a new Pod serves soon after it listens, and so short that
// readiness fails before a liveness probe of the same kind has the container restarted.
func period(c *model.Container) int64 {
	n := int64(5)
	if l := c.Liveness; l != nil && l.How == "tcp" {
		for n > 1 && 3*n >= l.Period.N*l.Failure.N {
			n--
		}
	}
	return n
}

// servedPort is the first TCP port of a container that a Service targets, or else that
// it declares; by its name where it has one.
func servedPort(w *model.Workload, c *model.Container) (tree, bool) {
	for _, s := range w.Services {
		for _, t := range s.TargetsOf(w) {
			if t.Container == c && t.Port.Protocol == "TCP" {
				return portOf(t.Port), true
			}
		}
	}
	for _, port := range c.Ports {
		if port.Protocol == "TCP" {
			return portOf(port), true
		}
	}
	return tree{}, false
}

func portOf(p model.Port) tree {
	if p.Name != "" {
		return word(p.Name)
	}
	return whole(p.Number)
}
