package trigger

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drainproof/drainproof/internal/fault"
)

// scaling sets the replicas of a Deployment or StatefulSet, as `kubectl scale` does.
type scaling struct {
	client     kubernetes.Interface
	ref        ref
	before, to int32

	mu sync.Mutex
	// sent is set before the request leaves: an answer that was lost may still have been obeyed.
	sent bool
}

// newScaling scales the probe's Deployment to zero, and a workload to Target.Replicas.
func newScaling(ctx context.Context, client kubernetes.Interface, t Target) (*scaling, error) {
	s := &scaling{client: client, ref: t.workload()}
	if s.ref.kind != "deployment" && s.ref.kind != "statefulset" {
		return nil, fault.Usagef("choose another trigger: delete, evict, drain", "%s cannot be scaled: only a Deployment or a StatefulSet has replicas", s.ref.object())
	}
	if t.Replicas < 0 {
		return nil, fault.Usagef("give the number of replicas to scale to, 0 or more", "%d replicas are none", t.Replicas)
	}
	if t.Deployment == "" {
		s.to = int32(t.Replicas)
	}
	var err error
	if s.before, err = s.get(ctx); err != nil {
		return nil, fault.Measuref(err, "check the name, and the right to get "+s.ref.resource+"/scale", "reading the scale of %s", s.ref.object())
	}
	switch {
	case s.before == 0 && s.to == 0:
		return nil, fault.Measuref(nil, "scale it up first", "%s has no replicas to take away", s.ref.object())
	case s.before == s.to:
		return nil, fault.Usagef("scale to another number", "%s has %d replicas already: scaling it to as many would change nothing", s.ref.object(), s.to)
	}
	return s, nil
}

func (*scaling) Kind() Kind        { return Scale }
func (s *scaling) Subject() string { return s.ref.String() }

// Fire sets the replicas. The API knows no UID precondition for a scale.
func (s *scaling) Fire(ctx context.Context) error {
	s.mu.Lock()
	s.sent = true
	s.mu.Unlock()
	return s.set(ctx, s.to)
}

// Undo sets the replicas of before, unless somebody has scaled the workload
// since, or it is gone.
func (s *scaling) Undo(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sent {
		return nil
	}
	now, err := s.get(ctx)
	if err == nil && now == s.to {
		err = s.set(ctx, s.before)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fault.Measuref(err, fmt.Sprintf("kubectl scale -n %s %s --replicas=%d", s.ref.namespace, s.ref, s.before), "putting back the scale of %s", s.ref.object())
	}
	s.sent = false
	return nil
}

func (s *scaling) get(ctx context.Context) (int32, error) {
	var scale autoscalingv1.Scale
	err := s.client.AppsV1().RESTClient().Get().
		Namespace(s.ref.namespace).Resource(s.ref.resource).Name(s.ref.name).SubResource("scale").
		Do(ctx).Into(&scale)
	return scale.Spec.Replicas, err
}

func (s *scaling) set(ctx context.Context, replicas int32) error {
	err := s.client.AppsV1().RESTClient().Patch(types.MergePatchType).
		Namespace(s.ref.namespace).Resource(s.ref.resource).Name(s.ref.name).SubResource("scale").
		Body([]byte(`{"spec":{"replicas":` + strconv.Itoa(int(replicas)) + `}}`)).
		MaxRetries(0).Do(ctx).Error()
	return explain(err, "scaling", s.ref.object())
}
