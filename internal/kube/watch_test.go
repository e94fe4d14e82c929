package kube

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// stub is an API server with Pods only; the other kinds are empty and quiet.
// A test scripts it: each watch of Pods takes the next session.
type stub struct {
	t        *testing.T
	mu       sync.Mutex
	pods     []*corev1.Pod
	version  int
	sessions chan session
	from     []string // resourceVersion of each watch of Pods
}

// session is one watch connection: lines until the channel closes, or a refusal.
type session struct {
	refuse int // HTTP status; 0 accepts
	lines  chan string
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isPods := strings.HasSuffix(r.URL.Path, "/pods")
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		list := corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
		if isPods {
			for _, p := range s.pods {
				list.Items = append(list.Items, *p)
			}
		}
		_ = json.NewEncoder(w).Encode(list) // an empty list decodes as one of any kind
		return
	}
	flush := w.(http.Flusher).Flush
	if !isPods {
		flush()
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	s.from = append(s.from, r.URL.Query().Get("resourceVersion"))
	s.mu.Unlock()
	var now session
	select {
	case now = <-s.sessions:
	case <-r.Context().Done():
		return
	}
	if now.refuse != 0 {
		w.WriteHeader(now.refuse)
		fmt.Fprint(w, gone410)
		return
	}
	flush()
	for {
		select {
		case line, ok := <-now.lines:
			if !ok {
				return
			}
			fmt.Fprintln(w, line)
			flush()
		case <-r.Context().Done():
			return
		}
	}
}

const gone410 = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}`

func line(t *testing.T, kind string, p *corev1.Pod, version int) string {
	t.Helper()
	p = p.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.ResourceVersion = fmt.Sprint(version)
	b, err := json.Marshal(map[string]any{"type": kind, "object": p})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// seen collects what a watch calls back and lets a test wait for it.
type seen struct {
	facts  chan Fact
	health chan WatchHealth
}

func watchStub(t *testing.T, s *stub) *seen {
	t.Helper()
	srv := httptest.NewServer(s)
	return watchServer(t, srv, srv.Close)
}

// watchServer watches until the test ends, and leaves no goroutine behind.
func watchServer(t *testing.T, srv *httptest.Server, closeServer func()) *seen {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	got := &seen{facts: make(chan Fact, 100), health: make(chan WatchHealth, 100)}
	stop, err := (&Cluster{client: client}).Watch(t.Context(), WatchSpec{
		Namespace: "ns", Service: "probe", Deployment: "probe", PodSelector: "a=b",
		OnFact:   func(f Fact) { got.facts <- f },
		OnHealth: func(h WatchHealth) { got.health <- h },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		stop() // safe to call twice
		closeServer()
		goleak.VerifyNone(t, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
	})
	return got
}

func (s *seen) next(t *testing.T, n int) []string {
	t.Helper()
	var facts []Fact
	for range n {
		select {
		case f := <-s.facts:
			if f.MonoNs == 0 {
				t.Errorf("%s has no time of receipt", f.Kind)
			}
			facts = append(facts, f)
		case <-time.After(20 * time.Second):
			t.Fatalf("after %q: no further fact", brief(facts))
		}
	}
	return brief(facts)
}

func (s *seen) gap(t *testing.T) (begin, end WatchHealth) {
	t.Helper()
	for _, h := range []*WatchHealth{&begin, &end} {
		select {
		case *h = <-s.health:
		case <-time.After(20 * time.Second):
			t.Fatal("no word about the gap")
		}
	}
	if begin.ToMonoNs != 0 || end.ToMonoNs < begin.FromMonoNs || end.FromMonoNs != begin.FromMonoNs || begin.FromMonoNs == 0 {
		t.Errorf("gap %+v, then %+v: want a begin, then the same with an end", begin, end)
	}
	return begin, end
}

func expect(t *testing.T, want, got []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
}

func TestWatchGoesOnWhereItWasCut(t *testing.T) {
	first, second := session{lines: make(chan string)}, session{lines: make(chan string)}
	s := &stub{t: t, version: 10, pods: []*corev1.Pod{pod("a")}, sessions: make(chan session, 2)}
	s.sessions <- first
	s.sessions <- second
	got := watchStub(t, s)
	expect(t, []string{"pod-added pod/probe-a seen_by=list"}, got.next(t, 1))
	first.lines <- line(t, "MODIFIED", pod("a", ready("True")), 11)
	expect(t, []string{"pod-ready pod/probe-a"}, got.next(t, 1))
	close(first.lines) // the API server goes away in order
	if begin, _ := got.gap(t); begin.Resource != "pods" || begin.Why == "" {
		t.Errorf("gap %+v does not say what and why", begin)
	}
	second.lines <- line(t, "DELETED", pod("a", ready("True"), exitedWith("c1", 137)), 12)
	expect(t, []string{"container-exited container/probe-a/probe exit_code=137", "pod-removed pod/probe-a"}, got.next(t, 2))
	s.mu.Lock()
	defer s.mu.Unlock()
	expect(t, []string{"10", "11"}, s.from)
}

// 410 comes in two forms: as an event of the watch, and as the answer to opening one.
func TestWatchListsAgainAfter410(t *testing.T) {
	for _, form := range []string{"event", "answer"} {
		t.Run(form, func(t *testing.T) {
			first, last := session{lines: make(chan string)}, session{lines: make(chan string)}
			s := &stub{t: t, version: 10, pods: []*corev1.Pod{pod("a", running("c1")), pod("b")}, sessions: make(chan session, 3)}
			s.sessions <- first
			got := watchStub(t, s)
			got.next(t, 3)
			s.mu.Lock()
			s.version, s.pods = 50, []*corev1.Pod{pod("a", exitedWith("c1", 1))} // what happened meanwhile
			s.mu.Unlock()
			if form == "event" {
				first.lines <- `{"type":"ERROR","object":` + gone410 + `}`
			} else {
				s.sessions <- session{refuse: http.StatusGone}
				close(first.lines)
			}
			s.sessions <- last
			got.gap(t)
			expect(t, []string{
				"pod-removed pod/probe-b seen_by=relist",
				"container-exited container/probe-a/probe exit_code=1 seen_by=relist",
			}, got.next(t, 2))
			last.lines <- line(t, "ADDED", pod("c"), 51)
			expect(t, []string{"pod-added pod/probe-c"}, got.next(t, 1))
			s.mu.Lock()
			defer s.mu.Unlock()
			if v := s.from[len(s.from)-1]; v != "50" {
				t.Errorf("watched on from %s, want 50", v)
			}
		})
	}
}

// An API server that is killed and comes back: the gap lasts from one to the other.
func TestWatchedObjectsAreChosen(t *testing.T) {
	chosen := func(s WatchSpec) string {
		var all []string
		for _, r := range (&Cluster{client: fake.NewClientset()}).resources(s) {
			all = append(all, strings.TrimSpace(r.name+" "+r.options.LabelSelector+r.options.FieldSelector))
		}
		return strings.Join(all, ", ")
	}
	const events = ", events involvedObject.kind=Pod,reason=Killing"
	tests := []struct {
		spec WatchSpec
		want string
	}{
		{WatchSpec{PodSelector: "app=web", Deployment: "web", Service: "svc"}, "pods app=web, endpointslices kubernetes.io/service-name=svc, deployments metadata.name=web"},
		{WatchSpec{PodSelector: "app=db", StatefulSet: "db"}, "pods app=db, statefulsets metadata.name=db"},
		{WatchSpec{PodName: "alone"}, "pods metadata.name=alone"},
	}
	for _, tt := range tests {
		if got := chosen(tt.spec); got != tt.want+events {
			t.Errorf("watched: %s; want %s", got, tt.want+events)
		}
	}
}

func TestWatchOutlivesTheServer(t *testing.T) {
	s := &stub{t: t, version: 10, pods: []*corev1.Pod{pod("a")}, sessions: make(chan session, 2)}
	s.sessions <- session{lines: make(chan string)}
	first := httptest.NewServer(s)
	var second *httptest.Server
	got := watchServer(t, first, func() { second.Close() })
	got.next(t, 1)
	first.CloseClientConnections()
	first.Close()
	began := map[string]int64{}
	for len(began) < 4 { // every resource notices
		h := <-got.health
		began[h.Resource] = h.FromMonoNs
	}
	again := session{lines: make(chan string)}
	s.sessions <- again
	l, err := net.Listen("tcp", first.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	second = httptest.NewUnstartedServer(s)
	if err := second.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	second.Listener = l
	second.Start()
	again.lines <- line(t, "MODIFIED", pod("a", ready("True")), 11)
	expect(t, []string{"pod-ready pod/probe-a"}, got.next(t, 1))
	for ended := map[string]bool{}; len(ended) < len(began); {
		h := <-got.health
		if h.ToMonoNs > began[h.Resource] && h.FromMonoNs >= began[h.Resource] {
			ended[h.Resource] = true
		}
	}
}

func TestHubHoldsEventsUntilTheirPodIsKnown(t *testing.T) {
	var got []Fact
	h := newHub(WatchSpec{OnFact: func(f Fact) { got = append(got, f) }})
	kill := func(uid string) func() []Fact {
		return func() []Fact { return []Fact{{Kind: "kubelet-killing", Subject: "pod/probe-" + uid, PodUID: uid}} }
	}
	h.push(arrival{facts: kill("a")})
	h.push(arrival{facts: kill("stranger")})
	h.push(arrival{facts: func() []Fact { return diffPod(nil, pod("a")) }})
	h.push(arrival{facts: kill("a")})
	h.close()
	expect(t, []string{"pod-added pod/probe-a", "kubelet-killing pod/probe-a", "kubelet-killing pod/probe-a"}, brief(got))
	if got[1].MonoNs > got[0].MonoNs {
		t.Error("the held fact lost its own time of receipt")
	}
}
