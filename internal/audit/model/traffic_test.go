package model

import "testing"

// served builds a Pod with the given spec and one Service with the given ports on it; no Service where ports is "".
func served(t *testing.T, spec, ports string) (*Workload, *Service) {
	t.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: x}}\nspec:\n" + spec
	if ports != "" {
		text += "\n---\n{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {app: x}, ports: " + ports + "}}"
	}
	m := build(t, text)
	if len(m.Services) == 0 {
		return m.Workloads[0], nil
	}
	return m.Workloads[0], m.Services[0]
}

func containers(all []*Container) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

func TestTargets(t *testing.T) {
	two := `
  initContainers:
  - {name: once, ports: [{name: init, containerPort: 1}]}
  - {name: side, restartPolicy: Always, ports: [{name: proxy, containerPort: 15001}]}
  containers:
  - {name: app, ports: [{name: http, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}], livenessProbe: {tcpSocket: {port: 7000}}}
  - {name: log, ports: [{containerPort: 9100}]}`
	type target struct {
		container string
		port      Port
	}
	tests := []struct {
		name, spec, ports string
		want              []target
	}{
		{"by name", two, "[{port: 80, targetPort: http}]", []target{{"app", Port{"http", 8080, 0, "TCP"}}}},
		{"by number", two, "[{port: 80, targetPort: 9100}]", []target{{"log", Port{"", 9100, 0, "TCP"}}}},
		{"by its own number", two, "[{port: 8080}]", []target{{"app", Port{"http", 8080, 0, "TCP"}}}},
		{"a sidecar's port", two, "[{port: 80, targetPort: proxy}]", []target{{"side", Port{"proxy", 15001, 0, "TCP"}}}},
		{"an init container's port", two, "[{port: 80, targetPort: init}]", nil},
		{"a name of another protocol", two, "[{port: 53, targetPort: dns}]", nil},
		{"a name and its protocol", two, "[{port: 53, targetPort: dns, protocol: UDP}]", []target{{"app", Port{"dns", 53, 0, "UDP"}}}},
		{"a number declared for another protocol", two, "[{port: 53}]", []target{{"app", Port{"", 53, 0, "TCP"}}}},
		{"a number that a probe knows", two, "[{port: 7000}]", []target{{"app", Port{"", 7000, 0, "TCP"}}}},
		{"a number that nobody declares", two, "[{port: 1234}]", nil},
		{"a number that the only container can have", "  containers: [{name: app}]", "[{port: 1234}]", []target{{"app", Port{"", 1234, 0, "TCP"}}}},
		{"several", two, "[{port: 80, targetPort: http}, {port: 81, targetPort: none}, {port: 82, targetPort: 9100}]", []target{
			{"app", Port{"http", 8080, 0, "TCP"}}, {"log", Port{"", 9100, 0, "TCP"}},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, s := served(t, test.spec, test.ports)
			var got []target
			for _, found := range s.TargetsOf(w) {
				if found.Service != s {
					t.Error("the target is another Service's")
				}
				got = append(got, target{found.Container.Name, found.Port})
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("got %v, want %v", got[i], test.want[i])
				}
			}
		})
	}
}

func TestServing(t *testing.T) {
	tests := []struct {
		name, spec, ports string
		want              []string
		traffic           bool
	}{
		{"whom a Service targets", "  containers: [{name: a, ports: [{containerPort: 1}]}, {name: b, ports: [{containerPort: 2}]}]", "[{port: 2}]", []string{"b"}, true},
		{"who declares ports", "  containers: [{name: a}, {name: b, ports: [{containerPort: 2}]}]", "", []string{"b"}, false},
		{"a headless Service without ports", "  containers: [{name: a}, {name: b, ports: [{containerPort: 2}]}]", "[]", []string{"b"}, true},
		{"no sidecar that declares ports", `
  initContainers: [{name: s, restartPolicy: Always, ports: [{containerPort: 1}]}]
  containers: [{name: a, ports: [{containerPort: 2}]}]`, "", []string{"a"}, false},
		{"a sidecar that is targeted", `
  initContainers: [{name: s, restartPolicy: Always, ports: [{containerPort: 1}]}]
  containers: [{name: a, ports: [{containerPort: 2}]}]`, "[{port: 1}, {port: 2}]", []string{"a", "s"}, true},
		{"a port of the node", "  containers: [{name: a, ports: [{containerPort: 1, hostPort: 80}]}, {name: b, ports: [{containerPort: 2}]}]", "", []string{"a"}, true},
		{"the node's network", "  hostNetwork: true\n  containers: [{name: a, ports: [{containerPort: 1}]}]", "", []string{"a"}, true},
		{"the node's network without ports", "  hostNetwork: true\n  containers: [{name: a}]", "", []string{"a"}, false},
		{"who is probed", "  containers: [{name: a}, {name: b, readinessProbe: {httpGet: {port: 80}}}, {name: c, readinessProbe: {exec: {command: [x]}}}]", "[{port: 1}]", []string{"b"}, true},
		{"nobody in particular", "  containers: [{name: a}, {name: b}]", "[{port: 1}]", nil, true},
		{"the only one", "  containers: [{name: a}]", "", []string{"a"}, false},
		{"nobody", "  containers: []", "[{port: 1}]", nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, _ := served(t, test.spec, test.ports)
			same(t, test.want, containers(w.Serving()))
			if got := w.ReceivesTraffic(); got != test.traffic {
				t.Errorf("receives traffic: %v", got)
			}
		})
	}
}

func TestUDP(t *testing.T) {
	w, s := served(t, `
  containers:
  - {name: a, ports: [{name: dns, containerPort: 53, hostPort: 53, protocol: UDP}, {containerPort: 53}, {containerPort: 4789, hostPort: 4789, protocol: UDP}]}
  - {name: b, ports: [{containerPort: 99, protocol: UDP}]}`,
		"[{name: dns, port: 53, protocol: UDP}, {name: tcp, port: 53}, {name: far, port: 7, protocol: UDP}]")
	got := w.UDP()
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	a := w.Pod.Containers[0]
	for i, want := range []Target{
		{s, s.Ports[0], a, a.Ports[0]},
		{s, s.Ports[2], nil, Port{}},
		{nil, ServicePort{}, a, a.Ports[2]},
	} {
		if got[i] != want {
			t.Errorf("got %+v, want %+v", got[i], want)
		}
	}
	if w, _ := served(t, "  containers: [{name: a, ports: [{containerPort: 53, protocol: UDP}]}]", "[{port: 53}]"); len(w.UDP()) > 0 {
		t.Error("a TCP Service is read as UDP")
	}
}
