package parts

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	defaultMirror = "https://dl.k8s.io"
	gib           = 1 << 30
	// downloadSpace is more than the six programs of any release so far take (about 400 MiB).
	downloadSpace = 1 * gib
)

// getter is one call of Get, with what tests replace.
type getter struct {
	version  version
	arch     string
	from     string
	root     string
	mirror   string
	progress func(string)

	client   *http.Client
	goTool   string
	goTmp    string // where the go command works; its own choice when empty
	lookPath func(string) (string, error)
	free     func(path string) (uint64, error)
	// build fills dir and says with which Go.
	build func(ctx context.Context, dir string) (builtWith string, err error)

	probeTimeout time.Duration
	stallTimeout time.Duration
	backoff      time.Duration
	lockPoll     time.Duration
	tick         time.Duration
	goGrace      time.Duration // for an interrupted go command to tidy up before it is killed
}

func get(ctx context.Context, o Options) (Set, error) {
	if err := supported(); err != nil {
		return Set{}, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	switch o.From {
	case "":
		o.From = fromAuto
	case fromAuto, fromDownload, fromBuild:
	default:
		return folder(ctx, o)
	}
	g, err := newGetter(o)
	if err != nil {
		return Set{}, err
	}
	return g.get(ctx)
}

func newGetter(o Options) (*getter, error) {
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	v, err := parseVersion(o.Version)
	if err != nil {
		return nil, err
	}
	root, err := cacheRoot(o.CacheDir)
	if err != nil {
		return nil, err
	}
	mirror := cmp.Or(strings.TrimRight(o.Mirror, "/"), defaultMirror)
	if u, err := url.Parse(mirror); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fault.Usagef("give it as https://HOST", "%q is no address of a mirror", mirror)
	}
	g := &getter{
		version: v, arch: runtime.GOARCH, from: o.From, root: root, mirror: mirror, progress: o.Progress,
		client: newClient(), goTool: "go", lookPath: exec.LookPath, free: freeBytes,
		probeTimeout: 4 * time.Second, stallTimeout: 30 * time.Second, backoff: time.Second,
		lockPoll: 200 * time.Millisecond, tick: 30 * time.Second, goGrace: 5 * time.Second,
	}
	g.build = g.buildModule
	return g, nil
}

func (g *getter) get(ctx context.Context) (Set, error) {
	if set, ok := g.cached(); ok {
		return set, nil
	}
	if err := os.MkdirAll(g.root, 0o755); err != nil {
		return Set{}, fault.Measuref(err, "name a folder that can be written as the cache", "no cache folder")
	}
	unlock, err := lock(ctx, lockName(g.root, g.version, g.arch), g.lockPoll, func() {
		g.say("another process is getting Kubernetes %s: waiting for it", g.version)
	})
	if err != nil {
		return Set{}, fmt.Errorf("waiting for Kubernetes %s: %w", g.version, err)
	}
	defer unlock()
	// Whoever held the lock may have left a complete set.
	if set, ok := g.cached(); ok {
		return set, nil
	}
	from, err := g.choose(ctx)
	if err != nil {
		return Set{}, err
	}
	return g.fill(ctx, from)
}

// cached gives the complete set that serves this call, if there is one.
func (g *getter) cached() (Set, bool) {
	kinds := []string{g.from}
	if g.from == fromAuto {
		kinds = []string{fromDownload, fromBuild}
	}
	for _, kind := range kinds {
		if set, err := readSet(g.dir(kind)); err == nil {
			return set, true
		}
	}
	return Set{}, false
}

// choose turns auto into download where the mirror answers, else into build.
// A mirror that answers and lacks the version is an error, not a reason to build.
func (g *getter) choose(ctx context.Context) (string, error) {
	if g.from != fromAuto {
		return g.from, nil
	}
	if _, err := g.lookPath(string(Etcd)); err != nil {
		g.say("etcd is not in PATH and a Kubernetes release does not hold it (apt-get install etcd-server): building Kubernetes %s instead", g.version)
		return fromBuild, nil
	}
	probe, cancel := context.WithTimeout(ctx, g.probeTimeout)
	defer cancel()
	_, err := g.checksum(probe, Kubelet)
	if ctx.Err() != nil {
		return "", fmt.Errorf("asking %s: %w", g.mirror, context.Cause(ctx))
	}
	switch {
	case err == nil:
		return fromDownload, nil
	case isAbsent(err):
		return "", g.noRelease(err)
	}
	g.say("%s cannot be used (%v): building Kubernetes %s instead", g.mirror, probeReason(probe, g.probeTimeout, err), g.version)
	return fromBuild, nil
}

// probeReason says in few words why the mirror was given up.
func probeReason(probe context.Context, timeout time.Duration, err error) error {
	if probe.Err() != nil {
		return fmt.Errorf("no answer within %s", timeout)
	}
	return err
}

// fill makes the set in a temporary folder and publishes it. The lock is held.
func (g *getter) fill(ctx context.Context, from string) (set Set, err error) {
	final := g.dir(from)
	tmp := filepath.Join(g.root, "."+filepath.Base(final)+".tmp")
	// A process that was killed left this behind.
	if err := os.RemoveAll(tmp); err != nil {
		return Set{}, fmt.Errorf("clearing %s: %w", tmp, err)
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return Set{}, fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	m := manifest{Version: g.version.String(), Arch: g.arch, From: from}
	if from == fromDownload {
		m.Source = g.mirror
		err = g.download(ctx, tmp)
	} else {
		m.Source, err = g.build(ctx, tmp)
	}
	if err != nil {
		return Set{}, err
	}
	if err := g.check(ctx, tmp); err != nil {
		return Set{}, err
	}
	if m.Files, m.Links, err = inventory(tmp); err != nil {
		return Set{}, err
	}
	if err := publish(tmp, final, m); err != nil {
		return Set{}, err
	}
	g.say("Kubernetes %s is ready in %s", g.version, final)
	return readSet(final)
}

// check runs the new kubelet: a set for another machine, or a mirror's mix-up,
// must not be found out by a cluster that does not start.
func (g *getter) check(ctx context.Context, dir string) error {
	got, err := kubeletVersion(ctx, dir)
	if err != nil {
		return fault.Measuref(err, "", "the new kubelet of Kubernetes %s does not run", g.version)
	}
	if !sameVersion(got, g.version) {
		return fault.Measuref(nil, "", "the new kubelet says it is %s, not %s", got, g.version)
	}
	return nil
}

func (g *getter) dir(from string) string {
	return filepath.Join(g.root, setName(g.version.String(), g.arch, from))
}

func (g *getter) say(format string, args ...any) { g.progress(fmt.Sprintf(format, args...)) }

// needSpace faults unless path's file system has room.
func (g *getter) needSpace(path string, need uint64, what string) error {
	free, err := g.free(path)
	if err != nil {
		return err
	}
	if free < need {
		return fault.Measuref(nil, "free some space, or move the folder to a larger disk",
			"no space to %s: %s has %.1f GiB free, and about %.0f GiB are needed",
			what, path, float64(free)/gib, float64(need)/gib)
	}
	return nil
}

// Needs lists the Debian packages without which Get cannot do from, and whose
// programs are not in PATH here: etcd is no part of a Kubernetes release, so a
// download takes the machine's. Building needs Go, which may be no package.
func Needs(from string) []string { return needs(from, exec.LookPath) }

func needs(from string, lookPath func(string) (string, error)) []string {
	if from != fromDownload && from != fromAuto && from != "" {
		return nil
	}
	if _, err := lookPath(string(Etcd)); err != nil {
		return []string{"etcd-server"}
	}
	return nil
}
