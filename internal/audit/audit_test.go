package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/fault"
)

// web is a workload with several findings, one of them DP501: no disruption budget.
const web = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  annotations: {OWN}
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
      annotations: {POD}
    spec:
      containers:
        - name: web
          image: registry.example.com/web:v1
          ports:
            - containerPort: 8080
          readinessProbe:
            httpGet: {path: /ready, port: 8080}
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
spec:
  selector: {app: web}
  ports:
    - port: 80
      targetPort: 8080
`

func build(t *testing.T, own, pod string) *model.Model {
	t.Helper()
	text := strings.NewReplacer("{OWN}", own, "{POD}", pod).Replace(web)
	objects, err := manifest.Parse("web.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return model.Build(objects, model.Options{})
}

func rulesOf(fs []finding.Finding) []string {
	var ids []string
	for _, f := range fs {
		ids = append(ids, f.Rule)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func TestRunFindsAndOrders(t *testing.T) {
	r := Run(build(t, "{}", "{}"), Options{Server: DefaultServer, Version: "v0"})
	if got := rulesOf(r.Findings); !slices.Contains(got, "DP501") || !slices.Contains(got, "DP103") {
		t.Errorf("found %v, wanted at least DP103 (no preStop) and DP501 (no budget)", got)
	}
	for i := 1; i < len(r.Findings); i++ {
		if r.Findings[i-1].Severity.Rank() < r.Findings[i].Severity.Rank() {
			t.Errorf("finding %d is milder than the one after it", i-1)
		}
	}
	if len(r.Workloads) != 1 || !slices.Equal(r.Workloads[0].Paths, []string{"clusterip"}) {
		t.Errorf("workloads: %+v", r.Workloads)
	}
	if r.Objects != 2 || r.Kubernetes != "v1.34" || r.Schema != finding.Schema {
		t.Errorf("head of the report: %d objects, %s, %s", r.Objects, r.Kubernetes, r.Schema)
	}
}

func TestAnnotationsSuppressWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		own, pod   string
		suppressed []string
		note       string
	}{
		"on the workload":     {own: `{drainproof.dev/ignore: "DP501: drained by hand"}`, pod: "{}", suppressed: []string{"DP501"}},
		"on the Pod template": {own: "{}", pod: `{drainproof.dev/ignore: "DP501: drained by hand; DP103: see the runbook"}`, suppressed: []string{"DP103", "DP501"}},
		"without a reason":    {own: `{drainproof.dev/ignore: "DP501"}`, pod: "{}", note: "DP501"},
		"an empty reason":     {own: `{drainproof.dev/ignore: "DP501: "}`, pod: "{}", note: "DP501"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Run(build(t, c.own, c.pod), Options{Server: DefaultServer})
			var got []finding.Finding
			for _, s := range r.Suppressed {
				got = append(got, s.Finding)
				if s.By != "annotation" || s.Reason == "" {
					t.Errorf("%s is suppressed by %q for %q", s.Rule, s.By, s.Reason)
				}
			}
			if diff := cmp.Diff(c.suppressed, rulesOf(got)); diff != "" {
				t.Errorf("suppressed, -want +got:\n%s", diff)
			}
			for _, id := range c.suppressed {
				if slices.Contains(rulesOf(r.Findings), id) {
					t.Errorf("%s is suppressed and still found", id)
				}
			}
			if c.note != "" && !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, c.note) && strings.Contains(n, "suppresses nothing") }) {
				t.Errorf("no note says that %q is not understood: %v", c.note, r.Notes)
			}
		})
	}
}

func TestConfigChangesAndSuppresses(t *testing.T) {
	c, err := ParseConfig("c.yaml", []byte(`apiVersion: drainproof.dev/v1
kind: AuditConfig
rules:
  DP501: {severity: info}
ignore:
  - {rule: DP103, kind: Deployment, namespace: sh*, name: "we?", reason: measured to be harmless}
`))
	if err != nil {
		t.Fatal(err)
	}
	r := Run(build(t, "{}", "{}"), Options{Server: DefaultServer, Config: c})
	for _, f := range r.Findings {
		if f.Rule == "DP501" && f.Severity != finding.Info || f.Rule == "DP103" {
			t.Errorf("%s %s stands against the configuration", f.Severity, f.Rule)
		}
	}
	if len(r.Suppressed) == 0 || r.Suppressed[0].Rule != "DP103" || r.Suppressed[0].By != "config" || r.Suppressed[0].Reason != "measured to be harmless" {
		t.Errorf("suppressed: %+v", r.Suppressed)
	}
}

func TestConfigFloorsReplaceTheDefaults(t *testing.T) {
	c, err := ParseConfig("c.yaml", []byte("apiVersion: drainproof.dev/v1\nkind: AuditConfig\nfloors: {clusterip: 7s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := Run(build(t, "{}", "{}"), Options{Server: DefaultServer, Config: c}).Workloads[0]
	if w.Budget.PropagationNs == nil || *w.Budget.PropagationNs != 7e9 || !strings.Contains(w.Budget.PropagationFrom, "c.yaml") {
		t.Errorf("budget %+v, wanted the configured floor of 7 s", w.Budget)
	}
}

func TestConfigRefusals(t *testing.T) {
	const head = "apiVersion: drainproof.dev/v1\nkind: AuditConfig\n"
	for text, word := range map[string]string{
		"kind: AuditConfig\n":                                    "apiVersion",
		head + "rule: {}\n":                                      "rule",
		head + "rules: {DP999: {severity: info}}\n":              "DP999",
		head + "rules: {DP501: {severity: loud}}\n":              "loud",
		head + "rules: {DP501: {severity: ignore}}\n":            "reason",
		head + "ignore: [{rule: DP501}]\n":                       "reason",
		head + "ignore: [{rule: DP5, reason: x}]\n":              "DP5",
		head + "ignore: [{rule: DP501, name: '[', reason: x}]\n": "pattern",
		head + "floors: {clusterip: soon}\n":                     "soon",
		head + "floors: {moon: 3s}\n":                            "moon",
		head + "failOn: sometimes\n":                             "sometimes",
		head + "kubernetes: latest\n":                            "latest",
		head + "rules: {DP501: {severity: info}}\nrules: {}\n":   "rules",
		"- a list\n": "configuration",
	} {
		_, err := ParseConfig("c.yaml", []byte(text))
		if err == nil || fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "c.yaml") {
			t.Errorf("%q: error %v, wanted a usage fault that names c.yaml and %q", text, err, word)
		}
	}
}

func TestBaselineHoldsOldDebts(t *testing.T) {
	first := Run(build(t, "{}", "{}"), Options{Server: DefaultServer})
	text, err := NewBaseline(first).JSON()
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseBaseline("debts.json", text)
	if err != nil {
		t.Fatal(err)
	}
	second := Run(build(t, "{}", "{}"), Options{Server: DefaultServer, Baseline: b})
	if len(second.Findings) != 0 || len(second.Suppressed) != len(first.Findings) {
		t.Errorf("with the baseline %d findings are left, %d suppressed of %d", len(second.Findings), len(second.Suppressed), len(first.Findings))
	}
	if again, err := NewBaseline(second).JSON(); err != nil || string(again) != string(text) {
		t.Errorf("a baseline written with itself in force differs (%v):\n%s", err, again)
	}
	b.index[Debt{Rule: "DP103", Kind: "Deployment", Name: "gone", Path: "spec"}] = true
	r := Run(build(t, "{}", "{}"), Options{Server: DefaultServer, Baseline: b})
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "no longer apply") }) {
		t.Errorf("no note says that a debt is paid: %v", r.Notes)
	}
}

func TestBaselineRefusals(t *testing.T) {
	for _, text := range []string{"", "[]", `{"schema":"other","debts":[]}`, `{"schema":"` + BaselineSchema + `","debts":[],"more":1}`} {
		if _, err := ParseBaseline("debts.json", []byte(text)); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: error %v, wanted a usage fault", text, err)
		}
	}
}

func TestParseServer(t *testing.T) {
	for text, minor := range map[string]int{"v1.34": 34, "1.29": 29, "v1.37.2": 37, "v1.31.4-gke.100": 31, "v1.30.1+k3s1": 30} {
		if s, err := ParseServer(text); err != nil || s.Minor != minor || s.String() != text {
			t.Errorf("%s: %v %v", text, s, err)
		}
	}
	for _, text := range []string{"", "latest", "v2.1", "1", "v1.x", "1.1234"} {
		if s, err := ParseServer(text); err == nil {
			t.Errorf("%q is taken for %v", text, s)
		}
	}
}
