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
	var on thread
	on.yield(1)
	if on.id != unix.Gettid() {
		t.Errorf("the loop's thread is %d, and it runs on %d", on.id, unix.Gettid())
	}
	during := get()
	if on.was != nil && during.Nice != niceness && during.Nice != before.Nice {
		t.Errorf("niceness %d, was %d", during.Nice, before.Nice)
	}
	on.yield(2) // too soon for anything
	on.yield(1 + yieldEveryNs)
	on.leave()
	if after := get(); after.Nice != before.Nice || after.Policy != before.Policy {
		t.Errorf("left with %+v, was %+v", after, before)
	}
}
