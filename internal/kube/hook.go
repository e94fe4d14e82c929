package kube

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// maxHook is longer than any grace period that makes sense: what is written beyond it is no duration to reckon with.
const maxHook = 1000 * time.Hour

// preStops describes the hooks of a Pod's containers, and how long they take: they run side by side, so the longest
// counts. took is nil where only a run would tell; that is so as soon as one of them does not say.
func preStops(spec corev1.PodSpec) (described string, took *int64) {
	var said []string
	longest, known := time.Duration(0), true
	for _, c := range serving(spec) {
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
			continue
		}
		how, d, ok := readHook(c.Lifecycle.PreStop)
		said = append(said, c.Name+": "+how)
		longest, known = max(longest, d), known && ok
	}
	if known {
		took = new(int64(longest))
	}
	return strings.Join(said, "; "), took
}

// serving are the containers that run as long as the Pod does: sidecars are init containers that are restarted always.
func serving(spec corev1.PodSpec) []corev1.Container {
	var all []corev1.Container
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return append(all, spec.Containers...)
}

// readHook describes one hook. Of a command only the program is told: its arguments may hold what a record must not.
func readHook(h *corev1.LifecycleHandler) (how string, took time.Duration, known bool) {
	switch {
	case h.Sleep != nil:
		took = time.Duration(h.Sleep.Seconds) * time.Second
		return "sleep " + took.String(), took, true
	case h.HTTPGet != nil:
		at, _, _ := strings.Cut(h.HTTPGet.Path, "?")
		return fmt.Sprintf("%s GET :%s%s", cmp.Or(string(h.HTTPGet.Scheme), "HTTP"), h.HTTPGet.Port.String(), at), 0, false
	case h.Exec != nil && len(h.Exec.Command) > 0:
		if took, ok := sleeps(h.Exec.Command); ok {
			return "sleep " + took.String(), took, true
		}
		return "exec " + h.Exec.Command[0], 0, false
	default:
		return "unknown", 0, false
	}
}

// sleeps reads a command that does nothing but sleep: sleep 5, /bin/sleep 5, sh -c "sleep 5". Anything else is not known.
func sleeps(command []string) (time.Duration, bool) {
	if len(command) == 3 && command[1] == "-c" {
		switch path.Base(command[0]) {
		case "sh", "bash", "ash", "dash":
			command = strings.Fields(command[2])
		}
	}
	if len(command) != 2 || path.Base(command[0]) != "sleep" {
		return 0, false
	}
	return sleepTime(command[1])
}

// sleepTime reads an argument of the sleep program: a number, in seconds where no unit of s, m, h or d follows it.
func sleepTime(s string) (time.Duration, bool) {
	unit := time.Second
	if n := len(s) - 1; n > 0 {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[n]]; ok {
			unit, s = u, s[:n]
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f*float64(unit) > float64(maxHook) {
		return 0, false
	}
	return time.Duration(f * float64(unit)), true
}
