//go:build e2e

package localcluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/localcluster/parts"
	"github.com/drainproof/drainproof/internal/testkit"
)

// The tests of this file's tag make real clusters: as root, on Linux.

const helperEnv = "DRAINPROOF_TEST_UP_HELPER"

// TestMain is also the tool that other tests kill half way through Up.
func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		o := e2eOptions(dir)
		o.Progress = func(line string) { fmt.Println(line) }
		if _, err := Up(context.Background(), o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// e2eOptions is a small cluster; the parts are built unless a folder of them is given.
func e2eOptions(stateDir string) Options {
	from := os.Getenv("DRAINPROOF_TEST_PARTS")
	if from == "" {
		from = "build"
	}
	return Options{StateDir: stateDir, Workers: 1, Parts: parts.Options{From: from}}
}

// newMachine gives a folder for state, and checks at the end that a cluster
// left nothing anywhere else either. The folder is where the default one is,
// below a folder that nodes hide.
func newMachine(t *testing.T, names ...string) string {
	t.Helper()
	testkit.Require(t, testkit.Linux, testkit.Root)
	dir, err := os.MkdirTemp("/var/lib", "drainproof-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	before := lookAround(t, dir, names)
	t.Cleanup(func() {
		for _, name := range names {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := Down(ctx, dir, name); err != nil {
				t.Errorf("take cluster %q down: %v", name, err)
			}
		}
		leftNothing(t, dir, names, before)
	})
	return dir
}

// leftNothing compares what is there now with what was there before.
func leftNothing(t *testing.T, dir string, names []string, before map[string]bool) {
	t.Helper()
	var added []string
	// What ends in a namespace ends a moment after the namespace.
	err := poll(context.Background(), 50*time.Millisecond, 5*time.Second, func() (bool, error) {
		added = added[:0]
		for thing := range lookAround(t, dir, names) {
			if !before[thing] {
				added = append(added, thing)
			}
		}
		return len(added) == 0, nil
	})
	if err != nil {
		t.Errorf("left behind:\n%s", strings.Join(added, "\n"))
	}
}

func logProgress(t *testing.T) func(string) {
	began := time.Now()
	return func(line string) { t.Logf("%6.2f s  %s", time.Since(began).Seconds(), line) }
}
