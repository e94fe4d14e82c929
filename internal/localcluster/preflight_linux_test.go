package localcluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestMissingProgramsAllAtOnce(t *testing.T) {
	look := func(program string) (string, error) {
		if program == "nft" || program == "ctr" || program == "containerd" {
			return "", exec.ErrNotFound
		}
		return "/usr/bin/" + program, nil
	}
	noCNI := func() (string, error) { return "", os.ErrNotExist }
	f := programsFault(missingPrograms(look, noCNI))
	if f == nil || f.Code != fault.Unmeasurable {
		t.Fatalf("got %v", f)
	}
	for _, want := range []string{"nft (package nftables)", "ctr (package containerd)", "CNI plugins ptp, host-local, loopback (package containernetworking-plugins)"} {
		if !strings.Contains(f.What, want) {
			t.Errorf("%q lacks %q", f.What, want)
		}
	}
	if !strings.HasSuffix(f.Next, "apt-get install -y --no-install-recommends containerd containernetworking-plugins nftables") {
		t.Errorf("advice is %q", f.Next)
	}
	here := func() (string, error) { return "/opt/cni/bin", nil }
	if f := programsFault(missingPrograms(func(string) (string, error) { return "x", nil }, here)); f != nil {
		t.Errorf("with everything there: %v", f)
	}
}

// The free space is that of the nearest folder that exists.
func TestSpaceOfAFolderToBe(t *testing.T) {
	dir := t.TempDir()
	here, later := checkSpace(dir), checkSpace(filepath.Join(dir, "to", "be"))
	if (here == nil) != (later == nil) {
		t.Errorf("here %v, later %v", here, later)
	}
}

func TestUsedPrefixesHaveLoopback(t *testing.T) {
	used, err := usedPrefixes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range used {
		if p.Addr().IsLoopback() {
			return
		}
	}
	t.Errorf("no loopback among %v", used)
}

// Lines of the installer reach the caller, and its last one the error.
func TestRunLines(t *testing.T) {
	var lines []string
	err := runLines(t.Context(), func(l string) { lines = append(lines, l) }, "/bin/sh", "-c", "echo one; echo two >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "two") || strings.Join(lines, ",") != "one,two" {
		t.Errorf("said %v, error %v", lines, err)
	}
}
