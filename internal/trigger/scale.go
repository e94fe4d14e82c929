package trigger

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drainproof/drainproof/internal/fault"
)

// scaling scales the Deployment to zero, as `kubectl scale --replicas=0` does.
type scaling struct {
	client kubernetes.Interface
	target Target
	before int32

	mu sync.Mutex
	// sent is set before the request leaves: an answer that was lost may still have been obeyed.
	sent bool
}

func newScaling(ctx context.Context, client kubernetes.Interface, t Target) (*scaling, error) {
	scale, err := client.AppsV1().Deployments(t.Namespace).GetScale(ctx, t.Deployment, metav1.GetOptions{})
	if err != nil {
		return nil, fault.Measuref(err, "check the name, and the right to get deployments/scale",
			"reading the scale of deployment %s/%s", t.Namespace, t.Deployment)
	}
	if scale.Spec.Replicas == 0 {
		return nil, fault.Measuref(nil, "scale it up first", "deployment %s/%s has no replicas to take away", t.Namespace, t.Deployment)
	}
	return &scaling{client: client, target: t, before: scale.Spec.Replicas}, nil
}

func (*scaling) Kind() Kind        { return Scale }
func (s *scaling) Subject() string { return "deployment/" + s.target.Deployment }

// Fire sets zero replicas. The API knows no UID precondition for a scale.
func (s *scaling) Fire(ctx context.Context) error {
	s.mu.Lock()
	s.sent = true
	s.mu.Unlock()
	return s.set(ctx, 0)
}

// Undo sets the replicas of before, unless somebody has scaled the Deployment
// since, or it is gone.
func (s *scaling) Undo(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sent {
		return nil
	}
	now, err := s.client.AppsV1().Deployments(s.target.Namespace).GetScale(ctx, s.target.Deployment, metav1.GetOptions{})
	if err == nil && now.Spec.Replicas == 0 {
		err = s.set(ctx, s.before)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fault.Measuref(err,
			fmt.Sprintf("kubectl scale -n %s deployment/%s --replicas=%d", s.target.Namespace, s.target.Deployment, s.before),
			"putting back the scale of deployment %s/%s", s.target.Namespace, s.target.Deployment)
	}
	s.sent = false
	return nil
}

func (s *scaling) set(ctx context.Context, replicas int32) error {
	err := s.client.AppsV1().RESTClient().Patch(types.MergePatchType).
		Namespace(s.target.Namespace).Resource("deployments").Name(s.target.Deployment).SubResource("scale").
		Body([]byte(`{"spec":{"replicas":` + strconv.Itoa(int(replicas)) + `}}`)).
		MaxRetries(0).Do(ctx).Error()
	return explain(err, "scaling deployment", s.target.Namespace+"/"+s.target.Deployment)
}
