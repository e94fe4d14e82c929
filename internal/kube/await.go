package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drainproof/drainproof/internal/fault"
)

// Await waits for a condition; gone are UIDs of the Pods that the trigger ended (for Gone; Ready and RolledOut wait for
// them too). Its error says what is still missing when ctx ends, in the words of the controller where it gives some.
// A rollout that its controller has given up on is not waited for any longer.
func (c *Cluster) Await(ctx context.Context, w *Workload, condition Condition, gone []string) error {
	if condition == Nothing {
		return nil
	}
	k, err := c.workloadKind(w.Kind)
	if err != nil {
		return err
	}
	if condition == RolledOut && k.kind == kindPod {
		return fault.Usagef("wait for ready or gone", "%s has no rollout to wait for", w.Ref)
	}
	missing := "its state was not read in time"
	for {
		now, err := c.look(ctx, k, w.Ref, condition, gone)
		switch {
		case err == nil && now == "":
			return nil
		case err == nil:
			missing = now
		case ctx.Err() == nil && (fault.CodeOf(err) != fault.Unmeasurable || hopeless(err)):
			return err
		case ctx.Err() == nil:
			missing = err.Error() // the API server may be back in time
		}
		if !sleep(ctx, pollEvery) {
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return fmt.Errorf("waiting for %s: %w", w.Ref, cause)
			}
			return fault.Measuref(nil, "allow it more time, or look at it with `kubectl describe`", "%s is not %s in time: %s", w.Ref, inWords(condition), missing)
		}
	}
}

// errGaveUp is a rollout that its controller no longer expects to finish.
var errGaveUp = errors.New("its controller gave up")

func hopeless(err error) bool {
	return errors.Is(err, errGaveUp) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

func inWords(c Condition) string {
	switch c {
	case RolledOut:
		return "rolled out"
	case Gone:
		return "rid of its ended Pods"
	default:
		return "ready"
	}
}

// look says what is missing, or nothing.
func (c *Cluster) look(ctx context.Context, k workloadKind, r Ref, condition Condition, gone []string) (string, error) {
	s, err := k.get(ctx, r.Namespace, r.Name)
	if apierrors.IsNotFound(err) {
		if condition == Gone {
			return "", nil
		}
		return fmt.Sprintf("there is no %s %q", k.singular(), r.Name), nil
	}
	if err != nil {
		return "", asking(ctx, err, "reading %s", r)
	}
	pods, err := c.pods(ctx, r, s)
	if err != nil {
		return "", err
	}
	left := stillThere(pods, gone)
	if condition == Gone {
		return left, nil
	}
	// What keeps the controller from going on comes first: the Pods that it would end next wait for that.
	missing := s.progress.Missing
	if condition == Ready {
		missing = notReady(s.wanted, pods)
	}
	if missing == "" {
		return left, nil
	}
	missing = strings.Join(append([]string{missing}, whyNot(s, pods)...), "; ")
	if condition == RolledOut && s.progress.GaveUp != "" {
		return "", fault.Measuref(fmt.Errorf("%w: %s", errGaveUp, s.progress.GaveUp), "mend what the message names; `kubectl rollout undo` goes back", "%s did not roll out: %s", r, missing)
	}
	return missing, nil
}

// stillThere names the Pods that were ended and are not gone.
func stillThere(pods []*corev1.Pod, gone []string) string {
	var left []string
	for _, p := range pods {
		switch {
		case !slices.Contains(gone, string(p.UID)):
		case p.DeletionTimestamp != nil:
			left = append(left, "pod "+p.Name+" is still terminating")
		default:
			left = append(left, "pod "+p.Name+" is not deleted yet")
		}
	}
	return strings.Join(left, ", ")
}

// notReady compares what is wanted with what is ready.
func notReady(wanted int, pods []*corev1.Pod) string {
	ready := 0
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			return "pod " + p.Name + " is still terminating"
		}
		if isReady(p) {
			ready++
		}
	}
	switch {
	case len(pods) > wanted:
		return fmt.Sprintf("there are %d Pods, and %d are wanted", len(pods), wanted)
	case ready < wanted:
		return fmt.Sprintf("%d of %d Pods are ready", ready, wanted)
	default:
		return ""
	}
}

// whyNot says what Kubernetes says of each Pod that is not ready, and of Pods that could not be made.
func whyNot(s *standing, pods []*corev1.Pod) []string {
	var why []string
	if s.refused.obstacle != noObstacle {
		why = append(why, s.refused.reason+": "+s.refused.message)
	}
	for _, p := range pods {
		if p.DeletionTimestamp == nil && !isReady(p) {
			why = append(why, "pod "+p.Name+": "+whyNotReady(p))
		}
	}
	return why
}

func whyNotReady(p *corev1.Pod) string {
	if d := diagnosePod(p); d.obstacle != noObstacle {
		return strings.TrimRight(d.reason+": "+strings.TrimSpace(d.message), ": ")
	}
	for _, s := range statuses(p) {
		if w := s.State.Waiting; w != nil {
			return strings.TrimRight("container "+s.Name+": "+w.Reason+": "+w.Message, ": ")
		}
	}
	if c := readyCondition(p); c.Message != "" {
		return c.Message
	}
	return cmp.Or(readyCondition(p).Reason, "phase "+string(p.Status.Phase))
}
