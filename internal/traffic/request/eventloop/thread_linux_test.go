package eventloop

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadIsLeftAsItWas: the threads belong to the whole process, and only the loop is in a hurry.
func TestThreadIsLeftAsItWas(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	get := func() unix.SchedAttr {
		attr, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Skip("the kernel does not tell: " + err.Error())
		}
		return *attr
	}
	before := get()
	for _, first := range []bool{false, true} {
		on := thread{first: first}
		on.yield(1, false)
		if on.id != unix.Gettid() {
			t.Errorf("the loop's thread is %d, and it runs on %d", on.id, unix.Gettid())
		}
		during := get()
		if on.was != nil && during.Nice != niceness && during.Nice != before.Nice {
			t.Errorf("niceness %d, was %d", during.Nice, before.Nice)
		}
		on.yield(2, false) // too soon for anything
		on.yield(1+yieldEveryNs, false)
		on.leave()
		if after := get(); after.Nice != before.Nice || after.Policy != before.Policy {
			t.Errorf("left with %+v, was %+v", after, before)
		}
	}
}

// TestBehindHasNoPriority: a loop that cannot keep up leaves the processors to the server.
func TestBehindHasNoPriority(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	policy := func() uint32 {
		attr, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Skip("the kernel does not tell: " + err.Error())
		}
		return attr.Policy
	}
	before := policy()
	on := thread{first: true}
	on.yield(1, false)
	if policy() != unix.SCHED_FIFO {
		t.Skip("fixed priorities are not allowed here")
	}
	on.yield(1+yieldEveryNs, true)
	if policy() != before {
		t.Error("behind, and still before all others")
	}
	on.yield(1+2*yieldEveryNs, false)
	if policy() != unix.SCHED_FIFO {
		t.Error("not behind any more, and without priority")
	}
	on.leave()
	if policy() != before {
		t.Error("left with its priority")
	}
}
