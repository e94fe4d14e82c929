package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

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
	case apierrors.IsConflict(err), isOtherUID(err):
		return fault.Measuref(err, "something else replaced it before the trigger; run the trial again",
			"%s %s: another object has this name now", doing, object)
	case apierrors.IsForbidden(err):
		return fault.Measuref(err, "grant the right; docs/permissions.md lists them", "%s %s is forbidden", doing, object)
	default:
		return fault.Measuref(err, "check that the API server answers, then run the trial again", "%s %s", doing, object)
	}
}

// isOtherUID reports whether a patch was refused because it names the UID of another object: the API
// server takes a UID in a patch for an attempt to change it, which is invalid.
func isOtherUID(err error) bool {
	return slices.ContainsFunc(causesOf(err), func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// budgetOf gives the API server's sentence about the budget that blocks an
// eviction, which names the budget; "" when it was refused for another reason.
func budgetOf(err error) string {
	var said []string
	for _, c := range causesOf(err) {
		if c.Type == policyv1.DisruptionBudgetCause {
			said = append(said, c.Message)
		}
	}
	return strings.Join(said, "; ")
}

func causesOf(err error) []metav1.StatusCause {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}
