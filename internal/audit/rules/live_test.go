package rules

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// judged runs all rules and gives the findings of one as "severity object".
func judged(t *testing.T, id, text string, o model.Options) []string {
	t.Helper()
	objects, err := manifest.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, f := range Check(model.Build(objects, o), 37, budget.Floors{}) {
		if f.Rule == id {
			got = append(got, string(f.Severity)+" "+f.Object.Kind+"/"+f.Object.Name)
		}
	}
	return got
}

const autoscaled = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: registry.example.org/web:1, ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 6}
`

const strangers = `
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {selector: {app: postgres}, ports: [{port: 5432}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: postgres}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec: {defaultBackend: {service: {name: checkout, port: {number: 80}}}}
`

// TestLive: what a cluster does not hold does not exist, and what it holds was not
// always written by a person.
func TestLive(t *testing.T) {
	live := model.Options{Live: true}
	const slice = `
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
endpoints: [{addresses: [10.0.0.7]}]
`
	for _, tc := range []struct {
		name, id, text string
		o              model.Options
		want           []string
	}{
		{"a manifest's replica count is applied again", "DP552", autoscaled, model.Options{}, []string{"warning Deployment/web"}},
		{"a cluster's was written by the autoscaler", "DP552", autoscaled, live, []string{}},
		{"a file may leave the operator out", "DP861", autoscaled + strangers, model.Options{}, []string{"info Service/db"}},
		{"a cluster leaves nothing out", "DP861", autoscaled + strangers, live, []string{"error Service/db"}},
		{"its endpoints come from elsewhere", "DP861", autoscaled + strangers + slice, live, []string{}},
		{"a budget in a file", "DP504", autoscaled + strangers, model.Options{}, []string{"info PodDisruptionBudget/db"}},
		{"a budget in a cluster", "DP504", autoscaled + strangers, live, []string{"warning PodDisruptionBudget/db"}},
		{"a backend in a file", "DP865", autoscaled + strangers, model.Options{}, []string{"warning Ingress/shop"}},
		{"a backend in a cluster", "DP865", autoscaled + strangers, live, []string{"error Ingress/shop"}},
		{"files without any workload say nothing", "DP861", strangers, model.Options{}, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := judged(t, tc.id, tc.text, tc.o); !slices.Equal(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.id, got, tc.want)
			}
		})
	}
}

// TestNoHigherThanItsRule: a finding may be milder than its rule, never worse, and one that
// depends on the application says how to settle it.
func TestNoHigherThanItsRule(t *testing.T) {
	usual := map[string]finding.Severity{}
	for _, r := range All() {
		usual[r.ID] = r.Severity
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := manifest.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []model.Options{{}, {Live: true}} {
			for _, f := range Check(model.Build(objects, o), 37, budget.Floors{}) {
				if f.Severity.Rank() > usual[f.Rule].Rank() {
					t.Errorf("%s: %s reports %s, its rule says %s", file, f.Rule, f.Severity, usual[f.Rule])
				}
				if f.Severity == finding.Info && f.Ask == "" {
					t.Errorf("%s: %s is info and asks nothing: %s", file, f.Rule, f.Message)
				}
				if len(f.Facts) == 0 {
					t.Errorf("%s: %s rests on no fact: %s", file, f.Rule, f.Message)
				}
			}
		}
	}
}
