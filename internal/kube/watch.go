package kube

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// reopenFirst and reopenMax space the attempts to open a broken watch again.
	reopenFirst = 50 * time.Millisecond
	reopenMax   = time.Second
	// watchFor is longer than a trial: a watch that ends earlier was ended by the other side.
	watchFor = 4 * time.Hour
)

// watched is one kind of object that is watched.
type watched struct {
	name    string
	options metav1.ListOptions // selectors
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	tracker tracker
}

// Watch lists and then watches Pods, EndpointSlices, the Deployment and the
// kubelet's Events. It returns when all watches are open and the listed objects have been called
// back as facts, with detail seen_by "list". After an interruption a watch goes on
// where it was; where the API server no longer has that (410), it is
// listed again, and the facts found so carry seen_by "relist". Each interruption is told twice, at
// its begin (ToMonoNs 0) and at its end. stop must not be called from a callback; no callback follows it.
func (c *Cluster) Watch(ctx context.Context, s WatchSpec) (stop func(), err error) {
	running, cancel := context.WithCancel(ctx)
	h := newHub(s)
	var loops sync.WaitGroup
	stop = sync.OnceFunc(func() {
		cancel()
		loops.Wait()
		h.close()
	})
	for _, r := range c.resources(s) {
		rv, err := r.fill(running, h, "list")
		if err != nil {
			stop()
			return nil, asking(ctx, err, "listing %s in namespace %s", r.name, s.Namespace)
		}
		w, err := r.open(running, rv)
		if err != nil {
			stop()
			return nil, asking(ctx, err, "watching %s in namespace %s", r.name, s.Namespace)
		}
		loops.Go(func() { r.follow(running, h, w, rv) })
	}
	h.flush()
	return stop, nil
}

// resources are in order: Pods first, since Events are matched to them.
func (c *Cluster) resources(s WatchSpec) []*watched {
	pods := c.client.CoreV1().Pods(s.Namespace)
	eps := c.client.DiscoveryV1().EndpointSlices(s.Namespace)
	deployments := c.client.AppsV1().Deployments(s.Namespace)
	statefulSets := c.client.AppsV1().StatefulSets(s.Namespace)
	events := c.client.CoreV1().Events(s.Namespace)
	rs := []*watched{{
		name: "pods", options: podsOf(s),
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		watch:   pods.Watch,
		tracker: track[corev1.Pod](diffPod),
	}}
	if s.Service != "" {
		rs = append(rs, &watched{
			name: "endpointslices", options: metav1.ListOptions{LabelSelector: serviceSelector(s.Service)},
			list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return eps.List(ctx, o) },
			watch:   eps.Watch,
			tracker: &endpointSlices{known: map[types.UID]*discoveryv1.EndpointSlice{}},
		})
	}
	if s.Deployment != "" {
		rs = append(rs, &watched{
			name: "deployments", options: metav1.ListOptions{FieldSelector: named(s.Deployment)},
			list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return deployments.List(ctx, o)
			},
			watch:   deployments.Watch,
			tracker: track[appsv1.Deployment](diffDeployment),
		})
	}
	if s.StatefulSet != "" {
		rs = append(rs, &watched{
			name: "statefulsets", options: metav1.ListOptions{FieldSelector: named(s.StatefulSet)},
			list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return statefulSets.List(ctx, o)
			},
			watch:   statefulSets.Watch,
			tracker: track[appsv1.StatefulSet](diffStatefulSet),
		})
	}
	return append(rs, &watched{
		name: "events", options: metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod,reason=Killing"},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return events.List(ctx, o) },
		watch:   events.Watch,
		tracker: track[corev1.Event](diffEvent),
	})
}

func podsOf(s WatchSpec) metav1.ListOptions {
	if s.PodName != "" {
		return metav1.ListOptions{FieldSelector: named(s.PodName)}
	}
	return metav1.ListOptions{LabelSelector: s.PodSelector}
}

// named is the field selector for one object.
func named(name string) string { return "metadata.name=" + name }

// fill lists, queues the difference and gives the resource version to watch from.
func (r *watched) fill(ctx context.Context, h *hub, seenBy string) (rv string, err error) {
	list, err := r.list(ctx, r.options)
	if err != nil {
		return "", err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	h.push(arrival{seenBy: seenBy, facts: func() []Fact { return r.tracker.set(items) }})
	return m.GetResourceVersion(), nil
}

func (r *watched) open(ctx context.Context, rv string) (watch.Interface, error) {
	o := r.options
	o.ResourceVersion = rv
	o.AllowWatchBookmarks = true
	o.TimeoutSeconds = new(int64(watchFor / time.Second))
	return r.watch(ctx, o)
}

// follow receives until ctx ends, and opens the watch again whenever it breaks.
func (r *watched) follow(ctx context.Context, h *hub, w watch.Interface, rv string) {
	for {
		opened := time.Now()
		var why string
		var expired bool
		rv, why, expired = r.receive(h, w, rv)
		if ctx.Err() != nil {
			return
		}
		gap := h.down(r.name, why)
		// A server that takes a watch only to drop it must not be hammered.
		if time.Since(opened) < reopenFirst && !sleep(ctx, reopenFirst) {
			return
		}
		var ok bool
		if w, rv, ok = r.reopen(ctx, h, rv, expired); !ok {
			return
		}
		h.up(gap)
	}
}

// receive queues what the watch delivers until it ends, and says why it did.
func (r *watched) receive(h *hub, w watch.Interface, rv string) (last, why string, expired bool) {
	defer w.Stop()
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Added, watch.Modified:
			h.push(arrival{facts: func() []Fact { return r.tracker.put(e.Object) }})
		case watch.Deleted:
			h.push(arrival{facts: func() []Fact { return r.tracker.remove(e.Object) }})
		case watch.Error:
			err := apierrors.FromObject(e.Object)
			return rv, err.Error(), isExpired(err)
		}
		if m, err := meta.Accessor(e.Object); err == nil {
			rv = m.GetResourceVersion()
		}
	}
	return rv, "the watch was closed by the other side", false
}

// reopen tries until the watch runs again; ok is false when ctx ended first.
func (r *watched) reopen(ctx context.Context, h *hub, rv string, expired bool) (w watch.Interface, last string, ok bool) {
	for pause := reopenFirst; ; pause = min(2*pause, reopenMax) {
		var err error
		if expired {
			var fresh string
			if fresh, err = r.fill(ctx, h, "relist"); err == nil {
				rv, expired = fresh, false
			}
		}
		if err == nil {
			if w, err = r.open(ctx, rv); err == nil {
				return w, rv, true
			}
			expired = isExpired(err)
		}
		if !sleep(ctx, pause) {
			return nil, rv, false
		}
	}
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
