package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

// buildInto fills cache with a built set of one version.
func buildInto(t *testing.T, cache, kubernetes string) Set {
	t.Helper()
	g, _ := newTestGetter(t, fromBuild, "", cache)
	v, err := parseVersion(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	g.version = v
	g.build = func(ctx context.Context, dir string) (string, error) {
		with, err := fakeBuild(t)(ctx, dir)
		writeProgram(t, filepath.Join(dir, program), script(program, kubernetes))
		return with, err
	}
	set, err := g.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestCachedAndRemove(t *testing.T) {
	cache := t.TempDir()
	if sets, err := Cached(cache); err != nil || sets != nil {
		t.Errorf("an absent cache holds %v, %v", sets, err)
	}
	if err := Remove(cache, DefaultVersion); err != nil {
		t.Errorf("removing from an absent cache: %v", err)
	}
	for _, v := range []string{"v1.37.10", "v1.37.2", "v1.34.4"} {
		buildInto(t, cache, v)
	}
	root := filepath.Join(cache, "kubernetes")
	leftover := filepath.Join(root, ".v1.37.2-amd64-download.tmp")
	if err := os.Mkdir(leftover, 0o755); err != nil {
		t.Fatal(err)
	}
	versions := func() (s string) {
		sets, err := Cached(cache)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			s += set.Version + "-" + set.From + " "
		}
		return s
	}
	if got, want := versions(), "v1.34.4-build v1.37.2-build v1.37.10-build "; got != want {
		t.Errorf("cached are %s, want %s", got, want)
	}
	if err := Remove(cache, "1.37.2"); err != nil {
		t.Error(err)
	}
	if got, want := versions(), "v1.34.4-build v1.37.10-build "; got != want {
		t.Errorf("cached are %s, want %s", got, want)
	}
	if _, err := os.Stat(leftover); !os.IsNotExist(err) {
		t.Errorf("the leftover is still there: %v", err)
	}

	g, _ := newTestGetter(t, fromBuild, "", cache)
	g.version = version{34, 4}
	unlock, held, err := tryLock(lockName(g.root, g.version, g.arch))
	if err != nil || !held {
		t.Fatal(held, err)
	}
	defer unlock()
	wantError(t, Remove(cache, "v1.34.4"), "by another process")
	if got, want := versions(), "v1.34.4-build v1.37.10-build "; got != want {
		t.Errorf("cached are %s, want %s", got, want)
	}
}

func TestDamagedSetIsMadeAgain(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"no manifest":     func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) },
		"a part is gone":  func(dir string) error { return os.Remove(filepath.Join(dir, string(Proxy))) },
		"shorter":         func(dir string) error { return os.Truncate(filepath.Join(dir, program), 10) },
		"not executable":  func(dir string) error { return os.Chmod(filepath.Join(dir, program), 0o644) },
		"half a manifest": func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 20) },
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			set := buildInto(t, cache, DefaultVersion)
			if err := damage(set.Dir); err != nil {
				t.Fatal(err)
			}
			if sets, err := Cached(cache); err != nil || len(sets) != 0 {
				t.Errorf("taken for complete: %v, %v", sets, err)
			}
			if again := buildInto(t, cache, DefaultVersion); again != set {
				t.Errorf("made again: %+v, want %+v", again, set)
			}
			if _, err := readSet(set.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSecondCallWaitsAndTakesTheFirstsResult(t *testing.T) {
	cache := t.TempDir()
	var builds atomic.Int32
	building, waiting := make(chan struct{}), make(chan struct{})
	build := func(ctx context.Context, dir string) (string, error) {
		builds.Add(1)
		close(building)
		<-waiting
		return fakeBuild(t)(ctx, dir)
	}
	first, _ := newTestGetter(t, fromBuild, "", cache)
	second, _ := newTestGetter(t, fromBuild, "", cache)
	first.build, second.build = build, build
	second.progress = func(line string) {
		if strings.Contains(line, "another process") {
			close(waiting)
		}
	}
	var sets [2]Set
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { sets[0], errs[0] = first.get(t.Context()) })
	<-building
	wg.Go(func() { sets[1], errs[1] = second.get(t.Context()) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if builds.Load() != 1 || sets[0] != sets[1] || sets[0].Dir == "" {
		t.Errorf("%d builds gave %+v", builds.Load(), sets)
	}
}

func TestWaitingForTheLockCanBeInterrupted(t *testing.T) {
	cache := t.TempDir()
	g, _ := newTestGetter(t, fromBuild, "", cache)
	if err := os.MkdirAll(g.root, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, _, err := tryLock(lockName(g.root, g.version, g.arch))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	g.progress = func(string) { cancel() }
	g.lockPoll = time.Hour
	if _, err := g.get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFolder(t *testing.T) {
	fill := func(t *testing.T, version string) string {
		dir := t.TempDir()
		for _, p := range all() {
			writeProgram(t, filepath.Join(dir, string(p)), script(p, version))
		}
		return dir
	}
	good, vendor := fill(t, "v1.36.1"), fill(t, "v1.36.1+k3s1")
	for _, c := range []struct{ dir, asked, want string }{
		{good, "", "v1.36.1"}, {good, "v1.36.1", "v1.36.1"}, {good, "1.36.1", "v1.36.1"},
		{vendor, "", "v1.36.1+k3s1"}, {vendor, "v1.36.1", "v1.36.1+k3s1"},
	} {
		set, err := Get(t.Context(), Options{Version: c.asked, From: c.dir})
		if want := (Set{Version: c.want, From: fromFolder, Dir: c.dir}); err != nil || set != want {
			t.Errorf("%q: got %+v, %v, want %+v", c.asked, set, err, want)
		}
	}

	short := fill(t, "v1.36.1")
	for _, p := range []Part{Etcd, Proxy} {
		if err := os.Remove(filepath.Join(short, string(p))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(short, string(Kubectl)), 0o644); err != nil {
		t.Fatal(err)
	}
	mute := fill(t, "v1.36.1")
	writeProgram(t, filepath.Join(mute, string(Kubelet)), "#!/bin/sh\necho no >&2\nexit 3\n")
	for _, c := range []struct {
		dir, asked string
		code       fault.Code
		says       []string
	}{
		{short, "", fault.Usage, []string{"lacks etcd, kube-proxy", "nobody may execute kubectl"}},
		{good, "v1.37.2", fault.Usage, []string{"holds Kubernetes v1.36.1, not v1.37.2"}},
		{good, "newest", fault.Usage, []string{"not a Kubernetes version"}},
		{fill(t, "v1.30.0"), "", fault.Usage, []string{"before v1.32"}},
		{mute, "", fault.Unmeasurable, []string{"kubelet does not run", "exit status 3", "no"}},
		{filepath.Join(good, "kubelet"), "", fault.Usage, []string{"neither a way to get Kubernetes nor a folder"}},
		{"dowload", "", fault.Usage, []string{`"dowload" is neither`}},
	} {
		_, err := Get(t.Context(), Options{Version: c.asked, From: c.dir})
		wantError(t, err, c.says...)
		if code := fault.CodeOf(err); code != c.code {
			t.Errorf("%v: exit code %d, want %d", err, code, c.code)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for says, o := range map[string]Options{
		"not a Kubernetes version": {Version: "x", From: fromBuild},
		"no address of a mirror":   {From: fromDownload, Mirror: "dl.k8s.io"},
	} {
		o.CacheDir = t.TempDir()
		_, err := Get(t.Context(), o)
		wantError(t, err, says)
		if code := fault.CodeOf(err); code != fault.Usage {
			t.Errorf("%v: exit code %d", err, code)
		}
	}
}

func TestWrongKubeletIsNotPublished(t *testing.T) {
	cache := t.TempDir()
	g, _ := newTestGetter(t, fromBuild, "", cache)
	g.version = version{36, 0} // the fake build makes DefaultVersion
	g.build = fakeBuild(t)
	_, err := g.get(t.Context())
	wantError(t, err, "says it is "+DefaultVersion+", not v1.36.0")
	wantNothing(t, cache)
}
