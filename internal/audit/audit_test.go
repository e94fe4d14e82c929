package audit

import (
	"fmt"
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

// TestNotesOfAnnotations: an entry that cannot suppress, or has nothing left to, is named with its own rule.
func TestNotesOfAnnotations(t *testing.T) {
	const head = "annotation drainproof.dev/ignore"
	for name, c := range map[string]struct{ own, pod, want string }{
		"no such rule":            {own: "DP999: why not", want: `Deployment shop/web: ` + head + `: "DP999: why not" suppresses nothing: there is no rule DP999`},
		"no such rule, no reason": {own: "DP999", want: `Deployment shop/web: ` + head + `: "DP999" suppresses nothing: there is no rule DP999`},
		"too many digits":         {own: "DP5010: x", want: `"DP5010: x" suppresses nothing: there is no rule DP5010`},
		"no reason":               {own: "DP501", want: `"DP501" gives no reason and suppresses nothing; write "DP501: the reason"`},
		"an empty reason":         {own: "DP451: ", want: `"DP451:" gives no reason and suppresses nothing; write "DP451: the reason"`},
		"small letters":           {own: "dp501: x", want: `"dp501: x" is not understood and suppresses nothing; write "DP501: the reason"`},
		"no rule at all":          {own: "all of them", want: `"all of them" is not understood and suppresses nothing; write the rule and why: "DP501: one replica is enough at night"`},
		"a debt that is paid":     {own: "DP451: one was enough", want: head + " suppresses nothing: DP451 finds nothing on Deployment shop/web"},
		"paid, on the template":   {pod: "DP501: by hand; DP451: one was enough", want: head + " suppresses nothing: DP451 finds nothing on Deployment shop/web"},
		"in use":                  {own: "DP501: by hand", pod: "DP103: see the runbook"},
	} {
		t.Run(name, func(t *testing.T) {
			quoted := func(s string) string { return `{drainproof.dev/ignore: "` + s + `"}` }
			var got []string
			for _, n := range Run(build(t, quoted(c.own), quoted(c.pod)), Options{Server: DefaultServer}).Notes {
				if strings.Contains(n, IgnoreAnnotation) {
					got = append(got, n)
				}
			}
			if c.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || c.want == "" || !strings.Contains(got[0], c.want) {
				t.Errorf("notes %q, wanted %q", got, c.want)
			}
		})
	}
}

// TestAnnotationBesideConfiguration: the rule finds something, so the entry is not called idle though the configuration comes first.
func TestAnnotationBesideConfiguration(t *testing.T) {
	c, err := ParseConfig("c.yaml", []byte("apiVersion: drainproof.dev/v1\nkind: AuditConfig\nignore: [{rule: DP501, reason: by hand}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := Run(build(t, `{drainproof.dev/ignore: "DP501: by hand"}`, "{}"), Options{Server: DefaultServer, Config: c})
	if len(r.Suppressed) != 1 || r.Suppressed[0].By != "config" || slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "suppresses nothing") }) {
		t.Errorf("suppressed %+v, notes %q", r.Suppressed, r.Notes)
	}
}

// TestVerdictIsPhysics: what is suppressed loses traffic all the same.
func TestVerdictIsPhysics(t *testing.T) {
	o := finding.Object{Kind: "Deployment", Name: "web"}
	ns := func(n int64) *int64 { return &n }
	on := func(s finding.Severity) finding.Finding { return finding.Finding{Severity: s, Object: o} }
	around := finding.Finding{Severity: finding.Error, Object: finding.Object{Kind: "Service", Name: "web"}, Workload: &o}
	other := finding.Finding{Severity: finding.Error, Object: finding.Object{Kind: "Deployment", Name: "other"}}
	for name, c := range map[string]struct {
		live, quiet []finding.Finding
		left        *int64
		unreached   bool
		want        string
	}{
		"clean":                     {left: ns(5e9), want: "no loss found; 5 s of the grace period are left"},
		"clean, in fractions":       {left: ns(1359999999), want: "no loss found; 1.36 s of the grace period are left"},
		"drain not known":           {want: "no loss found; what the application does on its stop signal is not known"},
		"does not fit":              {left: ns(-5e9), want: "can lose traffic when it is terminated: hook and drain take 5 s longer than the grace period"},
		"suppressed":                {quiet: []finding.Finding{on(finding.Error), on(finding.Info)}, left: ns(-5e9), want: "loses traffic when it is terminated; 2 findings suppressed"},
		"suppressed, one":           {quiet: []finding.Finding{on(finding.Warning)}, left: ns(5e9), want: "can lose traffic when it is terminated; 1 finding suppressed"},
		"suppressed, on a Service":  {quiet: []finding.Finding{around}, want: "loses traffic when it is terminated; 1 finding suppressed"},
		"suppressed question":       {quiet: []finding.Finding{on(finding.Info)}, want: "depends on the application; 1 finding suppressed"},
		"the worst is suppressed":   {live: []finding.Finding{on(finding.Info)}, quiet: []finding.Finding{on(finding.Error)}, want: "loses traffic when it is terminated; 1 finding suppressed"},
		"of another":                {quiet: []finding.Finding{other}, left: ns(0), want: "no loss found; 0 s of the grace period are left"},
		"no traffic":                {unreached: true, want: "nothing in the input sends it traffic"},
		"no traffic, a finding":     {unreached: true, live: []finding.Finding{on(finding.Warning)}, want: "nothing in the input sends it traffic, but it has findings of its own"},
		"no traffic, a suppression": {unreached: true, quiet: []finding.Finding{on(finding.Warning)}, want: "nothing in the input sends it traffic; 1 finding suppressed"},
	} {
		w := finding.Workload{Object: o, Paths: []string{"clusterip"}, Budget: finding.Budget{LeftNs: c.left}}
		if c.unreached {
			w.Paths = nil
		}
		var suppressed []finding.Suppressed
		for _, f := range c.quiet {
			suppressed = append(suppressed, finding.Suppressed{Finding: f, By: "annotation"})
		}
		if got := verdict(w, count(c.live, suppressed)[w.Object]); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// TestBaselineChangesNoVerdict: with every finding an old debt the workload still loses what it lost.
func TestBaselineChangesNoVerdict(t *testing.T) {
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
	want := fmt.Sprintf("%s; %d findings suppressed", first.Workloads[0].Verdict, len(first.Findings))
	if got := second.Workloads[0].Verdict; got != want {
		t.Errorf("verdict %q, not %q", got, want)
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
