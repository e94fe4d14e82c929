package model

import "testing"

func TestServices(t *testing.T) {
	m := build(t, `
apiVersion: v1
kind: Service
metadata: {name: plain}
spec:
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: all, annotations: {a: b}}
spec:
  type: LoadBalancer
  clusterIP: None
  selector: {app: web}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  publishNotReadyAddresses: true
  sessionAffinity: ClientIP
  loadBalancerClass: service.k8s.aws/nlb
  ports:
  - {name: http, port: 80, targetPort: web, nodePort: 30080, appProtocol: kubernetes.io/h2c}
  - {name: dns, port: 53, targetPort: 0, protocol: UDP}
`)
	same(t, []*Service{
		{
			Type: "ClusterIP", ExternalTrafficPolicy: "Cluster", InternalTrafficPolicy: "Cluster", SessionAffinity: "None",
			Ports: []ServicePort{{Protocol: "TCP", Port: 80, Target: "80", At: "spec.ports[0]"}},
		},
		{
			Type: "LoadBalancer", Headless: true, Selector: map[string]string{"app": "web"},
			ExternalTrafficPolicy: "Local", InternalTrafficPolicy: "Local", PublishNotReady: true, SessionAffinity: "ClientIP",
			LoadBalancerClass: "service.k8s.aws/nlb", Annotations: map[string]string{"a": "b"},
			Ports: []ServicePort{
				{Name: "http", Protocol: "TCP", AppProtocol: "kubernetes.io/h2c", Port: 80, Target: "web", NodePort: 30080, At: "spec.ports[0]"},
				{Name: "dns", Protocol: "UDP", Port: 53, Target: "53", At: "spec.ports[1]"},
			},
		},
	}, m.Services)
}

func TestDisruptionBudgets(t *testing.T) {
	m := build(t, `
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 50%}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec:
  maxUnavailable: 0
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {app: web}
    matchExpressions: [{key: tier, operator: NotIn, values: [a, b]}, {key: x, operator: Near}]
`)
	same(t, []*PDB{
		{MinAvailable: IntOrPercent{50, true, true}, UnhealthyPodEvictionPolicy: "IfHealthyBudget"},
		{
			MaxUnavailable: IntOrPercent{Set: true}, UnhealthyPodEvictionPolicy: "AlwaysAllow",
			Selector: Selector{Set: true, Labels: map[string]string{"app": "web"}, Expressions: []Requirement{
				{"tier", "NotIn", []string{"a", "b"}}, {"x", "Near", nil},
			}},
		},
	}, m.PDBs)
	same(t, []string{`PodDisruptionBudget b: spec.selector.matchExpressions[1].operator is "Near", which is no operator: the selector matches nothing`}, m.Notes)
}

func TestAutoscalers(t *testing.T) {
	m := build(t, `
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 10}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: b}
spec:
  scaleTargetRef: {kind: StatefulSet, name: db}
  minReplicas: 3
  maxReplicas: 10
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
---
{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: c}, spec: {scaleTargetRef: {name: web}}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: d}
spec:
  scaleTargetRef: {kind: StatefulSet, name: db}
  minReplicaCount: 2
  maxReplicaCount: 5
  cooldownPeriod: 60
  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 600}}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: keda-hpa-d, ownerReferences: [{kind: ScaledObject, name: d, controller: true}]}, spec: {scaleTargetRef: {kind: StatefulSet, name: db}}}
`)
	same(t, []*HPA{
		{TargetKind: "Deployment", TargetName: "web", MinReplicas: Int{N: 1}, MaxReplicas: Int{10, true}, ScaleDownStabilization: Int{N: 300}},
		{TargetKind: "StatefulSet", TargetName: "db", MinReplicas: Int{3, true}, MaxReplicas: Int{10, true}, ScaleDownStabilization: Int{0, true}},
		{TargetKind: "Deployment", TargetName: "web", MaxReplicas: Int{N: 100}, ScaleDownStabilization: Int{N: 300}, Cooldown: Int{N: 300}},
		{
			TargetKind: "StatefulSet", TargetName: "db", MinReplicas: Int{2, true}, MaxReplicas: Int{5, true},
			ScaleDownStabilization: Int{600, true}, Cooldown: Int{60, true},
		},
	}, m.HPAs)
}
