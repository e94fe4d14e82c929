package kube

import (
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestParseRef(t *testing.T) {
	tests := []struct{ in, kind, name string }{
		{"deployment/web", "Deployment", "web"},
		{"deployments/web", "Deployment", "web"},
		{"deploy/web", "Deployment", "web"},
		{"deployments.apps/web", "Deployment", "web"},
		{"deployment.apps/web", "Deployment", "web"},
		{"deployments.v1.apps/web", "Deployment", "web"},
		{"Deployment/web", "Deployment", "web"},
		{"sts/db", "StatefulSet", "db"},
		{"statefulsets.apps/db", "StatefulSet", "db"},
		{"ds/agent", "DaemonSet", "agent"},
		{"daemonset/agent", "DaemonSet", "agent"},
		{"po/one.two", "Pod", "one.two"},
		{"pods/one", "Pod", "one"},
		{"pods.v1/one", "Pod", "one"},
	}
	for _, tt := range tests {
		got, err := ParseRef(tt.in, "ns")
		if want := (Ref{tt.kind, "ns", tt.name}); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", tt.in, got, err, want)
		}
	}
}

func TestParseRefRefuses(t *testing.T) {
	tests := []struct{ in, next string }{
		{"", "deployment/web"},
		{"web", "deployment/web"},
		{"/web", "deployment/web"},
		{"deploy/", "deployment/web"},
		{"deploy/web/x", "deployment/web"},
		{"deploy/Web", "deployment/web"},
		{"deployments.batch/web", "deployment/web"},
		{"cronjob/web", "deployment/web"},
		{"svc/web", "workload behind it"},
		{"rs/web-1", "Deployment that owns it"},
	}
	for _, tt := range tests {
		_, err := ParseRef(tt.in, "ns")
		if fault.CodeOf(err) != fault.Usage || !strings.Contains(fault.NextOf(err), tt.next) {
			t.Errorf("%q: %v, next %q; want wrong use and %q", tt.in, err, fault.NextOf(err), tt.next)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"deploy/web", "pods.v1/one", "a/b/c", "/", "..../x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRef(s, "ns")
		if (err == nil) != (r.Kind != "" && r.Name != "") {
			t.Errorf("%q: %v, %v", s, r, err)
		}
	})
}

func TestNearest(t *testing.T) {
	names := []string{"zebra", "web-api", "wab", "webs", "api", "web2"}
	if got := strings.Join(nearest("web", names, 4), " "); got != "wab web2 webs api" {
		t.Errorf("nearest: %s", got)
	}
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"web", "web", 0}, {"flaw", "lawn", 2}}
	for _, tt := range tests {
		if there, back := edits(tt.a, tt.b), edits(tt.b, tt.a); there != tt.want || back != tt.want {
			t.Errorf("%q to %q: %d, back %d; want %d", tt.a, tt.b, there, back, tt.want)
		}
	}
}
