package budget

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// build makes a model of the text and gives its first workload.
func build(t *testing.T, text string) *model.Workload {
	t.Helper()
	objects, err := manifest.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m := model.Build(objects, model.Options{})
	// What the tests write wrong on purpose are annotations.
	m.Notes = slices.DeleteFunc(m.Notes, func(note string) bool { return strings.Contains(note, "is not a duration") })
	if len(m.Workloads) == 0 || len(m.Notes) > 0 {
		t.Fatalf("%d workloads, notes %q", len(m.Workloads), m.Notes)
	}
	return m.Workloads[0]
}

// web is a Deployment whose containers, or whole Pod spec, the tests fill in.
const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {ANNOTATIONS}
    spec:
      SPEC
`

const plain = `containers: [{name: web, image: web, ports: [{name: http, containerPort: 80}]}]`

func deployment(spec string) string { return annotatedDeployment("", spec) }

func annotatedDeployment(annotations, spec string) string {
	spec = strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n      ")
	return strings.NewReplacer("ANNOTATIONS", annotations, "SPEC", spec).Replace(web)
}

func service(name, spec string, annotations ...string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %s, annotations: {%s}}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 80}], %s}
`, name, strings.Join(annotations, ", "), spec)
}

func ingress(class, to string, annotations ...string) string {
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front, annotations: {%s}}
spec: {ingressClassName: %s, defaultBackend: {service: {name: %s, port: {number: 80}}}}
`, strings.Join(annotations, ", "), class, to)
}

func route(to string) string {
	return fmt.Sprintf(`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: front}
spec: {parentRefs: [{name: public}], rules: [{backendRefs: [{name: %s, port: 80}]}]}
`, to)
}

const (
	nlb = `service.beta.kubernetes.io/aws-load-balancer-type`
	tgt = `service.beta.kubernetes.io/aws-load-balancer-nlb-target-type`
	neg = `cloud.google.com/neg`
)

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // path/variant least
	}{
		{"nothing", deployment(plain), nil},
		{"cluster IP", deployment(plain) + service("web", ""), []string{"clusterip/ 3s"}},
		{"two Services are one path", deployment(plain) + service("a", "") + service("b", ""), []string{"clusterip/ 3s"}},
		{"headless alone", deployment(plain) + service("web", "clusterIP: None"), []string{"headless/ 5s"}},
		{"headless beside a cluster IP", deployment(plain) + service("a", "clusterIP: None") + service("b", ""), []string{"clusterip/ 3s"}},
		{"node port", deployment(plain) + service("web", "type: NodePort"), []string{"clusterip/ 3s", "nodeport/ 3s"}},
		{"some load balancer", deployment(plain) + service("web", "type: LoadBalancer"), []string{"clusterip/ 3s", "loadbalancer/ 3s"}},
		{"NLB to nodes", deployment(plain) + service("web", "type: LoadBalancer", nlb+": nlb"), []string{"clusterip/ 3s", "loadbalancer/aws-nlb 3s"}},
		{"NLB to nodes by target type", deployment(plain) + service("web", "type: LoadBalancer", nlb+": external", tgt+": instance"), []string{"clusterip/ 3s", "loadbalancer/aws-nlb 3s"}},
		{"NLB to Pods", deployment(plain) + service("web", "type: LoadBalancer", nlb+": external", tgt+": ip"), []string{"clusterip/ 3s", "loadbalancer/aws-nlb-ip 2m0s"}},
		{"NLB to Pods, old name", deployment(plain) + service("web", "type: LoadBalancer", nlb+": nlb-ip"), []string{"clusterip/ 3s", "loadbalancer/aws-nlb-ip 2m0s"}},
		{"NLB by class", deployment(plain) + service("web", "type: LoadBalancer, loadBalancerClass: service.k8s.aws/nlb", tgt+": ip"), []string{"clusterip/ 3s", "loadbalancer/aws-nlb-ip 2m0s"}},
		{"an AWS one", deployment(plain) + service("web", "type: LoadBalancer", `service.beta.kubernetes.io/aws-load-balancer-internal: "true"`), []string{"clusterip/ 3s", "loadbalancer/aws 3s"}},
		{"an annotation without the type", deployment(plain) + service("web", "", nlb+": nlb-ip"), []string{"clusterip/ 3s"}},
		{"azure", deployment(plain) + service("web", "type: LoadBalancer", `service.beta.kubernetes.io/azure-load-balancer-internal: "true"`), []string{"clusterip/ 3s", "loadbalancer/azure 3s"}},
		{"gcp", deployment(plain) + service("web", "type: LoadBalancer", `networking.gke.io/load-balancer-type: Internal`), []string{"clusterip/ 3s", "loadbalancer/gcp 3s"}},
		{"gcp by class", deployment(plain) + service("web", "type: LoadBalancer, loadBalancerClass: networking.gke.io/l4-regional-internal"), []string{"clusterip/ 3s", "loadbalancer/gcp 3s"}},
		{"digitalocean", deployment(plain) + service("web", "type: LoadBalancer", `service.beta.kubernetes.io/do-loadbalancer-protocol: http`), []string{"clusterip/ 3s", "loadbalancer/digitalocean 3s"}},
		{"hcloud", deployment(plain) + service("web", "type: LoadBalancer", `load-balancer.hetzner.cloud/location: fsn1`), []string{"clusterip/ 3s", "loadbalancer/hcloud 3s"}},
		{"metallb", deployment(plain) + service("web", "type: LoadBalancer", `metallb.io/address-pool: a`), []string{"clusterip/ 3s", "loadbalancer/metallb 3s"}},
		{"a group of its own", deployment(plain) + service("web", "", neg+`: '{"exposed_ports": {"80": {}}}'`), []string{"clusterip/ 3s", "loadbalancer/gcp-neg 1m0s"}},
		{"a group without an Ingress", deployment(plain) + service("web", "", neg+`: '{"ingress": true}'`), []string{"clusterip/ 3s"}},
		{"nginx", deployment(plain) + service("web", "") + ingress("nginx", "web"), []string{"clusterip/ 3s", "ingress/nginx 5s"}},
		{"nginx by its annotations", deployment(plain) + service("web", "") + ingress("public", "web", `nginx.ingress.kubernetes.io/proxy-body-size: 8m`), []string{"clusterip/ 3s", "ingress/nginx 5s"}},
		{"nginx to the cluster IP", deployment(plain) + service("web", "") + ingress("nginx", "web", `nginx.ingress.kubernetes.io/service-upstream: "true"`), []string{"clusterip/ 3s", "ingress/nginx-service-upstream 3s"}},
		{"the class counts before leftovers", deployment(plain) + service("web", "") + ingress("traefik", "web", `nginx.ingress.kubernetes.io/proxy-body-size: 8m`), []string{"clusterip/ 3s", "ingress/traefik 10s"}},
		{"traefik", deployment(plain) + service("web", "") + ingress("traefik-internal", "web"), []string{"clusterip/ 3s", "ingress/traefik 10s"}},
		{"haproxy", deployment(plain) + service("web", "") + ingress("haproxy", "web"), []string{"clusterip/ 3s", "ingress/haproxy 5s"}},
		{"contour", deployment(plain) + service("web", "") + ingress("contour", "web"), []string{"clusterip/ 3s", "ingress/contour 5s"}},
		{"some class", deployment(plain) + service("web", "") + ingress("edge", "web"), []string{"clusterip/ 3s", "ingress/ 5s"}},
		{"ALB to nodes", deployment(plain) + service("web", "type: NodePort") + ingress("alb", "web"), []string{"clusterip/ 3s", "nodeport/ 3s", "ingress/aws-alb 3s"}},
		{"ALB to Pods", deployment(plain) + service("web", "") + ingress("alb", "web", `alb.ingress.kubernetes.io/target-type: ip`), []string{"clusterip/ 3s", "ingress/aws-alb-ip 25s"}},
		{"ALB: the Service says first", deployment(plain) + service("web", "", `alb.ingress.kubernetes.io/target-type: ip`) + ingress("alb", "web", `alb.ingress.kubernetes.io/target-type: instance`), []string{"clusterip/ 3s", "ingress/aws-alb-ip 25s"}},
		{"gce by groups", deployment(plain) + service("web", "type: NodePort", neg+`: '{"ingress": true}'`) + ingress("gce", "web"), []string{"clusterip/ 3s", "nodeport/ 3s", "ingress/gcp-neg 1m0s"}},
		{"gce without node ports", deployment(plain) + service("web", "") + ingress("gce-internal", "web"), []string{"clusterip/ 3s", "ingress/gcp-neg 1m0s"}},
		{"gce by nodes", deployment(plain) + service("web", "type: NodePort", neg+`: '{"ingress": false}'`) + ingress("gce", "web"), []string{"clusterip/ 3s", "nodeport/ 3s", "ingress/gcp 3s"}},
		{"a route", deployment(plain) + service("web", "") + route("web"), []string{"clusterip/ 3s", "gateway/ 5s"}},
		{"ingress to a headless Service", deployment(plain) + service("web", "clusterIP: None") + ingress("nginx", "web"), []string{"ingress/nginx 5s", "headless/ 5s"}},
		{"host port", deployment(`containers: [{name: web, image: web, ports: [{containerPort: 80, hostPort: 80}]}]`), []string{"hostport/ 0s"}},
		{"host network", deployment("hostNetwork: true\n" + plain), []string{"hostport/ 0s"}},
		{"registry", deployment(`containers: [{name: web, image: web, env: [{name: EUREKA_CLIENT_SERVICEURL_DEFAULTZONE, value: "http://e/"}]}]`), []string{"registry/ 30s"}},
		{"a registry that pushes", deployment(`containers: [{name: web, image: web, env: [{name: DUBBO_REGISTRY_ADDRESS, value: "zookeeper://z"}]}]`), []string{"registry/Dubbo 0s"}},
		{"perhaps a registry", deployment(`containers: [{name: web, image: web, env: [{name: NACOS_SERVER_ADDR, value: "n:8848"}]}]`), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum := Of(build(t, c.text), Floors{})
			var got []string
			for _, f := range sum.All {
				got = append(got, fmt.Sprintf("%s/%s %s", f.Path, f.Variant, f.Least))
				if f.Source == "" || f.Measured {
					t.Errorf("floor %+v must name its source and is not measured", f)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestSlowestAndMeasured(t *testing.T) {
	w := build(t, deployment(plain)+service("web", "type: LoadBalancer", nlb+": nlb-ip")+ingress("traefik", "web"))
	if s := Of(w, Floors{}); s.Slowest == nil || s.Slowest.Variant != AWSNLBIP {
		t.Errorf("the slowest path is %+v, want the NLB's", s.Slowest)
	}
	measured := Floors{Measured: map[string]Floor{
		LoadBalancer: {Least: 1500 * time.Millisecond, Source: "5 records in out/"},
		ClusterIP:    {Least: 700 * time.Millisecond, Source: "5 records in out/"},
	}}
	s := Of(w, measured)
	want := []Floor{
		{Path: ClusterIP, Least: 700 * time.Millisecond, Measured: true, Source: "5 records in out/"},
		{Path: LoadBalancer, Variant: AWSNLBIP, Least: 1500 * time.Millisecond, Measured: true, Source: "5 records in out/"},
		{Path: Ingress, Variant: Traefik, Least: 10 * time.Second, Source: fromTraefik},
	}
	if d := cmp.Diff(want, s.All); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if s.Slowest == nil || s.Slowest.Path != Ingress {
		t.Errorf("the slowest path is %+v, want the ingress, which was not measured", s.Slowest)
	}
	if s := Of(build(t, deployment("hostNetwork: true\n"+plain)), Floors{}); s.Slowest != nil {
		t.Errorf("a host port has no known floor, got %+v", s.Slowest)
	}
}

func TestHook(t *testing.T) {
	const (
		sleep5  = `lifecycle: {preStop: {sleep: {seconds: 5}}}`
		sleep20 = `lifecycle: {preStop: {sleep: {seconds: 20}}}`
		script  = `lifecycle: {preStop: {exec: {command: [/bin/drain]}}}`
		ask     = `lifecycle: {preStop: {httpGet: {path: /drain, port: 80}}}`
		longer  = `lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 15; /bin/drain; sleep 10"]}}}`
	)
	serve := func(port int, rest string) string {
		if rest != "" {
			rest = ", " + rest
		}
		return fmt.Sprintf("{name: c%d, image: web, ports: [{containerPort: %d}]%s}", port, port, rest)
	}
	for _, c := range []struct {
		name, containers string
		hook, long       time.Duration
		known, longKnown bool
	}{
		{"none", serve(80, ""), 0, 0, true, true},
		{"sleep", serve(80, sleep5), 5 * time.Second, 5 * time.Second, true, true},
		{"unknown", serve(80, script), 0, 0, false, false},
		{"over the network", serve(80, ask), 0, 0, false, false},
		{"a script that sleeps first", serve(80, longer), 15 * time.Second, 25 * time.Second, false, false},
		{"the shortest counts", serve(80, sleep20) + ", " + serve(81, sleep5), 5 * time.Second, 20 * time.Second, true, true},
		{"none beside a hook", serve(80, sleep20) + ", " + serve(81, ""), 0, 20 * time.Second, true, true},
		{"none beside an unknown one", serve(80, script) + ", " + serve(81, ""), 0, 0, true, false},
		{"known beside an unknown one", serve(80, script) + ", " + serve(81, sleep5), 0, 5 * time.Second, false, false},
		{"known beside one that is surely longer", serve(80, longer) + ", " + serve(81, sleep5), 5 * time.Second, 25 * time.Second, true, false},
		{"a helper that serves nobody", serve(80, sleep20) + ", {name: logs, image: logs}", 20 * time.Second, 20 * time.Second, true, true},
		{"nobody knows who serves", "{name: a, image: a, " + sleep5 + "}, {name: b, image: b}", 0, 5 * time.Second, false, false},
		{"nobody knows who serves, all alike", "{name: a, image: a, " + sleep5 + "}, {name: b, image: b, " + sleep5 + "}", 5 * time.Second, 5 * time.Second, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Of(build(t, deployment("containers: ["+c.containers+"]")), Floors{})
			if s.Hook != c.hook || s.HookKnown != c.known {
				t.Errorf("shortest hook %s, known %v; want %s, %v", s.Hook, s.HookKnown, c.hook, c.known)
			}
			if s.LongHookKnown != c.longKnown || c.longKnown && s.LongHook != c.long {
				t.Errorf("longest hook %s, known %v; want %s, %v", s.LongHook, s.LongHookKnown, c.long, c.longKnown)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	const c0 = "spec.template.spec.containers[0]: "
	container := func(rest string) string { return "containers: [{name: web, image: web, " + rest + "}]" }
	for _, c := range []struct {
		name, text string
		want       Drain
	}{
		{"nothing", deployment(plain), Drain{}},
		{"the Pod template's annotation", annotatedDeployment("drainproof.dev/drain: 25s", plain),
			Drain{25 * time.Second, `spec.template.metadata.annotations["drainproof.dev/drain"]`, true}},
		{"the workload's annotation", strings.Replace(deployment(plain), "metadata: {name: web}", "metadata: {name: web, annotations: {drainproof.dev/drain: 1m}}", 1),
			Drain{time.Minute, `metadata.annotations["drainproof.dev/drain"]`, true}},
		{"an annotation that is no duration", annotatedDeployment("drainproof.dev/drain: soon", plain), Drain{}},
		{"an annotation without a unit", annotatedDeployment(`drainproof.dev/drain: "25"`, plain), Drain{}},
		{"the annotation counts before a flag", annotatedDeployment("drainproof.dev/drain: 25s", container(`args: [gunicorn, --graceful-timeout, "40"]`)),
			Drain{25 * time.Second, `spec.template.metadata.annotations["drainproof.dev/drain"]`, true}},
		{"gunicorn", deployment(container(`args: [gunicorn, --graceful-timeout, "40", app]`)), Drain{40 * time.Second, c0 + "--graceful-timeout of gunicorn", true}},
		{"gunicorn behind a shell", deployment(container(`command: [sh, -c, "exec gunicorn --graceful-timeout=40 app"]`)), Drain{40 * time.Second, c0 + "--graceful-timeout of gunicorn", true}},
		{"gunicorn's variable", deployment(container(`env: [{name: GUNICORN_CMD_ARGS, value: "--workers 2 --graceful-timeout 40"}]`)), Drain{40 * time.Second, c0 + "--graceful-timeout in GUNICORN_CMD_ARGS", true}},
		{"gunicorn without a word on it", deployment(container(`args: [gunicorn, app]`)), Drain{}},
		{"the flag of another program", deployment(container(`args: [hunicorn, --graceful-timeout, "40"]`)), Drain{}},
		{"uvicorn", deployment(container(`args: [uvicorn, "m:app", --timeout-graceful-shutdown, "20"]`)), Drain{20 * time.Second, c0 + "--timeout-graceful-shutdown of uvicorn", true}},
		{"uvicorn's variable", deployment(container(`args: [uvicorn, "m:app"], env: [{name: UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN, value: "20"}]`)), Drain{20 * time.Second, c0 + "env UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN", true}},
		{"uvicorn without a limit", deployment(container(`args: [uvicorn, "m:app"]`)), Drain{}},
		{"spring", deployment(container(`env: [{name: SERVER_SHUTDOWN, value: graceful}, {name: SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE, value: 25s}]`)),
			Drain{25 * time.Second, c0 + "env SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE", true}},
		{"spring by arguments", deployment(container(`args: [java, -jar, a.jar, --server.shutdown=graceful, --spring.lifecycle.timeout-per-shutdown-phase=20000]`)),
			Drain{20 * time.Second, c0 + "spring.lifecycle.timeout-per-shutdown-phase", true}},
		{"spring that need not be graceful", deployment(container(`env: [{name: SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE, value: 25s}]`)), Drain{}},
		{"traefik", deployment(container(`args: [--entryPoints.web.transport.lifeCycle.graceTimeOut=30s, --entrypoints.metrics.transport.lifecycle.gracetimeout=5]`)),
			Drain{30 * time.Second, c0 + "transport.lifeCycle of Traefik's entry points", true}},
		{"traefik that goes on accepting", deployment(container(`args: [--entrypoints.web.transport.lifecycle.requestacceptgracetimeout=20s]`)),
			Drain{30 * time.Second, c0 + "transport.lifeCycle of Traefik's entry points", true}},
		{"traefik by variables", deployment(container(`env: [{name: TRAEFIK_ENTRYPOINTS_WEB_TRANSPORT_LIFECYCLE_GRACETIMEOUT, value: 45s}]`)),
			Drain{45 * time.Second, c0 + "transport.lifeCycle of Traefik's entry points", true}},
		{"envoy's flag is for other occasions", deployment(container(`args: [envoy, --drain-time-s, "600"]`)), Drain{}},
		{"the longest of two", deployment(`containers: [{name: a, image: a, ports: [{containerPort: 1}], args: [gunicorn, --graceful-timeout=10]}, {name: b, image: b, ports: [{containerPort: 2}], args: [gunicorn, --graceful-timeout=40]}]`),
			Drain{40 * time.Second, "spec.template.spec.containers[1]: --graceful-timeout of gunicorn", true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Of(build(t, c.text), Floors{}).Drain; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	ns := func(d time.Duration) *int64 { n := int64(d); return &n }
	full := Of(build(t, annotatedDeployment("drainproof.dev/drain: 30s", "terminationGracePeriodSeconds: 45\n"+
		`containers: [{name: web, image: web, ports: [{containerPort: 80}], lifecycle: {preStop: {sleep: {seconds: 10}}}}]`)+service("web", "")), Floors{})
	bare := Of(build(t, deployment(`containers: [{name: web, image: web, lifecycle: {preStop: {exec: {command: [/bin/drain]}}}}]`)), Floors{})
	for _, c := range []struct {
		name string
		sum  Sum
		want finding.Budget
	}{
		{"all known", full, finding.Budget{
			GraceNs: int64(45 * time.Second), GraceFrom: "spec.template.spec.terminationGracePeriodSeconds",
			HookNs: ns(10 * time.Second), PropagationNs: ns(3 * time.Second), PropagationPath: ClusterIP, PropagationFrom: fromKubeProxy,
			DrainNs: ns(30 * time.Second), DrainFrom: `spec.template.metadata.annotations["drainproof.dev/drain"]`, LeftNs: ns(5 * time.Second),
		}},
		{"nothing known", bare, finding.Budget{GraceNs: int64(30 * time.Second), GraceFrom: "default"}},
	} {
		if d := cmp.Diff(c.want, c.sum.Document()); d != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, d)
		}
	}
}

// TestFitsAndDocumentAgree: what is left is known when its parts are, and is their difference. Where the hook
// may take longer, only that it does not fit can be known, and the document gives no number.
func TestFitsAndDocumentAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Map(rapid.Int64Range(0, 4000), func(n int64) time.Duration { return time.Duration(n) * time.Second })
		s := Sum{
			Grace: seconds.Draw(t, "grace"), GraceFrom: "default",
			LongHook: seconds.Draw(t, "hook"), LongHookKnown: rapid.Bool().Draw(t, "hook known"),
			Drain: Drain{Took: seconds.Draw(t, "drain"), Known: rapid.Bool().Draw(t, "drain known")},
		}
		left, known := s.Fits()
		d := s.Document()
		if known != (s.Drain.Known && (s.LongHookKnown || left < 0)) || (d.LeftNs != nil) != (s.LongHookKnown && s.Drain.Known) || (d.HookNs != nil) != s.LongHookKnown || (d.DrainNs != nil) != s.Drain.Known {
			t.Fatalf("known %v of %+v, document %+v", known, s, d)
		}
		if d.LeftNs != nil && (*d.LeftNs != int64(left) || d.GraceNs != *d.HookNs+*d.DrainNs+*d.LeftNs) {
			t.Fatalf("left %s of %+v, document %+v", left, s, d)
		}
	})
}

func TestRegistrations(t *testing.T) {
	env := func(pairs ...string) string {
		var all []string
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, fmt.Sprintf("{name: %s, value: %q}", pairs[i], pairs[i+1]))
		}
		return "env: [" + strings.Join(all, ", ") + "]"
	}
	for _, c := range []struct {
		name, image, rest string
		want              []string // registry setting sure
	}{
		{"nacos", "web", env("SPRING_CLOUD_NACOS_DISCOVERY_SERVER_ADDR", "n"), []string{"Nacos SPRING_CLOUD_NACOS_DISCOVERY_SERVER_ADDR true"}},
		{"nacos for configuration alone", "web", env("SPRING_CLOUD_NACOS_CONFIG_SERVER_ADDR", "n"), nil},
		{"nacos for something", "web", env("NACOS_SERVER_ADDR", "n"), []string{"Nacos NACOS_SERVER_ADDR false"}},
		{"the sure sign counts", "web", env("NACOS_SERVER_ADDR", "n", "SPRING_CLOUD_NACOS_DISCOVERY_NAMESPACE", "x"), []string{"Nacos SPRING_CLOUD_NACOS_DISCOVERY_NAMESPACE true"}},
		{"switched off", "web", env("SPRING_CLOUD_NACOS_DISCOVERY_SERVER_ADDR", "n", "SPRING_CLOUD_NACOS_DISCOVERY_REGISTER_ENABLED", "false"), nil},
		{"switched off for all", "web", env("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", "e", "SPRING_CLOUD_DISCOVERY_ENABLED", "false"), nil},
		{"eureka as a Java option", "web", env("JAVA_TOOL_OPTIONS", "-Xmx1g -Deureka.client.service-url.defaultZone=http://e/"), []string{"Eureka eureka.client.service-url.defaultZone true"}},
		{"a client of eureka", "web", env("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE", "e", "EUREKA_CLIENT_REGISTER_WITH_EUREKA", "false"), nil},
		{"consul", "web", env("SPRING_CLOUD_CONSUL_DISCOVERY_INSTANCE_ID", "w"), []string{"Consul SPRING_CLOUD_CONSUL_DISCOVERY_INSTANCE_ID true"}},
		{"consul's address alone", "web", env("CONSUL_HTTP_ADDR", "c"), nil},
		{"zookeeper", "web", env("SPRING_CLOUD_ZOOKEEPER_DISCOVERY_ROOT", "/s"), []string{"ZooKeeper SPRING_CLOUD_ZOOKEEPER_DISCOVERY_ROOT true"}},
		{"zookeeper of a broker", "web", env("KAFKA_ZOOKEEPER_CONNECT", "z"), nil},
		{"dubbo as an argument", "web", `args: ["--dubbo.registry.address=zookeeper://z"]`, []string{"Dubbo dubbo.registry.address true"}},
		{"dubbo without a registry", "web", env("DUBBO_REGISTRY_ADDRESS", "N/A"), nil},
		{"the registry itself", "nacos/nacos-server:v2", env("NACOS_SERVER_ADDR", "localhost"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, r := range Registrations(build(t, deployment(fmt.Sprintf("containers: [{name: web, image: %q, %s}]", c.image, c.rest)))) {
				got = append(got, fmt.Sprintf("%s %s %v", r.Registry, r.Setting, r.Sure))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
