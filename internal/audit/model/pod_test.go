package model

import (
	"testing"
	"time"
)

func pod(t *testing.T, spec string) Pod {
	t.Helper()
	return only(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"+spec).Pod
}

func TestContainers(t *testing.T) {
	got := pod(t, `
  terminationGracePeriodSeconds: -5
  initContainers:
  - {name: wait, image: busybox}
  - name: proxy
    image: envoy
    restartPolicy: Always
    ports: [{name: http, containerPort: 15001}]
  containers:
  - name: app
    image: registry.example/app:1
    command: [/app]
    args: [--port, 8080]
    env:
    - {name: A, value: "1"}
    - {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}
    - {name: C}
    envFrom:
    - {configMapRef: {name: settings}}
    - {secretRef: {name: token}}
    ports:
    - {name: http, containerPort: 8080}
    - {containerPort: 53, hostPort: 5353, protocol: UDP}
    lifecycle:
      stopSignal: SIGQUIT
      preStop: {sleep: {seconds: 5}}
      postStart: {httpGet: {port: admin}}
`)
	same(t, Pod{
		Grace: Int{1, true}, RestartPolicy: "Always",
		Containers: []*Container{{
			Name: "app", Image: "registry.example/app:1", Command: []string{"/app"}, Args: []string{"--port", "8080"},
			Env: map[string]string{"A": "1", "B": "", "C": ""}, EnvFrom: []string{"B", "configMap/settings", "secret/token"},
			Ports:      []Port{{"http", 8080, 0, "TCP"}, {"", 53, 5353, "UDP"}},
			StopSignal: "SIGQUIT", Path: "spec.containers[0]",
			PreStop: &Hook{
				How: "sleep", Took: 5 * time.Second, Known: true, AtLeast: 5 * time.Second, SleepsFirst: 5 * time.Second,
				At: "spec.containers[0].lifecycle.preStop",
			},
			PostStart: &Hook{How: "http", Port: "admin", Path: "/", At: "spec.containers[0].lifecycle.postStart"},
		}},
		Sidecars: []*Container{{
			Name: "proxy", Image: "envoy", Ports: []Port{{"http", 15001, 0, "TCP"}}, Path: "spec.initContainers[1]", Sidecar: true,
		}},
	}, got)
}

func TestProbes(t *testing.T) {
	got := pod(t, `
  containers:
  - name: app
    readinessProbe: {httpGet: {port: http}}
    livenessProbe: {tcpSocket: {port: 80}, periodSeconds: 0, timeoutSeconds: 7, terminationGracePeriodSeconds: 0}
    startupProbe: {grpc: {port: 9000}, initialDelaySeconds: 2, periodSeconds: 3, failureThreshold: 40, successThreshold: 1}
  - name: two
    readinessProbe: {exec: {command: [cat, /ready]}}
    livenessProbe: {}
    startupProbe: {sleep: {seconds: 3}}
`)
	probe := func(p Probe) *Probe {
		for _, d := range []struct {
			n  *Int
			by int64
		}{{&p.Period, 10}, {&p.Timeout, 1}, {&p.Failure, 3}, {&p.Success, 1}} {
			if !d.n.Set {
				d.n.N = d.by
			}
		}
		return &p
	}
	same(t, []*Container{
		{
			Name: "app", Path: "spec.containers[0]",
			Readiness: probe(Probe{How: "http", Port: "http", Path: "/", At: "spec.containers[0].readinessProbe"}),
			Liveness:  probe(Probe{How: "tcp", Port: "80", Timeout: Int{7, true}, Grace: Int{0, true}, At: "spec.containers[0].livenessProbe"}),
			Startup: probe(Probe{
				How: "grpc", Port: "9000", InitialDelay: Int{2, true}, Period: Int{3, true}, Failure: Int{40, true}, Success: Int{1, true},
				At: "spec.containers[0].startupProbe",
			}),
		},
		{
			Name: "two", Path: "spec.containers[1]",
			Readiness: probe(Probe{How: "exec", Exec: []string{"cat", "/ready"}, At: "spec.containers[1].readinessProbe"}),
			Liveness:  probe(Probe{At: "spec.containers[1].livenessProbe"}),
			Startup:   probe(Probe{At: "spec.containers[1].startupProbe"}),
		},
	}, got.Containers)
}
