package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// This file holds what the rules about ways to a workload share: its hook and its grace
// period as facts, and numbers out of the annotations of load balancers.

// holdFact says how long the preStop hook keeps the server from being stopped.
func holdFact(c *Context, w *model.Workload) finding.Fact {
	s := c.Sum(w)
	if !s.HookKnown {
		return finding.Fact{Name: "preStop hook", Value: "not known", From: hookPath(w)}
	}
	for _, k := range w.Serving() {
		if took, known := budget.HookOf(k); known && took == s.Hook && k.PreStop != nil {
			return finding.Fact{Name: "preStop hook", Value: spell(s.Hook), From: k.PreStop.At}
		}
	}
	return finding.Fact{Name: "preStop hook", Value: spell(s.Hook), From: "no lifecycle.preStop in the serving container"}
}

// holds is the hook in a sentence about the Pod.
func holds(s budget.Sum) string {
	if s.HookKnown && s.Hook == 0 {
		return "no preStop hook holds it"
	}
	return "its preStop hook holds it for " + spell(s.Hook)
}

// periodFact is the grace period with its origin.
func periodFact(w *model.Workload) finding.Fact {
	return secondsFact("grace period", w.Pod.Grace, w.SpecPath()+".terminationGracePeriodSeconds")
}

// drainFact is what the application takes after SIGTERM, where it is known.
func drainFact(s budget.Sum) finding.Fact {
	return finding.Fact{Name: "drain of the application", Value: spell(s.Drain.Took), From: s.Drain.From}
}

// floorOf gives the floor of one path of a workload.
func floorOf(s budget.Sum, path, variant string) (budget.Floor, bool) {
	for _, f := range s.All {
		if f.Path == path && f.Variant == variant {
			return f, true
		}
	}
	return budget.Floor{}, false
}

// dial is a number that an annotation sets, or a default.
type dial struct {
	n    int64
	from string
}

func (d dial) seconds() time.Duration { return time.Duration(d.n) * time.Second }

// annotated reads a whole number, with or without "s" behind it, from the first annotation
// that has one; else it is the default, whose origin is given.
func annotated(annotations map[string]string, standard int64, origin string, keys ...string) dial {
	for _, key := range keys {
		text := strings.TrimSuffix(strings.TrimSpace(annotations[key]), "s")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			return dial{n, budget.AnnotationPath(key)}
		}
	}
	return dial{standard, origin}
}

// attribute reads one of the attributes of an annotation like
// "deregistration_delay.timeout_seconds=30,stickiness.enabled=true".
func attribute(text, name string) (string, bool) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// envPlace is where a variable of a container is set.
func envPlace(w *model.Workload, k *model.Container, name string) *Place {
	at := k.Path + ".env"
	for i, item := range w.PodObject.Find(at).Items() {
		if item.At("name").Text() == name {
			return At(w.PodObject, fmt.Sprintf("%s[%d]", at, i))
		}
	}
	return At(w.PodObject, at)
}

// linePlace is where a container's command line is written: the element that holds the word, if
// one does.
func linePlace(w *model.Workload, k *model.Container, word string) *Place {
	for _, part := range []struct {
		name     string
		elements []string
	}{{"args", k.Args}, {"command", k.Command}} {
		for i, element := range part.elements {
			for _, have := range cmdline.Words(element) {
				if have == word || strings.HasPrefix(have, word+"=") {
					return At(w.PodObject, fmt.Sprintf("%s.%s[%d]", k.Path, part.name, i))
				}
			}
		}
	}
	return At(w.PodObject, k.Path)
}

// meshed says that a sidecar proxy of a mesh carries the Pod's traffic, so that what is said
// of plain connections does not hold.
func meshed(w *model.Workload) bool {
	for _, k := range everyContainer(w) {
		switch k.Name {
		case "istio-proxy", "linkerd-proxy", "kuma-sidecar", "consul-dataplane":
			return true
		}
	}
	for _, m := range []struct{ key, value string }{
		{"sidecar.istio.io/inject", "true"}, {"linkerd.io/inject", "enabled"}, {"kuma.io/sidecar-injection", "enabled"},
		{"consul.hashicorp.com/connect-inject", "true"},
	} {
		if w.Annotations[m.key] == m.value || w.Labels[m.key] == m.value {
			return true
		}
	}
	return false
}
