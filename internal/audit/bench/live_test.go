package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const pods = 5_000

// BenchmarkLive audits a live cluster of 5,000 Pods, 500 Deployments and as many
// Services and ReplicaSets, which a fake API server plays in pages as a real one
// does. The Pods carry what Pods carry: status, volumes, managed fields, about 5 KB each.
// Targets: 10 s and 300 MB.
func BenchmarkLive(b *testing.B) {
	dir := b.TempDir()
	program := build(b, "../../..", filepath.Join(dir, "drainproof"), "./cmd/drainproof")
	api := newFakeAPI()
	server := httptest.NewServer(api)
	defer server.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"big","contexts":[{"name":"big","context":{"cluster":"big","user":"me"}}],`+
		`"clusters":[{"name":"big","cluster":{"server":%q}}],"users":[{"name":"me","user":{}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	var all []usage
	var workloads int
	for b.Loop() {
		cmd := exec.Command(program, "audit", "--kubeconfig", kubeconfig, "-o", "json", "--fail-on", "never")
		start := time.Now()
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("audit: %v\n%s", err, err.(*exec.ExitError).Stderr)
		}
		all = append(all, usage{
			wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
			rssKiB: cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss,
		})
		var r struct {
			Workloads []json.RawMessage `json:"workloads"`
		}
		if err := json.Unmarshal(out, &r); err != nil {
			b.Fatal(err)
		}
		workloads = len(r.Workloads)
	}
	if workloads != 500+bare {
		b.Fatalf("judged %d workloads, wanted %d Deployments and %d bare Pods", workloads, 500, bare)
	}
	m := median(all)
	b.ReportMetric(m.wall.Seconds(), "s")
	b.ReportMetric(float64(m.rssKiB)/1024, "MiB")
	b.ReportMetric(float64(api.bytes)/float64(b.N)/(1<<20), "MiB-read")
}

// bare is how many of the Pods have no owner.
const bare = 50

type fakeAPI struct {
	lists map[string][]string
	kinds map[string]string
	bytes int64
}

func newFakeAPI() *fakeAPI {
	f := &fakeAPI{lists: map[string][]string{}, kinds: map[string]string{
		"/apis/apps/v1/deployments": "Deployment", "/apis/apps/v1/statefulsets": "StatefulSet", "/apis/apps/v1/daemonsets": "DaemonSet",
		"/apis/apps/v1/replicasets": "ReplicaSet", "/api/v1/replicationcontrollers": "ReplicationController", "/api/v1/pods": "Pod",
		"/api/v1/services": "Service", "/apis/discovery.k8s.io/v1/endpointslices": "EndpointSlice", "/apis/networking.k8s.io/v1/ingresses": "Ingress",
		"/apis/policy/v1/poddisruptionbudgets": "PodDisruptionBudget", "/apis/autoscaling/v2/horizontalpodautoscalers": "HorizontalPodAutoscaler",
	}}
	owner := func(kind, name string) string {
		return fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":"0","controller":true}]`, kind, name)
	}
	for i := range 500 {
		name := fmt.Sprintf("app-%d", i)
		spec := podSpec(name)
		meta := fmt.Sprintf(`"namespace":"ns-%d","labels":{"app":%q}`, i%20, name)
		template := fmt.Sprintf(`{"metadata":{"labels":{"app":%q}},"spec":%s}`, name, spec)
		selector := fmt.Sprintf(`{"matchLabels":{"app":%q}}`, name)
		add := func(path, item string) { f.lists[path] = append(f.lists[path], item) }
		add("/apis/apps/v1/deployments", fmt.Sprintf(`{"metadata":{"name":%q,%s},"spec":{"replicas":10,"selector":%s,"template":%s}}`, name, meta, selector, template))
		add("/apis/apps/v1/replicasets", fmt.Sprintf(`{"metadata":{"name":%q,%s%s},"spec":{"replicas":10,"selector":%s,"template":%s}}`, name+"-1", meta, owner("Deployment", name), selector, template))
		add("/api/v1/services", fmt.Sprintf(`{"metadata":{"name":%q,%s},"spec":{"selector":{"app":%q},"ports":[{"port":80,"targetPort":8080}]}}`, name, meta, name))
		for p := range pods / 500 {
			own := owner("ReplicaSet", name+"-1")
			if n := i*(pods/500) + p; n < bare {
				own = ""
			}
			add("/api/v1/pods", fmt.Sprintf(`{"metadata":{"name":"%s-1-%d",%s%s,"managedFields":[%s]},"spec":%s,"status":%s}`, name, p, meta, own, managed, spec, status))
		}
	}
	return f
}

func podSpec(name string) string {
	return fmt.Sprintf(`{"terminationGracePeriodSeconds":30,"containers":[{"name":"web","image":"registry.example.com/%s:v1","ports":[{"containerPort":8080}],`+
		`"readinessProbe":{"httpGet":{"path":"/ready","port":8080}},"volumeMounts":[{"name":"token","mountPath":"/var/run/secrets/token","readOnly":true}]}],`+
		`"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}]}`, name)
}

var (
	status  = `{"phase":"Running","conditions":[` + strings.Repeat(`{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},`, 5) + `{"type":"X","status":"True"}]}`
	managed = strings.Repeat(`{"manager":"kubelet","operation":"Update","apiVersion":"v1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}},`, 20) + `{"manager":"x"}`
)

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/version" {
		fmt.Fprint(w, `{"major":"1","minor":"37","gitVersion":"v1.37.2"}`)
		return
	}
	kind, ok := f.kinds[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	items, rest := f.lists[r.URL.Path], ""
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	items = items[from:]
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && len(items) > limit {
		items, rest = items[:limit], strconv.Itoa(from+limit)
	}
	group := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path[:strings.LastIndex(r.URL.Path, "/")], "/apis/"), "/api/")
	n, _ := fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`, kind, group, rest, strings.Join(items, ","))
	f.bytes += int64(n)
}
