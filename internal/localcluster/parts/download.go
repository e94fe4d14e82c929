package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	mib = 1 << 20
	// tries is how often one file is asked for when the mirror or the network stumbles.
	tries = 3
	// downloadTick is how often a running download says how far it is.
	downloadTick = 5 * time.Second
)

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// newClient bounds every wait except that for the body, which stallTimeout bounds.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
	}}
}

// absent is the error of a file that the mirror says it does not have.
type absent struct{ url string }

func (e absent) Error() string { return e.url + ": not found" }

func isAbsent(err error) bool {
	_, ok := errors.AsType[absent](err)
	return ok
}

// transient is an error that may be gone at the next try.
type transient struct{ error }

func (e transient) Unwrap() error { return e.error }

// download fetches the six programs of the release into dir, and links the machine's etcd.
func (g *getter) download(ctx context.Context, dir string) error {
	// Asked first: nobody should wait for 400 MiB to hear this.
	etcd, err := g.lookPath(string(Etcd))
	if err == nil {
		etcd, err = filepath.Abs(etcd)
	}
	if err != nil {
		return fault.Measuref(nil, "apt-get install etcd-server, or use --kubernetes-from build",
			"etcd is not in PATH, and a Kubernetes release does not hold it (Debian's package is etcd-server)")
	}
	if err := g.needSpace(g.root, downloadSpace, "download Kubernetes "+g.version.String()); err != nil {
		return err
	}
	programs := all()[1:]
	g.say("downloading Kubernetes %s (%s) from %s: %d programs, about 400 MiB, usually a minute or two",
		g.version, g.arch, g.mirror, len(programs))
	for _, p := range programs {
		if err := g.program(ctx, p, filepath.Join(dir, string(p))); err != nil {
			return err
		}
	}
	if err := os.Symlink(etcd, filepath.Join(dir, string(Etcd))); err != nil {
		return fmt.Errorf("linking %s: %w", etcd, err)
	}
	return nil
}

// program fetches one program to path, which exists only once its digest is right.
func (g *getter) program(ctx context.Context, p Part, path string) error {
	var want string
	err := g.retry(ctx, string(p)+".sha256", func() (err error) {
		want, err = g.checksum(ctx, p)
		return err
	})
	if err != nil {
		return err
	}
	var got string
	err = g.retry(ctx, string(p), func() (err error) {
		got, err = g.fetch(ctx, p, path+".partial")
		return err
	})
	if err != nil {
		return err
	}
	if got != want {
		return fault.Measuref(nil, "try again; if it stays, do not trust this mirror, and use --kubernetes-from build",
			"%s is corrupt: its SHA-256 is %s, and %s.sha256 says %s", g.url(p), got, p, want)
	}
	if err := os.Chmod(path+".partial", 0o755); err != nil {
		return fmt.Errorf("finishing %s: %w", p, err)
	}
	if err := os.Rename(path+".partial", path); err != nil {
		return fmt.Errorf("finishing %s: %w", p, err)
	}
	return nil
}

func (g *getter) url(p Part) string {
	return fmt.Sprintf("%s/release/%s/bin/linux/%s/%s", g.mirror, g.version, g.arch, p)
}

// retry runs try up to three times, and turns its last error into a fault.
func (g *getter) retry(ctx context.Context, what string, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("downloading %s: %w", what, context.Cause(ctx))
		}
		again, _ := errors.AsType[transient](err)
		_, disk := errors.AsType[diskError](err)
		switch {
		case disk:
			return fault.Measuref(err, "free some space in "+g.root, "downloading %s", what)
		case isAbsent(err):
			return g.noRelease(err)
		case again.error == nil:
			return fault.Measuref(err, "", "downloading %s", what)
		case n == tries:
			return fault.Measuref(again.error, "check the network (and HTTPS_PROXY), or use --kubernetes-from build",
				"downloading %s, %d tries", what, tries)
		}
		g.say("%s: %v: trying again", what, again.error)
		select {
		case <-ctx.Done():
		case <-time.After(g.backoff << (n - 1)):
		}
	}
}

// noRelease is the fault of a version that the mirror does not have.
func (g *getter) noRelease(err error) error {
	return fault.Measuref(err, "choose a version that was released",
		"kubernetes %s for linux/%s does not exist at %s", g.version, g.arch, g.mirror)
}

// checksum fetches the published SHA-256 of one program.
func (g *getter) checksum(ctx context.Context, p Part) (string, error) {
	var b strings.Builder
	if err := g.body(ctx, g.url(p)+".sha256", func(r io.Reader, _ int64) error {
		_, err := io.Copy(&b, io.LimitReader(r, 4096))
		return err
	}); err != nil {
		return "", err
	}
	// Some releases hold the bare digest, others a line for sha256sum.
	first, _, _ := strings.Cut(strings.TrimSpace(b.String()), " ")
	if !sha256Form.MatchString(first) {
		return "", fmt.Errorf("%s.sha256 holds no SHA-256 but %.40q", g.url(p), b.String())
	}
	return first, nil
}

// fetch writes one program to path and gives its SHA-256.
func (g *getter) fetch(ctx context.Context, p Part, path string) (sum string, err error) {
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	start := time.Now()
	var n int64
	err = g.body(ctx, g.url(p), func(r io.Reader, size int64) error {
		meter := &meter{part: p, size: size, start: start, last: start, say: g.say}
		var err error
		n, err = io.Copy(io.MultiWriter(diskWriter{f}, h, meter), r)
		if _, full := errors.AsType[diskError](err); full {
			return err
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			of := "an unknown number of"
			if size >= 0 {
				of = fmt.Sprint(size)
			}
			return transient{fmt.Errorf("%s is truncated: %d of %s bytes came", g.url(p), n, of)}
		}
		return err
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	took := time.Since(start)
	g.say("%s: %.1f MiB in %s (%s)", p, float64(n)/mib, took.Round(100*time.Millisecond), rate(n, took))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// body asks for url and hands its body to read. A body that stands still for
// stallTimeout ends with an error; so does every answer other than 200.
func (g *getter) body(ctx context.Context, url string, read func(r io.Reader, size int64) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return transient{err}
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusOK:
	case resp.StatusCode == http.StatusNotFound:
		return absent{url}
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return transient{fmt.Errorf("%s: HTTP %s", url, resp.Status)}
	default:
		return fmt.Errorf("%s: HTTP %s", url, resp.Status)
	}
	stalled := fmt.Errorf("%s: nothing came for %s", url, g.stallTimeout)
	watch := time.AfterFunc(g.stallTimeout, func() { cancel(stalled) })
	defer watch.Stop()
	err = read(readFunc(func(b []byte) (int, error) {
		n, err := resp.Body.Read(b)
		watch.Reset(g.stallTimeout)
		return n, err
	}), resp.ContentLength)
	if _, ok := errors.AsType[diskError](err); err == nil || ok {
		return err
	}
	if context.Cause(ctx) == stalled {
		return transient{stalled}
	}
	return transient{err}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// diskError tells a full disk from a network that failed: trying again helps only the latter.
type diskError struct{ error }

func (e diskError) Unwrap() error { return e.error }

type diskWriter struct{ f *os.File }

func (w diskWriter) Write(b []byte) (int, error) {
	n, err := w.f.Write(b)
	if err != nil {
		return n, diskError{err}
	}
	return n, nil
}

// meter says how far a download is.
type meter struct {
	part        Part
	size, n     int64
	start, last time.Time
	say         func(string, ...any)
}

func (m *meter) Write(b []byte) (int, error) {
	m.n += int64(len(b))
	if now := time.Now(); now.Sub(m.last) >= downloadTick {
		m.last = now
		of := ""
		if m.size > 0 {
			of = fmt.Sprintf(" of %.1f", float64(m.size)/mib)
		}
		m.say("%s: %.1f%s MiB, %s", m.part, float64(m.n)/mib, of, rate(m.n, now.Sub(m.start)))
	}
	return len(b), nil
}

func rate(n int64, d time.Duration) string {
	return fmt.Sprintf("%.1f MiB/s", float64(n)/mib/max(d.Seconds(), 0.001))
}
