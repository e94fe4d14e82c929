package parts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

// fakeGo is a go command that answers `go env` and `go list`, and runs body for
// `go build` and `go mod`. The program it builds is a shell script.
func fakeGo(t *testing.T, g *getter, goVersion, goToolchain, body string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "go")
	writeProgram(t, path, `#!/bin/sh
case "$1" in
env) echo '{"GOVERSION":"`+goVersion+`","GOTOOLCHAIN":"`+goToolchain+`","GOCACHE":"`+dir+`/c","GOMODCACHE":"`+dir+`/m"}'; exit ;;
list) printf 'a\nb\n'; exit ;;
esac
`+body)
	g.goTool, g.lookPath = path, func(string) (string, error) { return path, nil }
	g.build = g.buildModule
}

// builds makes FILE of `go build ... -o FILE .`, if it stands in a module.
const builds = `
for a; do case "$o" in -o) out=$a ;; esac; o=$a; done
echo k8s.io/kubernetes/cmd/kubelet/app >&2
echo "$CGO_ENABLED $GOOS $GOFLAGS $GOWORK" >&2
[ -f main.go ] && [ -f go.mod ] || exit 1
printf '#!/bin/sh\necho Kubernetes v1.37.2\n' >"$out" && chmod +x "$out"
`

func TestBuild(t *testing.T) {
	cache := t.TempDir()
	g, l := newTestGetter(t, fromBuild, "", cache)
	fakeGo(t, g, "go1.26.8", "local", builds)
	set, err := g.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all() {
		if target, err := os.Readlink(set.Path(p)); err != nil || target != program {
			t.Errorf("%s links to %q, %v", p, target, err)
		}
	}
	log, err := os.ReadFile(g.logName())
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"go build -v -trimpath -buildvcs=false -ldflags -s -w -X k8s.io/component-base/version.gitVersion=v1.37.2",
		"version.gitMajor=1", "version.gitMinor=37", "0 linux -mod=readonly off",
	} {
		if !strings.Contains(string(log), says) {
			t.Errorf("the log has no %q:\n%s", says, log)
		}
	}
	if !strings.Contains(l.String(), "10 to 25 minutes on 2 cores") {
		t.Errorf("progress has no estimate:\n%s", l)
	}
	manifest, err := os.ReadFile(filepath.Join(set.Dir, manifestName))
	if err != nil || !strings.Contains(string(manifest), `"source": "go1.26.8"`) {
		t.Errorf("the manifest does not say with which Go: %s, %v", manifest, err)
	}
	if entries, err := filepath.Glob(filepath.Join(g.root, ".*")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBuildFaults(t *testing.T) {
	for _, c := range []struct {
		name, goVersion, goToolchain, body string
		prepare                            func(*getter)
		says                               []string
		next                               string
	}{
		{name: "no go", goVersion: "go1.26.0", prepare: func(g *getter) {
			g.lookPath = func(string) (string, error) { return "", exec.ErrNotFound }
		}, says: []string{"no Go in PATH"}, next: "install Go"},
		{name: "old go", goVersion: "go1.24.4", goToolchain: "local",
			says: []string{"needs Go 1.26.0", "is go1.24.4"}, next: "GOTOOLCHAIN=auto"},
		{name: "no space", goVersion: "go1.26.0", prepare: func(g *getter) {
			g.free = func(string) (uint64, error) { return 2 * gib, nil }
		}, says: []string{"2.0 GiB free, and about 6 GiB are needed"}, next: "free some space"},
		{name: "no network", goVersion: "go1.26.0", body: "echo 'go: dial tcp: lookup proxy: no such host' >&2; exit 1\n",
			says: []string{"cannot be fetched", "no such host"}, next: "GOPROXY"},
		{name: "full disk", goVersion: "go1.26.0", body: "echo 'write x: no space left on device' >&2; exit 1\n",
			says: []string{"no space left to build"}, next: "GOCACHE"},
		{name: "broken", goVersion: "go1.26.0", body: "seq 1 50 >&2; echo './main.go:1: oops' >&2; exit 2\n",
			says: []string{"go build for Kubernetes v1.37.2 ended with exit status 2", "49\n50\n./main.go:1: oops"}, next: "build.log"},
		{name: "unknown version", goVersion: "go1.26.0", prepare: func(g *getter) { g.version = version{36, 99} },
			body: `echo '{"Error":"k8s.io/kubernetes@v1.36.99: invalid version: unknown revision v1.36.99"}'; exit 1` + "\n",
			says: []string{"v1.36.99 is not to be had as a Go module", "unknown revision"}, next: "released"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := t.TempDir()
			g, _ := newTestGetter(t, fromBuild, "", cache)
			fakeGo(t, g, c.goVersion, c.goToolchain, c.body)
			if c.prepare != nil {
				c.prepare(g)
			}
			_, err := g.get(t.Context())
			wantError(t, err, c.says...)
			if code, next := fault.CodeOf(err), fault.NextOf(err); code != fault.Unmeasurable || !strings.Contains(next, c.next) {
				t.Errorf("exit code %d, advice %q, want %q in it", code, next, c.next)
			}
			wantNothing(t, cache)
		})
	}
}

func TestBuildLetsGoFetchANewerGo(t *testing.T) {
	g, l := newTestGetter(t, fromBuild, "", t.TempDir())
	fakeGo(t, g, "go1.24.4", "auto", builds)
	if _, err := g.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.String(), "needs Go 1.26.0, and this is go1.24.4") {
		t.Errorf("progress does not say so:\n%s", l)
	}
}

func TestBuildOfAVersionThatIsNotPinned(t *testing.T) {
	g, _ := newTestGetter(t, fromBuild, "", t.TempDir())
	g.version = version{36, 1}
	goMod := `{"Go":"1.25.0","Require":[{"Path":"` + etcdModule + `","Version":"v3.6.9"}]}`
	fakeGo(t, g, "go1.26.0", "local", `
case "$*" in
"mod download -json k8s.io/kubernetes@v1.36.1") echo '{"GoMod":"/m/go.mod"}'; exit ;;
"mod edit -json /m/go.mod") echo '`+goMod+`'; exit ;;
"mod tidy") cat go.mod >&2; exit ;;
esac
`+strings.ReplaceAll(builds, "v1.37.2", "v1.36.1"))
	if _, err := g.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(g.logName())
	if err != nil || !strings.Contains(string(log), "k8s.io/kubernetes v1.36.1") || !strings.Contains(string(log), etcdModule+" v3.6.9") {
		t.Errorf("what was tidied: %s, %v", log, err)
	}
}

// An interrupted build must take the compilers with it, not only the go command.
func TestInterruptedBuildEndsItsChildren(t *testing.T) {
	cache, note := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	g, l := newTestGetter(t, fromBuild, "", cache)
	// The child ignores the interrupt, as a background job of a shell does.
	fakeGo(t, g, "go1.26.0", "local", "sleep 600 & echo $! >"+note+".new; mv "+note+".new "+note+"; wait\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g.tick = 2 * time.Millisecond
	g.progress = func(line string) {
		l.add(line)
		if _, err := os.Stat(note); err == nil && strings.HasPrefix(line, "go build: ") {
			cancel()
		}
	}
	_, err := g.get(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	wantNothing(t, cache)
	raw, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("child %d of the go command is still there", pid)
	}
}

// gone tells whether a process has ended, or will in a moment; a zombie that
// nobody waits for has ended too.
func gone(pid int) bool {
	for range 200 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}
