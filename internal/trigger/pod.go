package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drainproof/drainproof/internal/fault"
)

// deletion deletes the Pod with its own grace period, as `kubectl delete pod` does.
type deletion struct {
	client kubernetes.Interface
	target Target
}

func (*deletion) Kind() Kind        { return Delete }
func (d *deletion) Subject() string { return "pod/" + d.target.Pod }

// Fire goes through the REST client: the typed one would quietly repeat a
// request that the server asked to send later, long after the trial's zero.
func (d *deletion) Fire(ctx context.Context) error {
	err := d.client.CoreV1().RESTClient().Delete().
		Namespace(d.target.Namespace).Resource("pods").Name(d.target.Pod).
		Body(&metav1.DeleteOptions{Preconditions: onlyUID(d.target.PodUID)}).
		MaxRetries(0).Do(ctx).Error()
	return explain(err, "deleting pod", d.target.Namespace+"/"+d.target.Pod)
}

// Undo has nothing to put back: the Deployment has made a replacement.
func (*deletion) Undo(context.Context) error { return nil }

// eviction asks the eviction API, as `kubectl drain` does, which honours PodDisruptionBudgets.
type eviction struct {
	client kubernetes.Interface
	target Target
}

func (*eviction) Kind() Kind        { return Evict }
func (e *eviction) Subject() string { return "pod/" + e.target.Pod }

// Fire is one request, for the same reason as deletion's.
func (e *eviction) Fire(ctx context.Context) error {
	err := e.client.CoreV1().RESTClient().Post().
		Namespace(e.target.Namespace).Resource("pods").Name(e.target.Pod).SubResource("eviction").
		Body(&policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Name: e.target.Pod, Namespace: e.target.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: onlyUID(e.target.PodUID)},
		}).
		MaxRetries(0).Do(ctx).Error()
	return explain(err, "evicting pod", e.target.Namespace+"/"+e.target.Pod)
}

// Undo has nothing to put back, as with deletion.
func (*eviction) Undo(context.Context) error { return nil }

func onlyUID(uid string) *metav1.Preconditions {
	if uid == "" {
		return nil
	}
	u := types.UID(uid)
	return &metav1.Preconditions{UID: &u}
}

// explain turns the API server's refusal into a fault that a person can act on.
func explain(err error, doing, object string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s %s: %w", doing, object, err)
	case apierrors.IsTooManyRequests(err):
		if budget := budgetOf(err); budget != "" {
			return fault.Measuref(err, "raise the workload's replicas or relax the budget, or choose another trigger",
				"%s %s is blocked by a PodDisruptionBudget (%s)", doing, object, budget)
		}
		return fault.Measuref(err, "try again when the API server is less busy", "%s %s was put off by the API server", doing, object)
	case apierrors.IsNotFound(err):
		return fault.Measuref(err, "something else ended it before the trigger; run the trial again", "%s %s: it is gone already", doing, object)
	case apierrors.IsConflict(err):
		return fault.Measuref(err, "something else replaced it before the trigger; run the trial again",
			"%s %s: another object has this name now", doing, object)
	case apierrors.IsForbidden(err):
		return fault.Measuref(err, "grant the right; docs/permissions.md lists them", "%s %s is forbidden", doing, object)
	default:
		return fault.Measuref(err, "check that the API server answers, then run the trial again", "%s %s", doing, object)
	}
}

// budgetOf gives the API server's sentence about the budget that blocks an
// eviction, which names the budget; "" when it was refused for another reason.
func budgetOf(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Details == nil {
		return ""
	}
	var said []string
	for _, c := range status.Status().Details.Causes {
		if c.Type == policyv1.DisruptionBudgetCause {
			said = append(said, c.Message)
		}
	}
	return strings.Join(said, "; ")
}
