package record_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestFullDiskLeavesNothing(t *testing.T) {
	testkit.Require(t, testkit.Root)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatalf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	_, err := record.Write(dir, records.Exit(), false)
	if _, ok := errors.AsType[*record.FullDiskError](err); !ok {
		t.Errorf("error is %v", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("%q was left", left)
	}
}
