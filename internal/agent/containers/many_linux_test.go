package containers

import (
	"fmt"
	"testing"
)

const (
	// manyPods is nearly twice the kubelet's default of 110 on a node.
	manyPods = 200
	// perPod is a sandbox, and a container of two processes.
	perPod = 3
	// nodeProcesses are the node's own.
	nodeProcesses = 150
)

// uidOf makes the UID of a Pod.
func uidOf(pod int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", pod) }

// crowd puts as many Pods into a node, from the first on. Their processes and namespaces have the numbers of 200 slots, as the kernel gives numbers again.
func (f fakeProc) crowd(first, started int) {
	for slot := range manyPods {
		pod, pid := first+slot, 1000+perPod*slot
		net := 100_000 + slot
		f.add(pid, started, "pause", in(uidOf(pod), number(2*pod)), net, 200_000+slot, 300_000+slot)
		f.add(pid+1, started+1, "app", in(uidOf(pod), number(2*pod+1)), net, 400_000+slot, 500_000+slot)
		f.add(pid+2, started+2, "worker", in(uidOf(pod), number(2*pod+1)), net, 400_000+slot, 500_000+slot)
	}
}

// newFullNode is a node with its own processes and many Pods.
func newFullNode(t testing.TB) fakeProc {
	f := newFakeProc(t)
	for i := range nodeProcesses {
		f.add(100+i, 5, "daemon", "0::/system.slice\n", nodeNet, nodeMnt, nodePID)
	}
	f.crowd(0, 1000)
	return f
}

// Every process of a full node is placed, also when all of its Pods were replaced between two looks by others in the same namespaces.
func TestManyPods(t *testing.T) {
	f := newFullNode(t)
	m := New(f.dir)
	for round, first := range []int{0, manyPods} {
		if round > 0 {
			f.crowd(first, 2000)
		}
		scan(t, m, seconds(10*float64(round)))
		for slot := range manyPods {
			pod := first + slot
			app, ok := m.Lookup(uint32(100_000+slot), uint32(400_000+slot), uint32(500_000+slot))
			if !ok || app.PodUID != uidOf(pod) || app.ID != number(2*pod+1) || app.PID != 1001+perPod*slot || app.Comm != "app" {
				t.Fatalf("round %d, slot %d is %+v, %t", round, slot, app, ok)
			}
			if p, ok := m.PodByNetNs(uint32(100_000 + slot)); !ok || p.UID != uidOf(pod) {
				t.Fatalf("round %d, the network of slot %d is of %+v, %t", round, slot, p, ok)
			}
			if list := m.Containers(uidOf(pod)); len(list) != 2 {
				t.Fatalf("round %d, pod %d has containers %+v", round, pod, list)
			}
		}
	}
}

// BenchmarkManyPods is what an agent does each second, and for every Pod that comes: all processes are looked at, and the containers of each Pod under
// test are listed. The files of this /proc are on a disk, and its 751 processes older than settledAfter.
func BenchmarkManyPods(b *testing.B) {
	f := newFullNode(b)
	f.add(5000, 100_000, "newest", "0::/system.slice\n", nodeNet, nodeMnt, nodePID)
	m := New(f.dir)
	now := int64(0)
	look := func() {
		now++
		if err := m.Scan(now); err != nil {
			b.Fatal(err)
		}
		for pod := range manyPods {
			if len(m.Containers(uidOf(pod))) != 2 {
				b.Fatalf("pod %d has not two containers", pod)
			}
		}
	}
	look()
	for b.Loop() {
		look()
	}
}
