package parts

import (
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"v1.37.2": "v1.37.2", "1.37.2": "v1.37.2", "v1.32.0": "v1.32.0", "1.100.10": "v1.100.10",
	} {
		v, err := parseVersion(in)
		if err != nil || v.String() != want {
			t.Errorf("%q: got %s, %v, want %s", in, v, err, want)
		}
	}
	for in, says := range map[string]string{
		"": "not a Kubernetes version", "v1.37": "not a Kubernetes version", "v2.0.0": "not a Kubernetes version",
		"v1.37.2-rc.1": "not a Kubernetes version", "v1.037.2": "not a Kubernetes version", "latest": "not a Kubernetes version",
		"../v1.37.2": "not a Kubernetes version", "v1.37.2/..": "not a Kubernetes version", "v1.99999.1": "not a Kubernetes version",
		"v1.31.9": "before v1.32",
	} {
		_, err := parseVersion(in)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want an error with %q", in, err, says)
		}
		if code := fault.CodeOf(err); code != fault.Usage {
			t.Errorf("%q: exit code %d, want %d", in, code, fault.Usage)
		}
	}
}
