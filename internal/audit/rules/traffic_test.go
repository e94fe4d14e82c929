package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// TestMeasuredFloors: what was measured on the user's cluster stands in for what others report.
func TestMeasuredFloors(t *testing.T) {
	measured := func(path string, least time.Duration) budget.Floors {
		return budget.Floors{Measured: map[string]budget.Floor{path: {Least: least, Source: "5 records in out/"}}}
	}
	for _, c := range []struct {
		id, file string
		floors   budget.Floors
		want     string // in the only finding's message; "" for no finding
	}{
		{"DP652", "bad-one-try", budget.Floors{}, "for about 5 s"},
		{"DP652", "bad-one-try", measured(budget.Ingress, 3*time.Second), "for about 3 s"},
		{"DP652", "bad-one-try", measured(budget.Ingress, 1500*time.Millisecond), ""},
		{"DP761", "bad", measured(budget.Headless, 8*time.Second), "for up to 5 s"},
		{"DP761", "bad", measured(budget.Headless, 2*time.Second), ""},
		{"DP781", "bad-script", budget.Floors{}, "for 30 s to 60 s"},
		{"DP781", "bad-script", measured(budget.Registry, 12*time.Second), "for 12 s after"},
		{"DP781", "bad-script", measured(budget.Registry, 9*time.Second), ""},
	} {
		var got []finding.Finding
		for _, f := range Check(parsed(t, c.id, c.file), 37, c.floors) {
			if f.Rule == c.id {
				got = append(got, f)
			}
		}
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s on %s: finds something although the measured time is covered: %s", c.id, c.file, got[0].Message)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Message, c.want)):
			t.Errorf("%s on %s: want one finding that says %q, got %+v", c.id, c.file, c.want, got)
		}
	}
}

func parsed(t *testing.T, id, file string) *model.Model {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", id, file+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(file+".yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	return model.Build(objects, model.Options{})
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // name rest
	}{
		{"db", nil},
		{"db:3306", []string{"db/"}},
		{"mysql://user:pw@db/shop", []string{"db/"}},
		{"http://api:8080/v1,http://api.shop.svc:8080", []string{"api/", "api/shop.svc"}},
		{"--cache=redis://cache.data.svc.cluster.local:6379/0", []string{"cache/data.svc.cluster.local"}},
		{"registry.example/cache:1", []string{"registry/example", "cache/"}},
		{"0@kafka-0.kafka:9093", []string{"kafka-0/kafka"}},
		{"10:30", []string{"10/"}},
		{"db:", nil},
		{"", nil},
	} {
		var got []string
		for name, rest := range hosts(c.text) {
			got = append(got, name+"/"+rest)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: -want +got:\n%s", c.text, d)
		}
	}
}

func TestAttribute(t *testing.T) {
	const text = "stickiness.enabled=true, deregistration_delay.timeout_seconds=30 ,deregistration_delay.timeout_seconds_more=1"
	if v, ok := attribute(text, "deregistration_delay.timeout_seconds"); !ok || v != "30" {
		t.Errorf("got %q, %v", v, ok)
	}
	for _, absent := range []string{"", "deregistration_delay.timeout_seconds", "a=b"} {
		if v, ok := attribute(absent, "deregistration_delay.timeout_seconds"); ok {
			t.Errorf("%q: found %q", absent, v)
		}
	}
}

func TestAnnotatedNumber(t *testing.T) {
	notes := map[string]string{"a": "soon", "b": " 15s ", "c": "-3"}
	for _, c := range []struct {
		keys []string
		want dial
	}{
		{[]string{"b"}, dial{15, `metadata.annotations["b"]`}},
		{[]string{"a", "b"}, dial{15, `metadata.annotations["b"]`}},
		{[]string{"c"}, dial{7, "default of the test"}},
		{[]string{"d"}, dial{7, "default of the test"}},
	} {
		if got := annotated(notes, 7, "default of the test", c.keys...); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.keys, got, c.want)
		}
	}
}

func TestAgeOf(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"GRPC_MAX_CONNECTION_AGE_GRACE", "10s", 10 * time.Second, true},
		{"-server.grpc.keepalive.max-connection-age-grace", "1m", time.Minute, true},
		{"GRPC_MAX_CONNECTION_AGE_GRACE_MS", "500", 500 * time.Millisecond, true},
		{"grpc.max_connection_age_grace_seconds", "5", 5 * time.Second, true},
		{"GRPC_MAX_CONNECTION_AGE_GRACE", "5", 0, false},
		{"GRPC_MAX_CONNECTION_AGE", "5m", 0, false},
		{"MAX_CONNECTION_AGE_GRACE_POLICY", "5s", 0, false},
	} {
		if got, ok := ageOf(c.name, c.value, "maxconnectionagegrace"); got != c.want || ok != c.ok {
			t.Errorf("%s=%s: got %s %v, want %s %v", c.name, c.value, got, ok, c.want, c.ok)
		}
	}
}
