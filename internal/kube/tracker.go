package kube

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// tracker remembers the last state of one kind of object and gives the facts of each change.
type tracker interface {
	// put takes a new state, remove the last state of an object that is gone.
	put(runtime.Object) []Fact
	remove(runtime.Object) []Fact
	// set takes a whole list: what it does not name is gone.
	set([]runtime.Object) []Fact
}

// object is a pointer type *T that is a Kubernetes object.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// objects tracks kinds whose objects each stand for themselves.
type objects[T any, P object[T]] struct {
	known map[types.UID]*T
	diff  func(old, now *T) []Fact
}

func track[T any, P object[T]](diff func(old, now *T) []Fact) *objects[T, P] {
	return &objects[T, P]{known: map[types.UID]*T{}, diff: diff}
}

func (o *objects[T, P]) put(obj runtime.Object) []Fact {
	now, ok := obj.(P)
	if !ok {
		return nil
	}
	old := o.known[now.GetUID()]
	o.known[now.GetUID()] = now
	return o.diff(old, now)
}

// remove compares with the last state first: it may be the only one that says how the object ended.
func (o *objects[T, P]) remove(obj runtime.Object) []Fact {
	last, ok := obj.(P)
	if !ok {
		return nil
	}
	facts := append(o.put(obj), o.diff(last, nil)...)
	delete(o.known, last.GetUID())
	return facts
}

func (o *objects[T, P]) set(list []runtime.Object) []Fact {
	var facts []Fact
	for _, uid := range gone(o.known, list) {
		facts = append(facts, o.diff(o.known[uid], nil)...)
		delete(o.known, uid)
	}
	for _, obj := range list {
		facts = append(facts, o.put(obj)...)
	}
	return facts
}

// gone gives the UIDs that are known but not listed, in a fixed order.
func gone[T any](known map[types.UID]T, list []runtime.Object) []types.UID {
	left := maps.Clone(known)
	for _, obj := range list {
		if m, ok := obj.(metav1.Object); ok {
			delete(left, m.GetUID())
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// endpointSlices tracks all slices of one Service as one table of endpoints.
type endpointSlices struct {
	known map[types.UID]*discoveryv1.EndpointSlice
}

// compare gives the facts between the table before and after a change of the slices.
func (e *endpointSlices) compare(alter func()) []Fact {
	before := endpointsOf(slices.Collect(maps.Values(e.known)))
	alter()
	return diffEndpoints(before, endpointsOf(slices.Collect(maps.Values(e.known))))
}

func (e *endpointSlices) put(obj runtime.Object) []Fact {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	return e.compare(func() { e.known[s.UID] = s })
}

func (e *endpointSlices) remove(obj runtime.Object) []Fact {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	return e.compare(func() { delete(e.known, s.UID) })
}

func (e *endpointSlices) set(list []runtime.Object) []Fact {
	return e.compare(func() {
		for _, uid := range gone(e.known, list) {
			delete(e.known, uid)
		}
		for _, obj := range list {
			if s, ok := obj.(*discoveryv1.EndpointSlice); ok {
				e.known[s.UID] = s
			}
		}
	})
}
