package source

import (
	"os"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

// endless is a text without an end.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '#'
	}
	e.read += int64(len(b))
	return len(b), nil
}

// small makes the bound 1 MiB.
func small(t *testing.T) {
	t.Helper()
	before := largest
	largest = 1 << 20
	t.Cleanup(func() { largest = before })
}

func TestBoundIsAsDocumented(t *testing.T) {
	if got := tooLarge("it").Error(); !strings.Contains(got, "it is larger than 256 MiB") {
		t.Error(got)
	}
}

func TestEndlessStdin(t *testing.T) {
	small(t)
	in := &endless{}
	_, _, err := Files(t.Context(), []string{"-"}, in)
	wantFault(t, err, fault.Usage, "standard input is larger than 1 MiB", "several files")
	if in.read > 2*largest {
		t.Errorf("%d bytes were read", in.read)
	}
}

func TestLargeFiles(t *testing.T) {
	small(t)
	fits := pod("a") + "#" + strings.Repeat("x", int(largest)-len(pod("a"))-1)
	tree(t, map[string]string{"fits.yaml": fits, "over.yaml": fits + "x"})
	got, _, err := files(t, "", "fits.yaml")
	wantObjects(t, got, err, "Pod a fits.yaml:1")
	_, _, err = files(t, "", "over.yaml")
	wantFault(t, err, fault.Usage, "over.yaml is larger than 1 MiB", "several files")
	got, _, err = files(t, fits, "-")
	wantObjects(t, got, err, "Pod a stdin:1")
	if _, err := os.Stat("/dev/zero"); err == nil {
		_, _, err = files(t, "", "/dev/zero")
		wantFault(t, err, fault.Usage, "/dev/zero is larger than 1 MiB", "")
	}
}

// TestEndlessProgram ends only because the program is ended.
func TestEndlessProgram(t *testing.T) {
	small(t)
	const forever = "while :; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; done"
	fake(t, "helm", "trap '' PIPE\n"+forever)
	_, err := Helm(t.Context(), "shop", "r", "", nil, nil)
	wantFault(t, err, fault.Usage, "what helm template r shop prints is larger than 1 MiB", "several files")
	fake(t, "kustomize", forever)
	_, err = Kustomize(t.Context(), "over")
	wantFault(t, err, fault.Usage, "what kustomize build over prints is larger than 1 MiB", "")
}
