package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	// AnnotationCordonedBy names the trial that cordoned a node.
	AnnotationCordonedBy = "drainproof.dev/cordoned-by"
	// LabelTrial is on every object that a trial made.
	LabelTrial = "drainproof.dev/trial"
	// LabelApp tells a trial's objects apart; AppWorker and AppKiller are its own Pods, which no drain may end.
	LabelApp  = "app.kubernetes.io/name"
	AppWorker = "worker"
	AppKiller = "killer"
	// evictAgain is how long kubectl waits before it asks again for an eviction that a budget did not allow.
	evictAgain = 5 * time.Second
	// askLast bounds the last questions, what blocks, that are asked when the time is up.
	askLast = 10 * time.Second
)

// draining cordons the node (Fire) and evicts what runs there (Finish), as
// `kubectl drain --ignore-daemonsets --delete-emptydir-data` does, by the same library.
type draining struct {
	client kubernetes.Interface
	target Target
	node   *corev1.Node
	bare   *bare
	again  time.Duration
}

// newDrain refuses what kubectl would refuse only after it has cordoned the node.
func newDrain(ctx context.Context, client kubernetes.Interface, t Target) (*draining, error) {
	if t.Node == "" || t.Trial == "" {
		return nil, fault.Usagef("", "a drain needs a node and a trial's id")
	}
	node, err := client.CoreV1().Nodes().Get(ctx, t.Node, metav1.GetOptions{})
	if err != nil {
		return nil, explain(err, "reading node", t.Node)
	}
	if by := node.Annotations[AnnotationCordonedBy]; by != "" && node.Spec.Unschedulable && by != t.Trial {
		return nil, fault.Measuref(nil, "wait for that trial to end, or run `drainproof cleanup` if it never will", "node %s is cordoned by trial %s", t.Node, by)
	}
	d := &draining{client: client, target: t, node: node, again: evictAgain}
	if d.bare, err = readBare(ctx, client, t); err != nil {
		return nil, err
	}
	_, err = d.pods(ctx)
	return d, err
}

func (*draining) Kind() Kind        { return Drain }
func (d *draining) Subject() string { return "node/" + d.target.Node }

// Fire cordons the node by one patch, which also says by whom; a node that others have cordoned stays theirs.
func (d *draining) Fire(ctx context.Context) error {
	meta := map[string]any{"uid": d.node.UID}
	if !d.node.Spec.Unschedulable {
		meta["annotations"] = map[string]any{AnnotationCordonedBy: d.target.Trial}
	}
	body, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"unschedulable": true}})
	if err != nil {
		return fmt.Errorf("writing the cordon of node %s: %w", d.target.Node, err)
	}
	err = d.client.CoreV1().RESTClient().Patch(types.MergePatchType).Resource("nodes").Name(d.target.Node).Body(body).MaxRetries(0).Do(ctx).Error()
	return explain(err, "cordoning node", d.target.Node)
}

// Finish evicts and waits until all evicted Pods are gone. Where budgets do not allow it, it asks again until ctx
// ends, at which it may return up to evictAgain late: the library sleeps that long between two attempts.
func (d *draining) Finish(ctx context.Context) error {
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	d.bare.ended()
	if err = d.helper(ctx).DeleteOrEvictPods(pods); err == nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLast)
	defer cancel()
	left := d.left(last, pods)
	if len(left) == 0 {
		return nil // the last one went as the time did
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fault.Measuref(err, "relax the budget or raise the replicas that it counts, or allow more time",
		"draining node %s is not finished: %s", d.target.Node, strings.Join(left, "; "))
}

// Undo uncordons the node, if this trial cordoned it, and makes a bare Pod again.
func (d *draining) Undo(ctx context.Context) error {
	err := d.uncordon(ctx)
	if err != nil {
		err = fault.Measuref(err, "kubectl uncordon "+d.target.Node, "node %s is not uncordoned", d.target.Node)
	}
	return errors.Join(err, d.bare.putBack(ctx))
}

func (d *draining) uncordon(ctx context.Context) error {
	node, err := d.client.CoreV1().Nodes().Get(ctx, d.target.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && node.Annotations[AnnotationCordonedBy] != d.target.Trial {
		return nil
	}
	if err != nil {
		return err
	}
	path := "/metadata/annotations/" + strings.ReplaceAll(AnnotationCordonedBy, "/", "~1")
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": path, "value": d.target.Trial},
		{"op": "remove", "path": path},
		{"op": "add", "path": "/spec/unschedulable", "value": false},
	})
	if err != nil {
		return err
	}
	_, err = d.client.CoreV1().Nodes().Patch(ctx, d.target.Node, types.JSONPatchType, body, metav1.PatchOptions{})
	return err
}

func (d *draining) helper(ctx context.Context) *drain.Helper {
	return &drain.Helper{
		Ctx: ctx, Client: d.client, Out: io.Discard, ErrOut: io.Discard,
		GracePeriodSeconds: -1, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, EvictErrorRetryDelay: d.again,
		// The library's filters come before ours: without Force they would already refuse a client's own Pod.
		Force: true, AdditionalFilters: []drain.PodFilter{d.filter},
	}
}

// pods lists what is to be evicted, or says what may not be.
func (d *draining) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, errs := d.helper(ctx).GetPodsForDeletion(d.target.Node)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("listing the Pods of node %s: %w", d.target.Node, context.Cause(ctx))
	case list == nil:
		return nil, explain(errs[0], "listing the Pods of node", d.target.Node)
	case len(errs) > 0:
		var why []string
		for _, err := range errs {
			why = append(why, err.Error())
		}
		slices.Sort(why)
		return nil, fault.Measuref(nil, "move them away or delete them first: nothing would make them again after a drain",
			"node %s cannot be drained: %s", d.target.Node, strings.Join(why, "; "))
	}
	return list.Pods(), nil
}

// filter spares the clients, and refuses what no controller makes again: kubectl does so without --force.
// The one such Pod that is evicted is the one under test, which Undo makes again.
func (d *draining) filter(p corev1.Pod) drain.PodDeleteStatus {
	owner := metav1.GetControllerOf(&p)
	switch {
	case p.Labels[LabelTrial] != "" && (p.Labels[LabelApp] == AppWorker || p.Labels[LabelApp] == AppKiller):
		return drain.MakePodDeleteStatusSkip()
	case p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		return drain.MakePodDeleteStatusOkay()
	case owner == nil && (d.bare == nil || p.UID != d.bare.was.UID):
		return drain.MakePodDeleteStatusWithError("Pods that declare no controller")
	case owner != nil && owner.Kind == "DaemonSet": // those of a DaemonSet that exists do not come this far
		return drain.MakePodDeleteStatusWithError("Pods of a DaemonSet that is gone")
	default:
		return drain.MakePodDeleteStatusOkay()
	}
}

// left says of each Pod that is still there what keeps it.
func (d *draining) left(ctx context.Context, pods []corev1.Pod) []string {
	var left []string
	for _, p := range pods {
		now, err := d.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		name := "pod " + p.Namespace + "/" + p.Name
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != p.UID:
		case err != nil:
			left = append(left, name+" is in an unknown state ("+err.Error()+")")
		case now.DeletionTimestamp != nil:
			left = append(left, name+" is still terminating")
		default:
			left = append(left, name+" "+d.blockedBy(ctx, p))
		}
	}
	return left
}

// blockedBy asks for a dry run of the eviction: the server's refusal names the budget.
func (d *draining) blockedBy(ctx context.Context, p corev1.Pod) string {
	err := d.client.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: onlyUID(string(p.UID)), DryRun: []string{metav1.DryRunAll}},
		}).MaxRetries(0).Do(ctx).Error()
	switch budget := budgetOf(err); {
	case budget != "":
		return "is blocked by a PodDisruptionBudget (" + budget + ")"
	case err != nil:
		return "is not evicted (" + err.Error() + ")"
	default:
		return "was not evicted in time"
	}
}
