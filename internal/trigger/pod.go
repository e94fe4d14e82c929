package trigger

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ending ends Pods by their names: Fire the first, Finish the others at once after it.
//
//   - delete: with the Pod's own grace period, as `kubectl delete pod` does
//   - force-delete: without any, as `kubectl delete pod --force --grace-period=0` does
//   - evict: by the eviction API, as `kubectl drain` does, which honours PodDisruptionBudgets
type ending struct {
	kind   Kind
	client kubernetes.Interface
	target Target
	pods   []PodID
	bare   *bare
}

func newEnding(ctx context.Context, kind Kind, client kubernetes.Interface, t Target) (*ending, error) {
	pods, err := t.victims()
	if err != nil {
		return nil, err
	}
	b, err := readBare(ctx, client, t)
	if err != nil {
		return nil, err
	}
	return &ending{kind: kind, client: client, target: t, pods: pods, bare: b}, nil
}

func (e *ending) Kind() Kind { return e.kind }

// Subject is the first Pod: the one that Fire ends.
func (e *ending) Subject() string { return "pod/" + e.pods[0].Name }

// Fire goes through the REST client: the typed one would quietly repeat a
// request that the server asked to send later, long after the trial's zero.
func (e *ending) Fire(ctx context.Context) error {
	e.bare.ended()
	return e.end(ctx, e.pods[0])
}

// Finish ends the Pods after the first, each by one request. It stops at the first that is refused.
func (e *ending) Finish(ctx context.Context) error {
	for _, p := range e.pods[1:] {
		if err := e.end(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Undo makes a bare Pod again; any other has been replaced by its controller.
func (e *ending) Undo(ctx context.Context) error { return e.bare.putBack(ctx) }

func (e *ending) end(ctx context.Context, p PodID) error {
	core := e.client.CoreV1().RESTClient()
	doing := "deleting pod"
	var req *rest.Request
	switch e.kind {
	case Evict:
		doing = "evicting pod"
		req = core.Post().SubResource("eviction").Body(&policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: e.target.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: onlyUID(p.UID)},
		})
	case ForceDelete:
		req = core.Delete().Body(&metav1.DeleteOptions{Preconditions: onlyUID(p.UID), GracePeriodSeconds: new(int64(0))})
	default:
		req = core.Delete().Body(&metav1.DeleteOptions{Preconditions: onlyUID(p.UID)})
	}
	err := req.Namespace(e.target.Namespace).Resource("pods").Name(p.Name).MaxRetries(0).Do(ctx).Error()
	return explain(err, doing, e.target.Namespace+"/"+p.Name)
}

func onlyUID(uid string) *metav1.Preconditions {
	if uid == "" {
		return nil
	}
	u := types.UID(uid)
	return &metav1.Preconditions{UID: &u}
}
