package release

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trial"
	"github.com/drainproof/drainproof/internal/trigger"
)

// probeArgs is the bundled workload's command line, after the image's entrypoint.
func probeArgs(c record.Config) []string {
	return append(trial.ProbeArgs(c), fmt.Sprintf("--announce=%t", c.Probe.Announce), "--start-delay="+time.Duration(c.Probe.StartDelayNs).String(), fmt.Sprintf("--health=:%d", probe.PortHealth))
}

// extendProbe adds what experiments with requests ask for.
func extendProbe(s *kube.ProbeSpec, c record.Config) {
	p := c.Probe
	s.Replicas, s.Strategy, s.MaxUnavailable, s.MaxSurge = p.Replicas, p.Strategy, p.MaxUnavailable, p.MaxSurge
	s.BudgetMinAvailable = p.BudgetMinAvailable
	s.StartDelay, s.NoReadiness, s.PortHealth, s.Spread = time.Duration(p.StartDelayNs), p.NoReadinessProbe, probe.PortHealth, p.Replicas > 1
	// One node is drained: what a drain does to a service shows where all of it runs there.
	s.Together = c.Trigger == string(trigger.Drain)
	if p.DrainHookNs >= 0 {
		s.DrainHook = new(time.Duration(p.DrainHookNs))
	}
}

// kill has the killer's Pod send SIGKILL to the container's first process, and records when.
func (r *running) kill(ctx context.Context, killer kube.PodRef, containerID string) error {
	var out, errOut bytes.Buffer
	_, id, ok := strings.Cut(containerID, "://")
	if !ok {
		id = containerID
	}
	if err := r.deps.API.Exec(ctx, r.namespace, killer.Name, []string{"/drainproof", "kill-container", id}, strings.NewReader(""), &out, &errOut); err != nil {
		return fmt.Errorf("%w (%s)", err, strings.TrimSpace(errOut.String()))
	}
	// It answers with the process and when it was ended, on the node's clock.
	fields := strings.Fields(out.String())
	if len(fields) == 2 && r.sameKernel(killer.Node) {
		if at, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			r.journal.HarnessAt(at, record.ProcessKilled, "container/"+containerID, map[string]any{"host_pid": fields[0], "node": killer.Node})
		}
	}
	return nil
}
