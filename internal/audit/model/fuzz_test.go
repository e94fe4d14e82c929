package model

import (
	"strconv"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// everything asks the model all that a rule can ask.
func everything(t testing.TB, m *Model) {
	t.Helper()
	for _, w := range m.Workloads {
		w.ReceivesTraffic()
		w.Serving()
		w.UDP()
		w.RollingUpdate(w.Replicas.N)
		if w.Object == nil || w.PodObject == nil {
			t.Error("a workload without an object")
		}
		for _, c := range w.all() {
			for _, h := range []*Hook{c.PreStop, c.PostStart} {
				if h != nil {
					sane(t, h)
				}
			}
		}
		for _, s := range w.Services {
			for _, target := range s.TargetsOf(w) {
				if target.Container == nil {
					t.Error("a target without a container")
				}
			}
		}
	}
	for _, n := range m.Notes {
		if !strings.Contains(n, ": ") {
			t.Errorf("a note that names no object: %q", n)
		}
	}
}

// FuzzBuild: whatever the loader lets through, Build takes.
func FuzzBuild(f *testing.F) {
	for _, kind := range []string{
		"apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "batch/v1 CronJob", "argoproj.io/v1alpha1 Rollout", "v1 Pod", "v1 Service",
		"networking.k8s.io/v1 Ingress", "gateway.networking.k8s.io/v1 HTTPRoute", "policy/v1 PodDisruptionBudget", "autoscaling/v2 HorizontalPodAutoscaler",
		"keda.sh/v1alpha1 ScaledObject", "discovery.k8s.io/v1 EndpointSlice", "apps.kruise.io/v1alpha1 CloneSet",
	} {
		version, kind, _ := strings.Cut(kind, " ")
		f.Add("apiVersion: "+version+"\nkind: "+kind+"\nmetadata: {name: x}\nspec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{ports: [{}]}]}}}\n", true)
		f.Add("{apiVersion: "+version+", kind: "+kind+", metadata: [], spec: 5}", false)
	}
	f.Add(ownedByOthers, true)
	f.Fuzz(func(t *testing.T, text string, live bool) {
		all, err := manifest.Parse("fuzz.yaml", []byte(text))
		if err != nil {
			return
		}
		everything(t, Build(all, Options{Live: live}))
	})
}

// FuzzHook: a command of any words gives a hook that keeps its promises.
func FuzzHook(f *testing.F) {
	for _, text := range []string{
		"sleep 5 && nginx -s quit", "a | b || c & d", "if x; then y; fi", `"$(a "b" ${c:-$(d)} 'e')"`, "cat <<E\nx\nE", "sleep 1e999", "`\\", "$((1<<2))", "x=", "[ a ]",
	} {
		f.Add("sh", "-c", text)
	}
	f.Add("python", "-c", "import time; time.sleep(1)")
	f.Add("pwsh", "-Command", "Start-Sleep -s 1")
	f.Add("sleep", "1", "2m")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, command := range [][]string{{a}, {a, b}, {a, b, c}, {"sh", "-c", c}, {"sh", "-ec", a + b + c}} {
			h := &Hook{How: "exec", Exec: command}
			h.time(readCommand(command))
			sane(t, h)
		}
	})
}

// BenchmarkBuild is 10,000 objects: 2,500 applications in one namespace.
func BenchmarkBuild(b *testing.B) {
	application := `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: $}, spec: {template: {metadata: {labels: {app: $, tier: web}}, spec: {containers: [{name: app, image: app, ports: [{containerPort: 80}], lifecycle: {preStop: {exec: {command: [sh, -c, sleep 5 && nginx -s quit]}}}}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: $}, spec: {selector: {app: $, tier: web}, ports: [{port: 80}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: $}, spec: {defaultBackend: {service: {name: $}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: $}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: $}}}}
---
`
	var text strings.Builder
	for i := range 2500 {
		text.WriteString(strings.ReplaceAll(application, "$", "web-"+strconv.Itoa(i)))
	}
	all := objects(b, "all.yaml", text.String())
	b.ReportAllocs()
	for b.Loop() {
		if m := Build(all, Options{}); len(m.Fronts[2499].Services[0].Workloads[0].PDBs) != 1 {
			b.Fatal("the last application is not joined")
		}
	}
}
