// Package testkit is what tests share: earned skips, goldens, servers that
// fail in chosen ways, sample records, processes with pipes.
//
// Only tests import it. It must not know the packages under test, except
// record for the samples.
package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// Need is a capability that a test cannot do without.
type Need struct {
	Name string
	// Missing says why the capability is not there; "" when it is.
	Missing func() string
	// Outside: it is no part of the project, and nothing here can install it.
	Outside bool
}

// Linux is the platform of the local cluster, the traffic engine and the probe.
var Linux = Need{Name: "linux", Missing: func() string {
	if runtime.GOOS != "linux" {
		return "needs Linux, this is " + runtime.GOOS
	}
	return ""
}}

// Root is needed for namespaces, links and mounts.
var Root = Need{Name: "root", Missing: func() string {
	if os.Geteuid() != 0 {
		return "needs root"
	}
	return ""
}}

// Program is a program on the PATH.
func Program(name string) Need {
	return Need{Name: "program " + name, Missing: func() string {
		if _, err := exec.LookPath(name); err != nil {
			return "needs the program " + name
		}
		return ""
	}}
}

// Env is an environment variable that says where to find what a test needs.
func Env(name string) Need {
	return Need{Name: "variable " + name, Missing: func() string {
		if os.Getenv(name) == "" {
			return "needs the environment variable " + name
		}
		return ""
	}}
}

// Folder is a folder that is not part of the repository, such as a corpus of public manifests.
func Folder(path string) Need {
	return Need{Name: "folder " + path, Outside: true, Missing: func() string {
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			return "needs the folder " + path
		}
		return ""
	}}
}

// Require skips the test for want of a capability and says so in the list at
// the end of the run. Where DRAINPROOF_NO_SKIP is set (continuous integration),
// a missing capability is a failure, but for what is outside the project: a skip must be earned.
func Require(t testing.TB, needs ...Need) {
	t.Helper()
	for _, n := range needs {
		why := n.Missing()
		if why == "" {
			continue
		}
		if os.Getenv("DRAINPROOF_NO_SKIP") != "" && !n.Outside {
			t.Fatalf("%s, and this run may skip nothing (DRAINPROOF_NO_SKIP)", why)
		}
		if path := os.Getenv("DRAINPROOF_SKIP_LOG"); path != "" {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatalf("writing the list of skipped tests: %v", err)
			}
			fmt.Fprintf(f, "%s: %s\n", t.Name(), why)
			if err := f.Close(); err != nil {
				t.Fatalf("writing the list of skipped tests: %v", err)
			}
		}
		t.Skip(why)
	}
}
