package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/trial"
	"github.com/drainproof/drainproof/internal/trigger"
	"github.com/drainproof/drainproof/internal/verdict"
)

const oldPod, newPod = "web-1", "web-2"

// world is a cluster of one workload in this process: a real HTTP server on loopback, real sockets and time; only the
// API around it is played. The trigger makes it lose what down says.
type world struct {
	t      *testing.T
	server *httptest.Server
	// broken: connections are reset in place of an answer.
	broken atomic.Bool
	// instance that answers.
	instance atomic.Value
	// loss is how long the server is broken after the trigger.
	loss time.Duration

	mu     sync.Mutex
	onFact func(kube.Fact)
	// watched is what was asked to be watched.
	watched kube.WatchSpec
	undone  []string
	// failAt makes a step fail, by the API's method name.
	failAt map[string]error
	// at is called when a step is entered.
	at func(step string)
	// await replaces the wait for the disruption's end.
	await func(ctx context.Context) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, failAt: map[string]error{}}
	w.instance.Store(oldPod)
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.broken.Load() {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
			return
		}
		rw.Header().Set("Instance", w.instance.Load().(string))
		if r.URL.Path != "/" {
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) step(name string) error {
	if w.at != nil {
		w.at(name)
	}
	return w.failAt[name]
}

func (w *world) undo(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undone = append(w.undone, what)
	return w.failAt[what]
}

func (w *world) fact(k record.EventKind, subject, uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.onFact != nil {
		w.onFact(kube.Fact{Kind: k, MonoNs: clock.MonoNs(), Subject: subject, PodUID: uid, Node: "n1"})
	}
}

func (w *world) Environment(context.Context) (record.Environment, error) {
	mode := "iptables"
	return record.Environment{
		Kubernetes: "v1.37.2", ProxyMode: &mode, ProxyModeFrom: "a fake", ClusterUID: "c", Nodes: []record.Node{{Name: "n1", BootID: clock.BootID()}},
	}, w.step("Environment")
}

func (w *world) Missing(context.Context, string, string) ([]string, error) { return nil, nil }

func (w *world) MissingForWorkers(context.Context) ([]string, error) {
	return nil, w.step("MissingForWorkers")
}

func (w *world) MissingForTest(context.Context, kube.Ref, string) ([]string, error) {
	if err := w.step("MissingForTest"); err != nil {
		return []string{err.Error()}, nil
	}
	return nil, nil
}

func (w *world) EnsureNamespace(context.Context, string, string, bool) (string, error) {
	return "ns-uid", w.step("EnsureNamespace")
}

func (w *world) DeployProbe(context.Context, kube.ProbeSpec, time.Duration) (*kube.Probe, error) {
	return nil, errors.New("no test here deploys the probe")
}

func (w *world) DeployWorker(context.Context, kube.WorkerSpec, time.Duration) (kube.PodRef, error) {
	return kube.PodRef{}, errors.New("no test here deploys one worker")
}

func (w *world) DeployWorkers(_ context.Context, _ kube.WorkerSpec, n int, _ time.Duration) ([]kube.PodRef, error) {
	refs := make([]kube.PodRef, n)
	for i := range refs {
		refs[i] = kube.PodRef{Name: fmt.Sprintf("worker-%d", i), Node: "n1"}
	}
	return refs, w.step("DeployWorkers")
}

func (w *world) DeployKiller(context.Context, string, string, string, string, time.Duration) (kube.PodRef, error) {
	return kube.PodRef{}, errors.New("no test here kills")
}

func (w *world) Resolve(_ context.Context, ref kube.Ref) (*kube.Workload, error) {
	host, p, err := net.SplitHostPort(w.server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return nil, err
	}
	return &kube.Workload{
		Ref: ref, Selector: "app=web", Ready: 1, ReadyPods: []string{oldPod},
		Facts: record.Workload{
			Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: "w", Replicas: 1, Strategy: "RollingUpdate", Images: []string{"web:v1"}, Budgets: []string{},
			Pods: []record.WorkloadPod{{Name: oldPod, UID: "uid-1", IP: host, Node: "n1", NodeIP: host}},
		},
		Services: []kube.Service{{
			Name: "web", Type: "ClusterIP", ClusterIP: host, ReadyEndpoints: 1,
			Ports: []kube.ServicePort{{Name: "http", Protocol: "TCP", Port: port, PodPort: port}},
		}},
	}, w.step("Resolve")
}

func (w *world) Claim(context.Context, *kube.Workload, kube.Claim) (func(context.Context) error, error) {
	return func(context.Context) error { return w.undo("claim") }, w.step("Claim")
}

func (w *world) Await(ctx context.Context, _ *kube.Workload, c kube.Condition, gone []string) error {
	if err := w.step("Await"); err != nil {
		return err
	}
	if w.await != nil {
		return w.await(ctx)
	}
	if c == kube.RolledOut && !slices.Equal(gone, []string{"uid-1"}) {
		w.t.Errorf("waiting for the end of %v, want the workload's one Pod", gone)
	}
	return course.Pause(ctx, w.loss+100*time.Millisecond)
}

func (w *world) Watch(_ context.Context, s kube.WatchSpec) (func(), error) {
	w.mu.Lock()
	w.onFact, w.watched = s.OnFact, s
	w.mu.Unlock()
	for _, k := range []record.EventKind{record.PodAdded, record.PodReady} {
		w.fact(k, "pod/"+oldPod, "uid-1")
	}
	w.fact(record.EndpointReady, "endpoint/"+oldPod, "uid-1")
	return func() {
		w.mu.Lock()
		w.onFact = nil
		w.mu.Unlock()
	}, w.step("Watch")
}

func (w *world) FollowLog(context.Context, string, string, func([]byte)) error { return nil }

// Exec is a worker in a Pod: the same program, in this process.
func (w *world) Exec(ctx context.Context, _, _ string, _ []string, stdin io.Reader, stdout, _ io.Writer) error {
	if err := w.step("Exec"); err != nil {
		return err
	}
	return traffic.Serve(ctx, stdin, stdout, "v0", time.Minute)
}

func (w *world) Undo(context.Context, string, string) error { return w.undo("namespace") }

// restart is the trigger: the old Pod goes, connections are lost for a while, the new Pod answers.
type restart struct{ w *world }

func (restart) Kind() trigger.Kind { return trigger.Rollout }
func (restart) Subject() string    { return "deployment/web" }

func (r restart) Fire(context.Context) error {
	if err := r.w.step("Fire"); err != nil {
		return err
	}
	w := r.w
	w.fact(record.PodTerminating, "pod/"+oldPod, "uid-1")
	w.fact(record.PodAdded, "pod/"+newPod, "uid-2")
	w.broken.Store(w.loss > 0)
	w.instance.Store(newPod)
	time.AfterFunc(w.loss, func() {
		w.broken.Store(false)
		w.fact(record.PodReady, "pod/"+newPod, "uid-2")
		w.fact(record.PodRemoved, "pod/"+oldPod, "uid-1")
	})
	return nil
}

func (r restart) Undo(context.Context) error { return r.w.undo("trigger") }

func (w *world) deps() Deps {
	return Deps{
		API: w, Local: traffic.StartLocalSender,
		NewTrigger: func(_ context.Context, k trigger.Kind, _ trigger.Target) (trigger.Trigger, error) {
			if err := w.step("NewTrigger"); err != nil {
				return nil, err
			}
			if k == trigger.None {
				return trigger.New(context.Background(), trigger.None, nil, trigger.Target{Namespace: "shop", Pod: oldPod})
			}
			return restart{w}, nil
		},
	}
}

func spec(t *testing.T, kind trigger.Kind, vantage string, workers int) Spec {
	t.Helper()
	budget, err := verdict.Parse("failed=0,users=0")
	if err != nil {
		t.Fatal(err)
	}
	tr := trial.DefaultTraffic()
	tr.Rate, tr.Users, tr.Workers, tr.Method, tr.Expect = 100, 7, workers, "GET", "2xx"
	tr.BeforeNs, tr.AfterNs, tr.WaitNs = int64(400*time.Millisecond), int64(300*time.Millisecond), int64(5*time.Second)
	tr.WaitFor = string(kube.RolledOut)
	if kind == trigger.None {
		tr.WaitFor = string(kube.Nothing)
	}
	return Spec{
		Spec: trial.Spec{
			Config: record.Config{Trigger: string(kind), Path: "clusterip", Vantage: vantage, Traffic: &tr},
			Tool:   record.Tool{Name: "drainproof", Version: "v0"},
		},
		Ref: kube.Ref{Kind: "Deployment", Namespace: "shop", Name: "web"},
		Plan: request.Plan{
			Mode: request.NewConnection, Expect: []request.StatusRange{{From: 200, To: 299}}, InstanceHeader: "Instance",
			Target: request.Target{Scheme: "http", Path: "/", Method: "GET"}, Limits: request.DefaultLimits(),
		},
		Budget: budget,
	}
}
