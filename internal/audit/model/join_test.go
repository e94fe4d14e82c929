package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

func called[T interface{ objectName() string }](all []T) []string {
	var names []string
	for _, t := range all {
		names = append(names, t.objectName())
	}
	return names
}

func (w *Workload) objectName() string { return w.Object.Kind + "/" + w.Object.Name }
func (s *Service) objectName() string  { return s.Object.Name }
func (f *Front) objectName() string    { return f.Object.Name }
func (p *PDB) objectName() string      { return p.Object.Name }
func (h *HPA) objectName() string      { return h.Object.Name }

func TestJoinsGoBothWays(t *testing.T) {
	m := build(t, `
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: site}, spec: {rules: [{http: {paths: [{backend: {service: {name: web, port: {number: 80}}}}]}}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web-peers}, spec: {clusterIP: None, selector: {app: web}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {metadata: {labels: {app: web, tier: front}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: canary}, spec: {template: {metadata: {labels: {app: web, tier: canary}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: worker}, spec: {template: {metadata: {labels: {app: worker}}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: front}, spec: {minAvailable: 1, selector: {matchExpressions: [{key: tier, operator: In, values: [front]}]}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all}, spec: {minAvailable: 1, selector: {}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: nothing}, spec: {minAvailable: 1}}
---
{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: beta}, spec: {minAvailable: 1, selector: {}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {kind: Deployment, name: web}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: lost}, spec: {scaleTargetRef: {kind: StatefulSet, name: web}}}
`)
	web, canary, worker := m.Workloads[0], m.Workloads[1], m.Workloads[2]
	same(t, []string{"web", "web-peers"}, called(web.Services))
	same(t, []string{"web", "web-peers"}, called(canary.Services))
	same(t, []string(nil), called(worker.Services))
	same(t, []string{"Deployment/web", "Deployment/canary"}, called(m.Services[0].Workloads))
	same(t, []string{"Deployment/web", "Deployment/canary"}, called(m.Services[1].Workloads))
	same(t, []string{"site"}, called(web.Fronts))
	same(t, []string{"site"}, called(m.Services[0].Fronts))
	same(t, []string(nil), called(m.Services[1].Fronts))
	same(t, []string{"web"}, called(m.Fronts[0].Services))
	same(t, []string{"front", "all"}, called(web.PDBs))
	same(t, []string{"all"}, called(worker.PDBs))
	same(t, []string{"Deployment/web"}, called(m.PDBs[0].Workloads))
	same(t, []string{"Deployment/web", "Deployment/canary", "Deployment/worker"}, called(m.PDBs[1].Workloads))
	same(t, []string(nil), called(m.PDBs[2].Workloads))
	same(t, []string(nil), called(m.PDBs[3].Workloads))
	same(t, []string{"web"}, called(web.HPAs))
	if m.HPAs[0].Workload != web || m.HPAs[1].Workload != nil {
		t.Errorf("autoscalers scale %v and %v", m.HPAs[0].Workload, m.HPAs[1].Workload)
	}
}

func TestNamespaces(t *testing.T) {
	workload := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web%s}, spec: {template: {metadata: {labels: {app: web}}}}}\n---\n"
	service := "{apiVersion: v1, kind: Service, metadata: {name: web%s}, spec: {selector: {app: web}}}\n---\n"
	pdb := "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web%s}, spec: {selector: {}}}\n---\n"
	hpa := "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: web%s}, spec: {scaleTargetRef: {kind: Deployment, name: web}}}\n---\n"
	ingress := "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web%s}, spec: {defaultBackend: {service: {name: web}}}}\n"
	in := func(ns string) string {
		if ns == "" {
			return ""
		}
		return ", namespace: " + ns
	}
	tests := []struct {
		workload, others string
		joined           bool
	}{
		{"", "", true}, {"a", "a", true}, {"", "default", true}, {"default", "", true}, {"a", "b", false}, {"a", "", false}, {"", "b", false},
	}
	for _, test := range tests {
		o := in(test.others)
		m := build(t, fmt.Sprintf(workload+service+pdb+hpa+ingress, in(test.workload), o, o, o, o))
		w := m.Workloads[0]
		got := []bool{len(w.Services) == 1, len(w.PDBs) == 1, len(w.HPAs) == 1, len(w.Fronts) == 1}
		if slices.Contains(got, !test.joined) {
			t.Errorf("a workload in %q, the others in %q: joined to Service, PDB, HPA, Ingress: %v", test.workload, test.others, got)
		}
		if len(m.Fronts[0].Services) != 1 || len(m.Fronts[0].Missing) != 0 {
			t.Errorf("the Ingress in %q does not find the Service beside it", test.others)
		}
	}
}

func TestIngressBackends(t *testing.T) {
	services := ""
	for _, name := range []string{"a", "b", "c", "d"} {
		services += "---\n{apiVersion: v1, kind: Service, metadata: {name: " + name + "}}\n"
	}
	tests := []struct {
		name, ingress string
		class         string
		services      []string
		missing       []Backend
	}{
		{"v1", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i, annotations: {kubernetes.io/ingress.class: old}}
spec:
  ingressClassName: nginx
  defaultBackend: {service: {name: d, port: {number: 80}}}
  rules:
  - host: x
    http:
      paths:
      - {path: /a, backend: {service: {name: a, port: {name: http}}}}
      - {path: /gone, backend: {service: {name: gone}}}
      - {path: /file, backend: {resource: {kind: Bucket, name: b}}}
  - host: y
  - http: {paths: [{backend: {service: {name: a}}}, {backend: {service: {name: gone}}}]}
`, "nginx", []string{"d", "a"}, []Backend{{"", "gone", "spec.rules[0].http.paths[1].backend.service.name"}}},
		{"extensions/v1beta1", `
apiVersion: extensions/v1beta1
kind: Ingress
metadata: {name: i, annotations: {kubernetes.io/ingress.class: gce}}
spec:
  backend: {serviceName: gone, servicePort: 80}
  rules: [{http: {paths: [{backend: {serviceName: b, servicePort: http}}]}}]
`, "gce", []string{"b"}, []Backend{{"", "gone", "spec.backend.serviceName"}}},
		{"actions of the AWS Load Balancer Controller", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: i
  annotations:
    alb.ingress.kubernetes.io/actions.ssl-redirect: '{"Type":"redirect","RedirectConfig":{"Port":"443"}}'
    alb.ingress.kubernetes.io/actions.both: '{"type":"forward","forwardConfig":{"targetGroups":[{"serviceName":"c","servicePort":"80"},{"serviceName":"gone"},{"targetGroupARN":"arn"}]}}'
spec:
  ingressClassName: alb
  rules:
  - http:
      paths:
      - {backend: {service: {name: ssl-redirect, port: {name: use-annotation}}}}
      - {backend: {service: {name: both, port: {name: use-annotation}}}}
      - {backend: {service: {name: neither, port: {name: use-annotation}}}}
`, "alb", []string{"c"}, []Backend{{"", "gone", `metadata.annotations["alb.ingress.kubernetes.io/actions.both"]`}}},
		{"of wrong shape", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i}
spec: {defaultBackend: a, rules: [{http: {paths: {backend: b}}}, 5]}
`, "", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := build(t, test.ingress+services)
			f := m.Fronts[0]
			same(t, test.class, f.Class)
			same(t, test.services, called(f.Services))
			same(t, test.missing, f.Missing)
			for _, missing := range f.Missing {
				if !f.Object.Find(missing.At).Exists() {
					t.Errorf("%s is not in the Ingress", missing.At)
				}
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"} {
		m := build(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: `+kind+`
metadata: {name: r, namespace: a}
spec:
  parentRefs: [{kind: Service, name: mesh}, {name: public, namespace: infra}, {name: second}]
  rules:
  - backendRefs:
    - {name: web, port: 80}
    - {name: web, namespace: b, port: 80}
    - {name: gone, namespace: b}
    - {group: storage.example, kind: Bucket, name: web}
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: mirror}}}]
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: a}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: b}}
---
{apiVersion: v1, kind: Service, metadata: {name: mirror, namespace: a}}
`)
		f := m.Fronts[0]
		if f.Class != "public" || !slices.Equal(f.Services, m.Services[:2]) {
			t.Errorf("%s: class %q, Services %v", kind, f.Class, called(f.Services))
		}
		same(t, []Backend{{"b", "gone", "spec.rules[0].backendRefs[2].name"}}, f.Missing)
	}
}

func TestBackendsOutsideOfTheNamespacesAskedFor(t *testing.T) {
	all := objects(t, "", `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: a}
spec: {rules: [{backendRefs: [{name: x}, {name: why, namespace: b}]}]}
`)
	x, y := Backend{"a", "x", "spec.rules[0].backendRefs[0].name"}, Backend{"b", "why", "spec.rules[0].backendRefs[1].name"}
	same(t, []Backend{x, y}, Build(all, Options{Live: true}).Fronts[0].Missing)
	same(t, []Backend{x}, Build(all, Options{Live: true, Namespaces: []string{"a"}}).Fronts[0].Missing)
}

func TestLabelsThatControllersGive(t *testing.T) {
	tests := []struct {
		kind, selector string
		selected       bool
	}{
		{"apps/v1, kind: StatefulSet", "app: x, statefulset.kubernetes.io/pod-name: x-0", true},
		{"apps/v1, kind: StatefulSet", "statefulset.kubernetes.io/pod-name: x-0", true},
		{"apps/v1, kind: StatefulSet", "statefulset.kubernetes.io/pod-name: x-y-0", false},
		{"apps/v1, kind: StatefulSet", "statefulset.kubernetes.io/pod-name: x-", false},
		{"apps/v1, kind: Deployment", "statefulset.kubernetes.io/pod-name: x-0", false},
		{"apps/v1, kind: StatefulSet", `app: x, apps.kubernetes.io/pod-index: "0"`, true},
		{"argoproj.io/v1alpha1, kind: Rollout", "app: x, rollouts-pod-template-hash: 5b8f", true},
		{"apps/v1, kind: Deployment", "app: x, rollouts-pod-template-hash: 5b8f", false},
		{"apps/v1, kind: Deployment", "app: x, pod-template-hash: 5b8f", true},
		{"apps/v1, kind: DaemonSet", "app: x, controller-revision-hash: 5b8f", true},
		{"batch/v1, kind: Job", "job-name: x", true},
		{"batch/v1, kind: Job", "batch.kubernetes.io/job-name: y", false},
		{"apps/v1, kind: Deployment", "app: x, tier: y", false},
	}
	for _, test := range tests {
		m := build(t, "{apiVersion: "+test.kind+", metadata: {name: x}, spec: {template: {metadata: {labels: {app: x}}}}}\n---\n"+
			"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {"+test.selector+"}}}")
		if got := len(m.Services[0].Workloads) == 1; got != test.selected {
			t.Errorf("%s: a Service with %s selects it: %v", test.kind, test.selector, got)
		}
	}
}

func TestServicesThatSelectNothing(t *testing.T) {
	m := build(t, `
{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: x}}}
---
{apiVersion: v1, kind: Service, metadata: {name: none}}
---
{apiVersion: v1, kind: Service, metadata: {name: empty}, spec: {selector: {}}}
---
{apiVersion: v1, kind: Service, metadata: {name: elsewhere}, spec: {type: ExternalName, externalName: example.com, selector: {app: x}}}
---
{apiVersion: v1, kind: Service, metadata: {name: other}, spec: {selector: {app: "y"}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: none-1, labels: {kubernetes.io/service-name: none}}, endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: none-2, labels: {kubernetes.io/service-name: none}}, endpoints: [{addresses: [10.0.0.3]}]}
`)
	for i, endpoints := range []int{3, 0, 0, 0} {
		if s := m.Services[i]; len(s.Workloads) > 0 || s.Endpoints != endpoints || s.OtherPods != 0 {
			t.Errorf("Service %s: %d workloads, %d endpoints", s.Object.Name, len(s.Workloads), s.Endpoints)
		}
	}
}

func TestVariantsOfOneApplication(t *testing.T) {
	variant := `
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {defaultBackend: {service: {name: web}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {metadata: {labels: {app: web}}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {kind: Deployment, name: web}}}
`
	documents := strings.Split(variant, "---\n")
	for name, files := range map[string][2][]string{
		"one file each":   {{"aws.yaml"}, {"gcp.yaml"}},
		"one folder each": {{"prod/0.yaml", "prod/1.yaml", "prod/2.yaml", "prod/3.yaml", "prod/4.yaml"}, {"test/0.yaml", "test/1.yaml", "test/2.yaml", "test/3.yaml", "test/4.yaml"}},
	} {
		var all []*manifest.Object
		for _, v := range files {
			for i, d := range documents {
				all = append(all, objects(t, v[i%len(v)], d)...)
			}
		}
		m := Build(all, Options{})
		for i := range 2 {
			s, f, w, p, h := m.Services[i], m.Fronts[i], m.Workloads[i], m.PDBs[i], m.HPAs[i]
			if !slices.Equal(s.Workloads, []*Workload{w}) || !slices.Equal(w.Services, []*Service{s}) || !slices.Equal(f.Services, []*Service{s}) ||
				!slices.Equal(p.Workloads, []*Workload{w}) || !slices.Equal(w.PDBs, []*PDB{p}) || h.Workload != w || !slices.Equal(w.Fronts, []*Front{f}) {
				t.Errorf("%s: the variant in %s is joined to another one's objects", name, s.Object.File)
			}
		}
	}
	// Where none is nearer, all are meant.
	m := Build(slices.Concat(objects(t, "a/x.yaml", documents[2]), objects(t, "b/x.yaml", documents[2]), objects(t, "c/x.yaml", documents[0])), Options{})
	if got := called(m.Services[0].Workloads); len(got) != 2 {
		t.Errorf("a Service of neither variant selects %v", got)
	}
	// Different names are no variants.
	m = Build(slices.Concat(objects(t, "x.yaml", documents[0]), objects(t, "x.yaml", documents[2]), objects(t, "y.yaml", strings.ReplaceAll(documents[2], "name: web", "name: canary"))), Options{})
	same(t, []string{"Deployment/web", "Deployment/canary"}, called(m.Services[0].Workloads))
}

func TestPodsOfCustomResources(t *testing.T) {
	m := build(t, `
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec: {replicas: 3, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, ports: 5}]}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: far}, spec: {selector: {app: web}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {selector: {}}}
`)
	if len(m.Workloads) > 0 || len(m.Notes) > 0 || m.Services[0].OtherPods != 3 || m.Services[1].OtherPods != 0 || m.PDBs[0].OtherPods != 3 {
		t.Errorf("workloads %v, notes %q, other Pods %d, %d, %d", names(m), m.Notes, m.Services[0].OtherPods, m.Services[1].OtherPods, m.PDBs[0].OtherPods)
	}
}
