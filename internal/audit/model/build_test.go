package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// objects reads YAML; tabs would be a mistake of the test.
func objects(t testing.TB, file, text string) []*manifest.Object {
	t.Helper()
	all, err := manifest.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func build(t testing.TB, text string) *Model {
	t.Helper()
	return Build(objects(t, "all.yaml", text), Options{})
}

// only gives the single workload of a text, without objects and joins, and fails on notes.
func only(t *testing.T, text string) Workload {
	t.Helper()
	m := build(t, text)
	if len(m.Workloads) != 1 || len(m.Notes) > 0 {
		t.Fatalf("%d workloads, notes %q", len(m.Workloads), m.Notes)
	}
	return *m.Workloads[0]
}

// own leaves out what refers to other objects.
var own = cmp.Options{
	cmpopts.IgnoreFields(Workload{}, "Object", "PodObject", "Services", "Fronts", "PDBs", "HPAs"),
	cmpopts.IgnoreFields(Service{}, "Object", "Workloads", "Fronts"),
	cmpopts.IgnoreFields(PDB{}, "Object", "Workloads"),
	cmpopts.IgnoreFields(HPA{}, "Object", "Workload"),
	cmpopts.IgnoreFields(Front{}, "Object", "Services"),
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, own); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// alwaysPod is a Pod whose every setting is the API's default.
var alwaysPod = Pod{Grace: Int{N: 30}, RestartPolicy: "Always"}

func TestDefaultsByKind(t *testing.T) {
	template := func(pod string, containers ...*Container) Pod {
		p := alwaysPod
		for _, c := range containers {
			c.Name, c.Image, c.Path = "app", "app", pod+".containers[0]"
			p.Containers = append(p.Containers, c)
		}
		return p
	}
	labels := map[string]string{"app": "web"}
	tests := []struct {
		kind, path string
		want       Workload
	}{
		{"apps/v1 Deployment", "spec.template", Workload{
			Replicas: Int{N: 1}, Strategy: "RollingUpdate",
			MaxUnavailable: IntOrPercent{N: 25, Percent: true}, MaxSurge: IntOrPercent{N: 25, Percent: true},
		}},
		{"apps/v1 StatefulSet", "spec.template", Workload{Replicas: Int{N: 1}, Strategy: "RollingUpdate", MaxUnavailable: IntOrPercent{N: 1}}},
		{"apps/v1 DaemonSet", "spec.template", Workload{Strategy: "RollingUpdate", MaxUnavailable: IntOrPercent{N: 1}}},
		{"apps/v1 ReplicaSet", "spec.template", Workload{Replicas: Int{N: 1}}},
		{"v1 ReplicationController", "spec.template", Workload{Replicas: Int{N: 1}}},
		{"batch/v1 Job", "spec.template", Workload{Replicas: Int{N: 1}}},
		{"batch/v1 CronJob", "spec.jobTemplate.spec.template", Workload{Replicas: Int{N: 1}}},
		{"argoproj.io/v1alpha1 Rollout", "spec.template", Workload{Replicas: Int{N: 1}}},
		{"v1 Pod", "", Workload{Replicas: Int{N: 1}}},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			var at []string
			if test.path != "" {
				at = strings.Split(test.path, ".")
			}
			version, kind, _ := strings.Cut(test.kind, " ")
			// The template, put down where the kind has it.
			inner := "metadata: {name: web, labels: {app: web}}\nspec: {containers: [{name: app, image: app}]}\n"
			head := fmt.Sprintf("apiVersion: %s\nkind: %s\n", version, kind)
			if len(at) > 0 {
				head += "metadata: {name: web}\n"
			}
			for i, key := range at {
				head += strings.Repeat(" ", i) + key + ":\n"
			}
			for line := range strings.Lines(inner) {
				head += strings.Repeat(" ", len(at)) + line
			}
			want := test.want
			want.PodPath, want.Labels = test.path, labels
			pod := "spec"
			if test.path != "" {
				pod = test.path + ".spec"
			}
			want.Pod = template(pod, &Container{})
			got := only(t, head)
			same(t, want, got)
			if got.SpecPath() != pod || got.PodObject != got.Object {
				t.Errorf("spec path %q, template in %v", got.SpecPath(), got.PodObject)
			}
		})
	}
}

func TestWhatIsWrittenIsSet(t *testing.T) {
	got := only(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, annotations: {drainproof.dev/drain: 25s}}
spec:
  replicas: 0
  minReadySeconds: 5
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 50%}}
  template:
    metadata: {labels: {app: web}, annotations: {note: "1"}}
    spec:
      terminationGracePeriodSeconds: 0
      restartPolicy: Always
      hostNetwork: true
      shareProcessNamespace: true
      os: {name: linux}
      readinessGates: [{conditionType: target-health.elbv2.k8s.aws/web}]
`)
	same(t, Workload{
		PodPath: "spec.template", Replicas: Int{0, true}, MinReady: Int{5, true}, Strategy: "RollingUpdate", StrategySet: true,
		MaxUnavailable: IntOrPercent{0, false, true}, MaxSurge: IntOrPercent{50, true, true},
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "1"},
		OwnAnnotations: map[string]string{"drainproof.dev/drain": "25s"},
		Pod: Pod{
			Grace: Int{0, true}, RestartPolicy: "Always", HostNetwork: true, OSName: "linux", ShareProcessNamespace: true,
			ReadinessGates: []string{"target-health.elbv2.k8s.aws/web"},
		},
	}, got)
}

func TestStrategies(t *testing.T) {
	percent := func(n int64) IntOrPercent { return IntOrPercent{N: n, Percent: true} }
	tests := []struct {
		name, kind, spec string
		want             Workload
	}{
		{"recreate", "apps/v1 Deployment", "strategy: {type: Recreate}", Workload{Strategy: "Recreate", StrategySet: true}},
		{"one at a time", "apps/v1 Deployment", "strategy: {rollingUpdate: {maxSurge: 1}}", Workload{
			Strategy: "RollingUpdate", MaxSurge: IntOrPercent{N: 1, Set: true}, MaxUnavailable: percent(25),
		}},
		{"on delete", "apps/v1 StatefulSet", "updateStrategy: {type: OnDelete}", Workload{Strategy: "OnDelete", StrategySet: true}},
		{"a StatefulSet has no surge", "apps/v1 StatefulSet", "updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2, maxSurge: 3}}", Workload{
			Strategy: "RollingUpdate", StrategySet: true, MaxUnavailable: IntOrPercent{N: 2, Set: true},
		}},
		{"a DaemonSet with surge", "apps/v1 DaemonSet", "updateStrategy: {rollingUpdate: {maxSurge: 10%, maxUnavailable: 0}}", Workload{
			Strategy: "RollingUpdate", MaxSurge: IntOrPercent{10, true, true}, MaxUnavailable: IntOrPercent{Set: true},
		}},
		{"canary", "argoproj.io/v1alpha1 Rollout", "strategy: {canary: {maxSurge: 2}}", Workload{
			Strategy: "Canary", StrategySet: true, MaxSurge: IntOrPercent{N: 2, Set: true}, MaxUnavailable: percent(25),
		}},
		{"canary with a router", "argoproj.io/v1alpha1 Rollout", "strategy: {canary: {trafficRouting: {alb: {ingress: web}}}}", Workload{
			Strategy: "Canary", StrategySet: true, MaxSurge: percent(25), MaxUnavailable: percent(25), ScaleDownDelay: Int{N: 30},
		}},
		{"blue-green", "argoproj.io/v1alpha1 Rollout", "strategy: {blueGreen: {activeService: web, scaleDownDelaySeconds: 60}}", Workload{
			Strategy: "BlueGreen", StrategySet: true, MaxUnavailable: percent(25), ScaleDownDelay: Int{60, true},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			version, kind, _ := strings.Cut(test.kind, " ")
			got := only(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: web}, spec: {%s}}", version, kind, test.spec))
			want := test.want
			want.PodPath, want.Pod, want.Replicas = "spec.template", alwaysPod, got.Replicas
			same(t, want, got)
		})
	}
}

func TestParallelJobsAreCounted(t *testing.T) {
	got := only(t, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: j}, spec: {jobTemplate: {spec: {parallelism: 4, template: {metadata: {labels: {a: b}}}}}}}")
	if got.Replicas != (Int{4, true}) || got.Labels["a"] != "b" || got.SpecPath() != "spec.jobTemplate.spec.template.spec" {
		t.Errorf("%+v", got)
	}
}

func TestARolloutBorrowsItsTemplate(t *testing.T) {
	m := build(t, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 5
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 45, containers: [{name: app, image: app}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {kind: Deployment, name: web}}}
`)
	if len(m.Workloads) != 1 {
		t.Fatalf("the Deployment that lends its template is a workload too: %d", len(m.Workloads))
	}
	w := m.Workloads[0]
	if w.Object.Kind != "Rollout" || w.PodObject.Kind != "Deployment" || w.Replicas.N != 5 || w.Strategy != "Canary" ||
		w.Pod.Grace != (Int{45, true}) || len(w.Services) != 1 || m.HPAs[0].Workload != w {
		t.Errorf("%+v", w)
	}
	if path := w.Pod.Containers[0].Path; w.PodObject.Find(path+".name").Text() != "app" {
		t.Errorf("the container's path %s leads nowhere in the object that holds it", path)
	}
}

func TestARolloutWhoseTemplateIsElsewhere(t *testing.T) {
	m := build(t, `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
`)
	if len(m.Workloads) != 1 || len(m.Services[0].Workloads) != 1 || m.Workloads[0].Pod.Grace.N != 30 {
		t.Errorf("%+v", m.Workloads)
	}
	same(t, []string{"Rollout web: spec.workloadRef names Deployment web, which the input does not hold: its Pods are unknown"}, m.Notes)
}

const ownedByOthers = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {metadata: {labels: {app: web}}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, ownerReferences: [{kind: Deployment, name: web, controller: true}]}, spec: {template: {metadata: {labels: {app: web}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1-a, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: web-1, controller: true}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: alone, labels: {app: alone}, ownerReferences: [{kind: ConfigMap, name: x}]}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, ownerReferences: [{kind: Prometheus, name: x, controller: true}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: tick-1, ownerReferences: [{kind: CronJob, name: tick, controller: true}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kafka-0, labels: {app: kafka}, ownerReferences: [{kind: StrimziPodSet, name: kafka, controller: true}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kafka-1, labels: {app: kafka}, ownerReferences: [{kind: StrimziPodSet, name: kafka, controller: true}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: kafka}, spec: {selector: {app: kafka}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: kafka}, spec: {selector: {matchLabels: {app: kafka}}}}
`

func names(m *Model) []string {
	var names []string
	for _, w := range m.Workloads {
		names = append(names, w.Object.Kind+" "+w.Object.Name)
	}
	return names
}

func TestWhatControllersMadeIsNoWorkload(t *testing.T) {
	live := Build(objects(t, "", ownedByOthers), Options{Live: true})
	same(t, []string{"Deployment web", "Pod alone", "StatefulSet db"}, names(live))
	if !live.Live || live.Objects != 11 {
		t.Errorf("live %v, %d objects", live.Live, live.Objects)
	}
	if s := live.Services; s[0].OtherPods != 2 || s[1].OtherPods != 0 || live.PDBs[0].OtherPods != 2 {
		t.Errorf("other Pods: %d, %d, %d", s[0].OtherPods, s[1].OtherPods, live.PDBs[0].OtherPods)
	}
	// In files an owner that was left out cannot speak for what it owns.
	files := build(t, ownedByOthers)
	same(t, []string{"Deployment web", "Pod alone", "StatefulSet db", "Job tick-1", "Pod kafka-0", "Pod kafka-1"}, names(files))
}

func TestOtherKindsAreLeftAlone(t *testing.T) {
	m := build(t, `
{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}, spec: {selector: {a: b}}}
---
{apiVersion: example.com/v1, kind: Deployment, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: 7}
---
{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: a}}
`)
	same(t, &Model{Objects: 4}, m)
}

func TestNothing(t *testing.T) {
	same(t, &Model{}, Build(nil, Options{}))
	same(t, &Model{}, Build([]*manifest.Object{nil}, Options{}))
	same(t, 1, len(Build([]*manifest.Object{{APIVersion: "v1", Kind: "Service"}}, Options{}).Services))
}

func TestWrongShapesAreNotedAndPassedOver(t *testing.T) {
	m := build(t, `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, annotations: 5}
spec:
  replicas: three
  minReadySeconds: 99999999999
  strategy: {rollingUpdate: {maxSurge: half}}
  template:
    metadata: {labels: [a], annotations: {a: {b: c}, d: 1}}
    spec:
      hostNetwork: "yes"
      containers:
      - oops
      - name: [app]
        image: app
        command: sh -c x
        args: [a, {b: c}]
        ports: [{containerPort: http}]
        readinessProbe: true
        livenessProbe: {httpGet: 8080, periodSeconds: 0}
        lifecycle: {preStop: sleep 5}
`)
	w := m.Workloads[0]
	same(t, []string{
		`Deployment shop/web: metadata.annotations (all.yaml:3) is a number "5", not a map; it is left out`,
		`Deployment shop/web: spec.replicas (all.yaml:5) is a text "three", not a whole number of at most 32 bits; it is left out`,
		`Deployment shop/web: spec.minReadySeconds (all.yaml:6) is a number "99999999999", not a whole number of at most 32 bits; it is left out`,
		`Deployment shop/web: spec.strategy.rollingUpdate.maxSurge (all.yaml:7) is a text "half", not a whole number or percentage; it is left out`,
		`Deployment shop/web: spec.template.metadata.labels (all.yaml:9) is a list, not a map; it is left out`,
		`Deployment shop/web: spec.template.metadata.annotations["a"] (all.yaml:9) is a map, not a text; it is left out`,
		`Deployment shop/web: spec.template.spec.hostNetwork (all.yaml:11) is a text "yes", not a truth value; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[0] (all.yaml:13) is a text "oops", not a map; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].name (all.yaml:14) is a list, not a text; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].command (all.yaml:16) is a text "sh -c x", not a list; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].args[1] (all.yaml:17) is a map, not a text; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].readinessProbe (all.yaml:19) is a truth value "true", not a map; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].livenessProbe.httpGet (all.yaml:20) is a number "8080", not a map; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].ports[0].containerPort (all.yaml:18) is a text "http", not a whole number of at most 32 bits; it is left out`,
		`Deployment shop/web: spec.template.spec.containers[1].lifecycle.preStop (all.yaml:21) is a text "sleep 5", not a map; it is left out`,
	}, m.Notes)
	p := alwaysPod
	p.Containers = []*Container{{
		Image: "app", Args: []string{"a"}, Ports: []Port{{Protocol: "TCP"}}, Path: "spec.template.spec.containers[1]",
		Liveness: &Probe{Period: Int{N: 10}, Timeout: Int{N: 1}, Failure: Int{N: 3}, Success: Int{N: 1}, At: "spec.template.spec.containers[1].livenessProbe"},
	}}
	same(t, Workload{
		PodPath: "spec.template", Replicas: Int{N: 1}, Strategy: "RollingUpdate",
		MaxUnavailable: IntOrPercent{N: 25, Percent: true}, MaxSurge: IntOrPercent{N: 25, Percent: true},
		Annotations: map[string]string{"d": "1"}, Pod: p,
	}, *w)
}
