package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// mirror is a loopback server with the layout of dl.k8s.io. A hook answers in
// place of the file of its part.
type mirror struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	hooks map[string]http.HandlerFunc
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{hooks: map[string]http.HandlerFunc{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) serve(w http.ResponseWriter, r *http.Request) {
	name := filepath.Base(r.URL.Path)
	m.mu.Lock()
	m.asked = append(m.asked, name)
	hook := m.hooks[name]
	m.mu.Unlock()
	if hook != nil {
		hook(w, r)
		return
	}
	want := fmt.Sprintf("/release/%s/bin/linux/%s/%s", DefaultVersion, runtime.GOARCH, name)
	part, sum := strings.CutSuffix(name, ".sha256")
	if r.URL.Path != want {
		http.NotFound(w, r)
		return
	}
	body := script(Part(part), DefaultVersion)
	if sum {
		body = sumOf(body)
	}
	_, _ = w.Write([]byte(body))
}

// times counts the requests for name.
func (m *mirror) times(name string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.asked {
		if a == name {
			n++
		}
	}
	return n
}

// script is a stand-in for one program: it says its version.
func script(p Part, version string) string {
	return fmt.Sprintf("#!/bin/sh\n# %s\necho Kubernetes %s\n", p, version)
}

func sumOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// lines collects progress.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// newTestGetter is a getter with short waits, an etcd, and a build that fails the test.
func newTestGetter(t *testing.T, from, mirror, cache string) (*getter, *lines) {
	t.Helper()
	l := &lines{}
	g, err := newGetter(Options{From: from, CacheDir: cache, Mirror: mirror, Progress: l.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.client.CloseIdleConnections)
	etcd := filepath.Join(t.TempDir(), "etcd")
	writeProgram(t, etcd, script(Etcd, DefaultVersion))
	g.lookPath = func(string) (string, error) { return etcd, nil }
	g.build = func(context.Context, string) (string, error) {
		t.Error("built")
		return "", context.Canceled
	}
	g.backoff, g.lockPoll, g.tick, g.goGrace = time.Millisecond, time.Millisecond, time.Hour, 50*time.Millisecond
	return g, l
}

func writeProgram(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
}

// fakeBuild makes what a build makes: one program and links to it.
func fakeBuild(t *testing.T) func(context.Context, string) (string, error) {
	return func(_ context.Context, dir string) (string, error) {
		writeProgram(t, filepath.Join(dir, program), script(program, DefaultVersion))
		for _, p := range all() {
			if err := os.Symlink(program, filepath.Join(dir, string(p))); err != nil {
				return "", err
			}
		}
		return "go1.26.0", nil
	}
}

// wantNothing checks that a failed call left neither a set nor a temporary folder.
func wantNothing(t *testing.T, cache string) {
	t.Helper()
	sets, err := Cached(cache)
	if err != nil || len(sets) != 0 {
		t.Errorf("the cache holds %v, %v, want nothing", sets, err)
	}
	entries, err := os.ReadDir(filepath.Join(cache, "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func wantError(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", says)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error is %q, want %q in it", err, s)
		}
	}
}
