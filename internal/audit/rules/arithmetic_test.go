package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
)

func TestAlwaysPasses(t *testing.T) {
	for _, tc := range []struct {
		command []string
		want    bool
	}{
		{[]string{"true"}, true},
		{[]string{"/bin/true"}, true},
		{[]string{"echo", "ok"}, true},
		{[]string{"busybox", "true"}, true},
		{[]string{"sh", "-c", "exit 0"}, true},
		{[]string{"/bin/bash", "-c", ":"}, true},
		{[]string{"sh", "-c", "echo checking; exit 0"}, true},
		{[]string{"sh", "-c", "exit 0; curl localhost"}, true},
		{nil, false},
		{[]string{"sh", "-c", ""}, false},
		{[]string{"sh", "-c", "exit"}, false},
		{[]string{"sh", "-c", "exit 1"}, false},
		{[]string{"bash", "-c", "echo > /dev/tcp/127.0.0.1/80"}, false},
		{[]string{"sh", "-c", "true && curl -f localhost"}, false},
		{[]string{"sh", "-c", "curl -f localhost; true"}, false},
		{[]string{"sh", "/ready.sh"}, false},
		{[]string{"cat", "/tmp/ready"}, false},
		{[]string{"sleep", "1"}, false},
	} {
		if got := alwaysPasses(tc.command); got != tc.want {
			t.Errorf("alwaysPasses(%q) = %v", tc.command, got)
		}
	}
}

func TestTakesAway(t *testing.T) {
	for _, tc := range []struct {
		hook, readiness []string
		want            bool
	}{
		{[]string{"sh", "-c", "rm -f /tmp/ready; sleep 5"}, []string{"cat", "/tmp/ready"}, true},
		{[]string{"rm", "/tmp/ready"}, []string{"test", "-f", "/tmp/ready"}, true},
		{[]string{"sh", "-c", "rm /tmp/other; sleep 5"}, []string{"cat", "/tmp/ready"}, false},
		{[]string{"sleep", "5"}, []string{"cat", "/tmp/ready"}, false},
		{[]string{"rm", "ready"}, []string{"ready"}, false},
		{[]string{"rm", "/tmp/ready"}, nil, false},
	} {
		if got := takesAway(tc.hook, tc.readiness); got != tc.want {
			t.Errorf("takesAway(%q, %q) = %v", tc.hook, tc.readiness, got)
		}
	}
}

func TestMisprint(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"storefront", "storefrnt", true},
		{"storefront", "storefronts", true},
		{"checkout", "checkuot", false}, // two letters
		{"frontend", "frontemd", true},
		{"web-1", "web-2", false},
		{"shop1", "shop", false},
		{"web", "wev", false}, // too short to tell
		{"same", "same", false},
	} {
		if got := misprint(tc.a, tc.b); got != tc.want {
			t.Errorf("misprint(%q, %q) = %v", tc.a, tc.b, got)
		}
		if got := misprint(tc.b, tc.a); got != tc.want {
			t.Errorf("misprint(%q, %q) = %v", tc.b, tc.a, got)
		}
	}
}

// TestProbeBounds: a probe's verdict comes between the soonest and the latest.
func TestProbeBounds(t *testing.T) {
	p := &model.Probe{InitialDelay: model.Int{N: 15}, Period: model.Int{N: 10}, Timeout: model.Int{N: 2}, Failure: model.Int{N: 3}, Success: model.Int{N: 1}}
	soonest, latest := fails(p)
	if soonest != 20*time.Second || latest != 32*time.Second {
		t.Errorf("fails: %s to %s", soonest, latest)
	}
	soonest, latest = givesUp(p)
	if soonest != 35*time.Second || latest != 47*time.Second {
		t.Errorf("givesUp: %s to %s", soonest, latest)
	}
}

// TestSoonestReady: the slowest container decides, and readiness is not asked before the
// startup probe has passed.
func TestSoonestReady(t *testing.T) {
	probe := func(delay, period, success int64) *model.Probe {
		return &model.Probe{InitialDelay: model.Int{N: delay}, Period: model.Int{N: period}, Success: model.Int{N: success}, Failure: model.Int{N: 3}}
	}
	for _, tc := range []struct {
		name       string
		containers []*model.Container
		want       time.Duration
	}{
		{"no probe", []*model.Container{{}}, 0},
		{"delay", []*model.Container{{Readiness: probe(20, 10, 1)}}, 20 * time.Second},
		{"passes in a row", []*model.Container{{Readiness: probe(20, 10, 3)}}, 40 * time.Second},
		{"startup holds readiness back", []*model.Container{{Startup: probe(30, 5, 1), Readiness: probe(5, 10, 2)}}, 40 * time.Second},
		{"startup alone", []*model.Container{{Startup: probe(30, 5, 1)}}, 30 * time.Second},
		{"the slower of two", []*model.Container{{Readiness: probe(5, 10, 1)}, {Readiness: probe(25, 10, 1)}}, 25 * time.Second},
	} {
		w := &model.Workload{Pod: model.Pod{Containers: tc.containers}}
		if got, _ := soonestReady(w); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestStepDown: an autoscaler's policies, as its controller computes them.
func TestStepDown(t *testing.T) {
	for _, tc := range []struct {
		name, scaleDown string
		want            int64
	}{
		{"none", "", 10},
		{"percent", "{policies: [{type: Percent, value: 50, periodSeconds: 60}]}", 5},
		{"what remains is rounded down", "{policies: [{type: Percent, value: 25, periodSeconds: 60}]}", 3},
		{"the greater by default", "{policies: [{type: Percent, value: 10, periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 60}]}", 4},
		{"the lesser on demand", "{selectPolicy: Min, policies: [{type: Pods, value: 4, periodSeconds: 60}, {type: Percent, value: 10, periodSeconds: 60}]}", 1},
		{"never", "{selectPolicy: Disabled, policies: [{type: Percent, value: 100, periodSeconds: 15}]}", 0},
		{"more than there are", "{policies: [{type: Pods, value: 40, periodSeconds: 60}]}", 10},
	} {
		text := "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {behavior: {scaleDown: %s}}}"
		objects, err := manifest.Parse("test.yaml", []byte(fmt.Sprintf(text, strings.TrimSpace(tc.scaleDown))))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := stepDown(&model.HPA{Object: objects[0]}, 10); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Nobody wrote the digits that a sum of two floating point numbers ends in.
func TestSpell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 1360 * time.Millisecond: "1.36 s", 1910 * time.Millisecond: "1.91 s", 30 * time.Second: "30 s", -5 * time.Second: "-5 s",
		1234567 * time.Microsecond: "1.235 s", 100 * time.Millisecond: "0.1 s", time.Hour: "3600 s", 36000001100 * time.Millisecond: "36000001.1 s",
	} {
		if got := spell(d); got != want {
			t.Errorf("%d ns is %q, not %q", d, got, want)
		}
	}
	for ms := range time.Duration(20000) {
		if got := spell(ms * time.Millisecond); len(got) > len("19.999 s") {
			t.Errorf("%d ms is %q", ms, got)
		}
	}
}

// A field of whole seconds never gets less than was worked out.
func TestWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second: 1, 1001 * time.Millisecond: 2, 44500 * time.Millisecond: 45} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("%v gives %d, not %d", d, got, want)
		}
	}
}
