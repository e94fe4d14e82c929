package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNotesOfOurAnnotations(t *testing.T) {
	const text = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  annotations: {%s}
spec:
  template:
    metadata: {labels: {app: web}, annotations: {%s}}
    spec: {containers: [{name: app, image: app}]}
`
	const web = "Deployment shop/web: annotation drainproof.dev/"
	for _, c := range []struct {
		own, pod string
		want     []string
	}{
		{`drainproof.dev/drain: 25s, drainproof.dev/startup: 40s, drainproof.dev/ignore: "DP501: x"`, "drainproof.dev/readiness-on-term: keep, example.com/drain: x", nil},
		{`drainproof.dev/drain: PT25S, drainproof.dev/readiness-on-term: fail`, "", nil},
		{`drainproof.dev/drain: "25"`, "", []string{web + `drain: "25" is not a duration such as 25s; it is left out`}},
		{`drainproof.dev/drain: 25`, "", []string{web + `drain: "25" is not a duration such as 25s; it is left out`}},
		{"", `drainproof.dev/drain: "-5s"`, []string{web + `drain of the Pod template: "-5s" is not a duration such as 25s; it is left out`}},
		{"drainproof.dev/startup: soon", `drainproof.dev/startup: 0s`, []string{
			web + `startup: "soon" is not a duration such as 40s; it is left out`, web + `startup of the Pod template: "0s" is not a duration such as 40s; it is left out`,
		}},
		{"drainproof.dev/readiness-on-term: maybe", "", []string{web + `readiness-on-term: "maybe" is not fail or keep; it is left out`}},
		{"drainproof.dev/drian: 5s", "", []string{web + `drian is not known: drain, startup, readiness-on-term and ignore are`}},
	} {
		if diff := cmp.Diff(c.want, build(t, fmt.Sprintf(text, c.own, c.pod)).Notes); diff != "" {
			t.Errorf("%s | %s:\n%s", c.own, c.pod, diff)
		}
	}
	m := build(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {drainproof.dev/drain: soon}}\nspec: {}\n")
	if diff := cmp.Diff([]string{`Pod a: annotation drainproof.dev/drain: "soon" is not a duration such as 25s; it is left out`}, m.Notes); diff != "" {
		t.Error(diff)
	}
}

// TestLongSeconds: grace periods and sleeps have 64 bits in the API. What is written is never taken for the default.
func TestLongSeconds(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  terminationGracePeriodSeconds: %s
  containers:
  - name: app
    lifecycle: {preStop: {sleep: {seconds: %s}}}
`
	for written, want := range map[string]Int{
		"40": {40, true}, "2147483647": {2147483647, true}, "2147483648": {2147483647, true}, "3000000000": {2147483647, true},
		"9223372036854775807": {2147483647, true}, "-9223372036854775808": {1, true}, "9223372036854775808": {30, false}, "soon": {30, false},
	} {
		m := build(t, fmt.Sprintf(text, written, "5"))
		if got := m.Workloads[0].Pod.Grace; got != want {
			t.Errorf("a grace period of %s is read as %v, not %v", written, got, want)
		}
		cut := len(written) > 9 && want.N != 1 && want.Set && written != "2147483647"
		if cut != (len(m.Notes) == 1 && strings.Contains(m.Notes[0], "terminationGracePeriodSeconds is "+written+", and is counted as 2147483647")) {
			t.Errorf("a grace period of %s gives the notes %q", written, m.Notes)
		}
	}
	for written, want := range map[string]Hook{
		"5":                   {Took: 5 * time.Second, Known: true},
		"0":                   {Known: true},
		"3000000000":          {Took: Endless, Known: true},
		"9223372036854775807": {Took: Endless, Known: true},
		"9223372036854775808": {Known: true, Broken: "the seconds of its sleep are no whole number"},
		"2.5":                 {Known: true, Broken: "the seconds of its sleep are no whole number"},
		"-5":                  {Known: true, Broken: "its sleep is of less than 0 seconds"},
		"":                    {Known: true, Broken: "sleep has no seconds"},
	} {
		h := build(t, fmt.Sprintf(text, "30", written)).Workloads[0].Pod.Containers[0].PreStop
		if h.Took != want.Took || h.Known != want.Known || h.Broken != want.Broken {
			t.Errorf("a sleep of %q takes %v (%v), broken %q", written, h.Took, h.Known, h.Broken)
		}
	}
}

func TestCountsBelowZero(t *testing.T) {
	m := build(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: -1\n  minReadySeconds: -3\n")
	w := m.Workloads[0]
	want := []string{
		`Deployment web: spec.replicas (all.yaml:5) is a number "-1", not a count of at least 0; it is left out`,
		`Deployment web: spec.minReadySeconds (all.yaml:6) is a number "-3", not a count of at least 0; it is left out`,
	}
	if diff := cmp.Diff(want, m.Notes); diff != "" || w.Replicas != (Int{N: 1}) || w.MinReady != (Int{}) {
		t.Errorf("replicas %v, minReady %v\n%s", w.Replicas, w.MinReady, diff)
	}
}

// TestNamesThatAreNoTexts: the API refuses them, but what they name is plain, and they find each other.
func TestNamesThatAreNoTexts(t *testing.T) {
	m := build(t, `apiVersion: v1
kind: Service
metadata: {name: n}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {defaultBackend: {service: {name: n, port: {number: 80}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: 17, labels: {app: web}}
spec: {containers: [{name: app, image: app}]}
`)
	want := []string{
		`Service n: metadata.name is a truth value, not a text, as it is written; write it in quotes: "n"`,
		`Pod 17: metadata.name is a number, not a text, as it is written; write it in quotes: "17"`,
	}
	if diff := cmp.Diff(want, m.Notes); diff != "" {
		t.Error(diff)
	}
	if f := m.Fronts[0]; len(f.Services) != 1 || len(f.Missing) != 0 || len(m.Workloads[0].Fronts) != 1 {
		t.Errorf("the Ingress finds %d Services and misses %v", len(f.Services), f.Missing)
	}
}
