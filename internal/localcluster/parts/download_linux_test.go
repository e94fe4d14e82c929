package parts

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestDownload(t *testing.T) {
	m, cache := newMirror(t), t.TempDir()
	g, l := newTestGetter(t, fromDownload, m.URL, cache)
	set, err := g.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if set.Version != DefaultVersion || set.From != fromDownload {
		t.Errorf("got %+v", set)
	}
	for _, p := range all() {
		body, err := os.ReadFile(set.Path(p))
		if err != nil || string(body) != script(p, DefaultVersion) {
			t.Errorf("%s: %q, %v", p, body, err)
		}
	}
	for _, says := range []string{"about 400 MiB", "kubelet: ", "MiB/s", "is ready in"} {
		if !strings.Contains(l.String(), says) {
			t.Errorf("progress has no %q:\n%s", says, l)
		}
	}

	// Once more, for both ways: the cache serves, and the network is not touched.
	asked := len(m.asked)
	m.Close()
	for _, from := range []string{fromDownload, fromAuto} {
		again, _ := newTestGetter(t, from, m.URL, cache)
		if got, err := again.get(t.Context()); err != nil || got != set {
			t.Errorf("%s: %+v, %v, want %+v", from, got, err, set)
		}
	}
	if len(m.asked) != asked {
		t.Errorf("the cache was asked over the network: %v", m.asked[asked:])
	}
}

func TestDownloadFaults(t *testing.T) {
	body := script(Kubelet, DefaultVersion)
	corrupt := strings.Replace(body, "echo", "exit", 1)
	for _, c := range []struct {
		name, file string
		hook       http.HandlerFunc
		says       []string
		times      int
	}{
		{"corrupt", "kubelet", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(corrupt)) },
			[]string{"kubelet is corrupt", sumOf(body), sumOf(corrupt)}, 1},
		{"truncated", "kubelet", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write([]byte(body[:20]))
		}, []string{"kubelet is truncated: 20 of " + strconv.Itoa(len(body)) + " bytes", "3 tries"}, tries},
		{"missing", "kube-proxy.sha256", http.NotFound, []string{"v1.37.2", "does not exist at http://127.0.0.1"}, 1},
		{"refused", "kubectl", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
			[]string{"downloading kubectl", "HTTP 403"}, 1},
		{"unavailable", "kubectl", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			[]string{"downloading kubectl", "HTTP 503"}, tries},
		{"no digest", "kubelet.sha256", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			[]string{"kubelet.sha256 holds no SHA-256", "<html>"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, cache := newMirror(t), t.TempDir()
			m.hooks[c.file] = c.hook
			g, _ := newTestGetter(t, fromDownload, m.URL, cache)
			_, err := g.get(t.Context())
			wantError(t, err, c.says...)
			if code := fault.CodeOf(err); code != fault.Unmeasurable {
				t.Errorf("exit code %d", code)
			}
			if n := m.times(c.file); n != c.times {
				t.Errorf("%s was asked for %d times, want %d", c.file, n, c.times)
			}
			wantNothing(t, cache)
		})
	}
}

// The mirror answered: what it serves wrongly is an error, not a reason to build.
func TestAutoDoesNotBuildOverABadMirror(t *testing.T) {
	for name, hooks := range map[string]map[string]http.HandlerFunc{
		"corrupt": {"kubelet": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }},
		"missing": {"kubelet.sha256": http.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			m, cache := newMirror(t), t.TempDir()
			m.hooks = hooks
			g, _ := newTestGetter(t, fromAuto, m.URL, cache) // its build fails the test
			_, err := g.get(t.Context())
			wantError(t, err, map[string]string{"corrupt": "is corrupt", "missing": "does not exist at"}[name])
			wantNothing(t, cache)
		})
	}
}

func TestAutoBuildsWithoutAMirror(t *testing.T) {
	slow := newMirror(t)
	slow.hooks["kubelet.sha256"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	gone := newMirror(t)
	gone.Close()
	portal := newMirror(t)
	portal.hooks["kubelet.sha256"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) }
	for name, c := range map[string]struct {
		m    *mirror
		says string
	}{
		"slow": {slow, "no answer within 50ms"}, "gone": {gone, "connection refused"}, "portal": {portal, "holds no SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			g, l := newTestGetter(t, fromAuto, c.m.URL, cache)
			g.probeTimeout = 50 * time.Millisecond
			if name != "slow" {
				g.probeTimeout = time.Minute
			}
			g.build = fakeBuild(t)
			set, err := g.get(t.Context())
			if err != nil || set.From != fromBuild {
				t.Fatalf("got %+v, %v", set, err)
			}
			if !strings.Contains(l.String(), c.says) || !strings.Contains(l.String(), "instead") {
				t.Errorf("progress does not say why it builds:\n%s", l)
			}
		})
	}
}

func TestDownloadTriesAgain(t *testing.T) {
	m, cache := newMirror(t), t.TempDir()
	n := 0
	m.hooks["kubelet"] = func(w http.ResponseWriter, _ *http.Request) {
		body := script(Kubelet, DefaultVersion)
		if n++; n < tries {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			body = body[:n]
		}
		_, _ = w.Write([]byte(body))
	}
	g, l := newTestGetter(t, fromDownload, m.URL, cache)
	if _, err := g.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(l.String(), "trying again"); got != tries-1 {
		t.Errorf("%d lines say so:\n%s", got, l)
	}
}

// halfKubelet sends half of the kubelet, calls then, and stands still.
func halfKubelet(then func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := script(Kubelet, DefaultVersion)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write([]byte(body[:len(body)/2]))
		_ = http.NewResponseController(w).Flush()
		then()
		<-r.Context().Done()
	}
}

func TestDownloadStalls(t *testing.T) {
	m, cache := newMirror(t), t.TempDir()
	m.hooks["kubelet"] = halfKubelet(func() {})
	g, _ := newTestGetter(t, fromDownload, m.URL, cache)
	g.stallTimeout = 50 * time.Millisecond
	_, err := g.get(t.Context())
	wantError(t, err, "kubelet: nothing came for 50ms", "3 tries")
	wantNothing(t, cache)
}

func TestInterruptedDownloadLeavesNoSet(t *testing.T) {
	m, cache := newMirror(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	m.hooks["kubelet"] = halfKubelet(cancel)
	g, _ := newTestGetter(t, fromDownload, m.URL, cache)
	_, err := g.get(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	wantNothing(t, cache)

	// What a killed process leaves: a half-filled temporary folder, and even a folder without a manifest.
	for _, dir := range []string{g.dir(fromDownload), filepath.Join(g.root, "."+filepath.Base(g.dir(fromDownload))+".tmp")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeProgram(t, filepath.Join(dir, "kubelet"), "half")
	}
	m.mu.Lock()
	delete(m.hooks, "kubelet")
	m.mu.Unlock()
	if _, err := g.get(t.Context()); err != nil {
		t.Errorf("the call after the interrupted one: %v", err)
	}
}

func TestDownloadNeedsEtcdAndSpace(t *testing.T) {
	m, cache := newMirror(t), t.TempDir()
	g, _ := newTestGetter(t, fromDownload, m.URL, cache)
	g.lookPath = func(string) (string, error) { return "", exec.ErrNotFound }
	_, err := g.get(t.Context())
	wantError(t, err, "etcd is not in PATH", "etcd-server")
	if next := fault.NextOf(err); !strings.Contains(next, "apt-get install etcd-server") {
		t.Errorf("the advice is %q", next)
	}
	for from, want := range map[string][]string{"": {"etcd-server"}, fromAuto: {"etcd-server"}, fromDownload: {"etcd-server"}, fromBuild: nil, "/opt/k": nil} {
		if got := needs(from, g.lookPath); !slices.Equal(got, want) {
			t.Errorf("%q needs %v, want %v", from, got, want)
		}
	}

	g, _ = newTestGetter(t, fromDownload, m.URL, cache)
	g.free = func(string) (uint64, error) { return gib / 2, nil }
	_, err = g.get(t.Context())
	wantError(t, err, "0.5 GiB free, and about 1 GiB are needed", g.root)
	if got := needs(fromDownload, g.lookPath); got != nil {
		t.Errorf("needs %v beside an etcd", got)
	}
	if len(m.asked) != 0 {
		t.Errorf("the mirror was asked for %v", m.asked)
	}
	wantNothing(t, cache)
}

func TestDownloadOntoAFullDisk(t *testing.T) {
	m := newMirror(t)
	g, _ := newTestGetter(t, fromDownload, m.URL, t.TempDir())
	err := g.retry(t.Context(), "kubelet", func() error {
		_, err := g.fetch(t.Context(), Kubelet, "/dev/full")
		return err
	})
	wantError(t, err, "downloading kubelet", "no space left on device")
	if next := fault.NextOf(err); !strings.Contains(next, "free some space") {
		t.Errorf("the advice is %q", next)
	}
	if n := m.times("kubelet"); n != 1 {
		t.Errorf("asked for %d times", n)
	}
}
