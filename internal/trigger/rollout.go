package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/rollout"
)

// restartedAt is the annotation of the Pod template that `kubectl rollout restart` sets.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// restart makes a new revision that differs in an annotation only, as `kubectl rollout restart` does.
type restart struct {
	client kubernetes.Interface
	ref    ref
	was    revision

	mu sync.Mutex
	// wrote is the annotation that Fire set; empty before it.
	wrote string
}

// revision is a workload as far as a restart is concerned.
type revision struct {
	uid types.UID
	// annotations are those of the Pod template.
	annotations map[string]string
	progress    rollout.Progress
	// unfit says why a restart would do nothing; empty where it would.
	unfit string
}

func newRestart(ctx context.Context, client kubernetes.Interface, t Target) (*restart, error) {
	r := &restart{client: client, ref: t.workload()}
	if r.ref.kind != "deployment" && r.ref.kind != "statefulset" && r.ref.kind != "daemonset" {
		return nil, fault.Usagef("choose another trigger: delete, evict, drain", "%s cannot be rolled out: only a Deployment, a StatefulSet or a DaemonSet can", r.ref.object())
	}
	var err error
	if r.was, err = r.read(ctx); err != nil {
		return nil, explain(err, "reading", r.ref.object())
	}
	if r.was.unfit != "" {
		return nil, fault.Measuref(nil, "mend that first, or choose another trigger", "a restart of %s would end no Pod: %s", r.ref.object(), r.was.unfit)
	}
	return r, nil
}

func (*restart) Kind() Kind        { return Rollout }
func (r *restart) Subject() string { return r.ref.String() }

// Fire is one patch. The UID in it keeps it from another workload of the same name.
func (r *restart) Fire(ctx context.Context) error {
	// kubectl writes whole seconds; with a fraction, two restarts within one second are two.
	stamp := time.Now().UTC().Format(time.RFC3339Nano)
	r.mu.Lock()
	r.wrote = stamp
	r.mu.Unlock()
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.was.uid},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{restartedAt: stamp}}}},
	})
	if err != nil {
		return fmt.Errorf("writing the restart of %s: %w", r.ref.object(), err)
	}
	return r.patch(ctx, types.MergePatchType, body, "restarting")
}

// Undo leaves a rollout alone that is complete: taking the annotation away again would be another one. One
// that is not goes back to the revision of before, and Undo waits until that is complete.
func (r *restart) Undo(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrote == "" {
		return nil
	}
	now, err := r.read(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && (now.uid != r.was.uid || now.annotations[restartedAt] != r.wrote || now.progress.Done):
		r.wrote = ""
		return nil
	case err != nil:
		return r.stuck(err, "it cannot be read")
	}
	if err := r.back(ctx); err != nil {
		return r.stuck(err, now.progress.Missing)
	}
	for missing := ""; ; {
		now, err = r.read(ctx)
		if apierrors.IsNotFound(err) || err == nil && now.progress.Done {
			r.wrote = ""
			return nil
		}
		if err == nil {
			missing = now.progress.Missing
		}
		if !sleep(ctx, pollEvery) {
			return r.stuck(ctx.Err(), "the revision of before is set again, but not back in full: "+missing)
		}
	}
}

func (r *restart) stuck(err error, missing string) error {
	next := fmt.Sprintf("kubectl rollout status -n %s %s, then kubectl rollout undo", r.ref.namespace, r.ref)
	if r.ref.kind == "statefulset" {
		// https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback
		next += "; delete the Pod that hangs: a StatefulSet waits for it for ever"
	}
	return fault.Measuref(err, next, "putting back the rollout of %s: %s", r.ref.object(), missing)
}

// back sets the annotation of before, if it is still the one that Fire wrote.
func (r *restart) back(ctx context.Context) error {
	path := "/spec/template/metadata/annotations/" + strings.ReplaceAll(restartedAt, "/", "~1")
	op := map[string]any{"op": "remove", "path": path}
	if before, ok := r.was.annotations[restartedAt]; ok {
		op = map[string]any{"op": "replace", "path": path, "value": before}
	}
	body, err := json.Marshal([]map[string]any{{"op": "test", "path": path, "value": r.wrote}, op})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	return r.patch(ctx, types.JSONPatchType, body, "putting back the template of")
}

func (r *restart) patch(ctx context.Context, kind types.PatchType, body []byte, doing string) error {
	err := r.client.AppsV1().RESTClient().Patch(kind).
		Namespace(r.ref.namespace).Resource(r.ref.resource).Name(r.ref.name).Body(body).
		MaxRetries(0).Do(ctx).Error()
	return explain(err, doing, r.ref.object())
}

func (r *restart) read(ctx context.Context) (revision, error) {
	apps := r.client.AppsV1()
	switch r.ref.kind {
	case "deployment":
		d, err := apps.Deployments(r.ref.namespace).Get(ctx, r.ref.name, metav1.GetOptions{})
		if err != nil {
			return revision{}, err
		}
		unfit := ""
		if d.Spec.Paused {
			unfit = "its rollout is paused"
		}
		return revisionOf(d, d.Spec.Template, rollout.OfDeployment(d), unfit), nil
	case "statefulset":
		s, err := apps.StatefulSets(r.ref.namespace).Get(ctx, r.ref.name, metav1.GetOptions{})
		if err != nil {
			return revision{}, err
		}
		return revisionOf(s, s.Spec.Template, rollout.OfStatefulSet(s), cmp.Or(byHand(s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType), held(s))), nil
	default:
		d, err := apps.DaemonSets(r.ref.namespace).Get(ctx, r.ref.name, metav1.GetOptions{})
		if err != nil {
			return revision{}, err
		}
		return revisionOf(d, d.Spec.Template, rollout.OfDaemonSet(d), byHand(d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType)), nil
	}
}

func revisionOf(m metav1.Object, template corev1.PodTemplateSpec, p rollout.Progress, unfit string) revision {
	return revision{uid: m.GetUID(), annotations: template.Annotations, progress: p, unfit: unfit}
}

// held says that the partition of a StatefulSet keeps every Pod as it is.
func held(s *appsv1.StatefulSet) string {
	u, replicas := s.Spec.UpdateStrategy.RollingUpdate, int32(1)
	if s.Spec.Replicas != nil {
		replicas = *s.Spec.Replicas
	}
	if u == nil || u.Partition == nil || *u.Partition < replicas {
		return ""
	}
	return fmt.Sprintf("the partition of its update strategy is %d, and it has %d replicas", *u.Partition, replicas)
}

func byHand(onDelete bool) string {
	if onDelete {
		return "its update strategy is OnDelete"
	}
	return ""
}
