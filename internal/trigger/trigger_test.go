package trigger

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drainproof/drainproof/internal/fault"
)

var target = Target{Namespace: "ns", Pod: "probe-1", PodUID: "uid-1", Deployment: "probe"}

// server is an API server that knows one Deployment's scale and answers
// everything else as it was told.
type server struct {
	mu       sync.Mutex
	requests []string // "METHOD path body"
	replicas int
	answer   func(w http.ResponseWriter)
	// routes answer "METHOD path" instead; they may use the fields without the lock.
	routes map[string]func(w http.ResponseWriter, body []byte)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	w.Header().Set("Content-Type", "application/json")
	if route := s.routes[r.Method+" "+r.URL.Path]; route != nil {
		route(w, body)
		return
	}
	if s.answer != nil {
		s.answer(w)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/deployments/probe/scale") {
		if r.Method == http.MethodPatch {
			var p struct{ Spec struct{ Replicas int } }
			if err := json.Unmarshal(body, &p); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			s.replicas = p.Spec.Replicas
		}
		fmt.Fprintf(w, `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":%d}}`, s.replicas)
		return
	}
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func status(code int32, reason metav1.StatusReason, causes ...metav1.StatusCause) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "said the server",
			Details: &metav1.StatusDetails{Causes: causes},
		})
	}
}

func start(t *testing.T, s *server) kubernetes.Interface {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestFireIsOneRequestForThisVeryPod(t *testing.T) {
	tests := []struct {
		kind         Kind
		path, method string
	}{
		{Delete, "/api/v1/namespaces/ns/pods/probe-1", "DELETE"},
		{Evict, "/api/v1/namespaces/ns/pods/probe-1/eviction", "POST"},
		{ForceDelete, "/api/v1/namespaces/ns/pods/probe-1", "DELETE"},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			s := &server{}
			tr, err := New(t.Context(), tt.kind, start(t, s), target)
			if err != nil {
				t.Fatal(err)
			}
			if err := tr.Fire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := tr.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := s.seen()
			if len(got) != 1 {
				t.Fatalf("%d requests, want exactly one: %q", len(got), got)
			}
			if !strings.HasPrefix(got[0], tt.method+" "+tt.path+" ") {
				t.Errorf("request %q, want %s %s", got[0], tt.method, tt.path)
			}
			if !strings.Contains(got[0], `"preconditions":{"uid":"uid-1"}`) {
				t.Errorf("request %q lacks the UID precondition", got[0])
			}
			if zero := strings.Contains(got[0], `"gracePeriodSeconds":0`); zero != (tt.kind == ForceDelete) {
				t.Errorf("request %q: a grace period of zero is for force-delete alone", got[0])
			}
		})
	}
}

func TestRefusalsAreFaultsThatSayWhatToDo(t *testing.T) {
	budget := metav1.StatusCause{Type: "DisruptionBudget", Message: "The disruption budget keep-one needs 1 healthy pods and has 1 currently"}
	tests := []struct {
		name   string
		kind   Kind
		answer func(http.ResponseWriter)
		want   string
	}{
		{"a budget blocks, and is named", Evict, status(429, metav1.StatusReasonTooManyRequests, budget), "blocked by a PodDisruptionBudget (The disruption budget keep-one"},
		{"busy is not blocked", Evict, status(429, metav1.StatusReasonTooManyRequests), "put off by the API server"},
		{"gone already", Delete, status(404, metav1.StatusReasonNotFound), "gone already"},
		{"another Pod of that name", Delete, status(409, metav1.StatusReasonConflict), "another object has this name"},
		{"no right", Delete, status(403, metav1.StatusReasonForbidden), "is forbidden"},
		{"anything else", Delete, status(500, metav1.StatusReasonInternalError), "said the server"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr, err := New(t.Context(), tt.kind, start(t, &server{answer: tt.answer}), target)
			if err != nil {
				t.Fatal(err)
			}
			err = tr.Fire(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if fault.CodeOf(err) != fault.Unmeasurable || fault.NextOf(err) == "" {
				t.Errorf("code %d, next %q: want 4 and an advice", fault.CodeOf(err), fault.NextOf(err))
			}
		})
	}
}

// A server that says "later" must not make Fire wait and send again: the trial's zero would be wrong.
func TestFireIsNotRepeatedWhenTheServerSaysLater(t *testing.T) {
	for _, kind := range []Kind{Delete, ForceDelete, Evict} {
		s := &server{answer: func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			status(429, metav1.StatusReasonTooManyRequests)(w)
		}}
		tr, err := New(t.Context(), kind, start(t, s), target)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Fire(t.Context()); err == nil {
			t.Errorf("%s: no error", kind)
		}
		if n := len(s.seen()); n != 1 {
			t.Errorf("%s: %d requests, want 1", kind, n)
		}
	}
}

func TestScaleIsPutBackOnce(t *testing.T) {
	s := &server{replicas: 3}
	tr, err := New(t.Context(), Scale, start(t, s), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Undo(t.Context()); err != nil || s.replicas != 3 {
		t.Fatalf("undo before fire: %v, replicas %d", err, s.replicas)
	}
	before := len(s.seen())
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.seen()) - before; n != 1 || s.replicas != 0 {
		t.Fatalf("fire: %d requests, replicas %d; want 1 and 0", n, s.replicas)
	}
	for range 2 {
		if err := tr.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.replicas != 3 {
		t.Errorf("replicas %d after undo, want 3", s.replicas)
	}
}

func TestScaleLeavesAnothersScaleAlone(t *testing.T) {
	s := &server{replicas: 3}
	tr, err := New(t.Context(), Scale, start(t, s), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.replicas = 5 // somebody else, meanwhile
	if err := tr.Undo(t.Context()); err != nil || s.replicas != 5 {
		t.Errorf("undo: %v, replicas %d; want 5", err, s.replicas)
	}
}

func TestScaleUndoOfSomethingGone(t *testing.T) {
	s := &server{replicas: 1}
	tr, err := New(t.Context(), Scale, start(t, s), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.answer = status(404, metav1.StatusReasonNotFound)
	if err := tr.Undo(t.Context()); err != nil {
		t.Errorf("undo of a Deployment that is gone: %v", err)
	}
}

func TestScaleOfNothingIsRefused(t *testing.T) {
	if _, err := New(t.Context(), Scale, start(t, &server{}), target); err == nil || !strings.Contains(err.Error(), "no replicas") {
		t.Errorf("error %v, want one about no replicas", err)
	}
}

func TestNoneTouchesNothing(t *testing.T) {
	s := &server{}
	tr, err := New(t.Context(), None, start(t, s), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.seen(); len(got) != 0 {
		t.Errorf("the control sent %q", got)
	}
}

func TestEveryKindIsMadeAndNoOther(t *testing.T) {
	client := start(t, &server{replicas: 1})
	for _, k := range Kinds() {
		tr, err := New(t.Context(), k, client, target)
		if err != nil || tr.Kind() != k || tr.Subject() == "" {
			t.Errorf("%s: %v", k, err)
		}
	}
	for _, k := range KindsForTest() {
		if _, err := New(t.Context(), k, client, target); k != Kill && err != nil && strings.Contains(err.Error(), "unknown trigger") {
			t.Errorf("%s: %v", k, err)
		}
	}
	if _, err := New(t.Context(), "explode", client, target); fault.CodeOf(err) != fault.Usage {
		t.Errorf("unknown kind: %v, want a usage fault", err)
	}
}
