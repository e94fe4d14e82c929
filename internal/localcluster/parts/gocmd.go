package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

// tailBytes is how much of the go command's last output an error can quote.
const tailBytes = 4096

func (g *getter) logName() string {
	return filepath.Join(g.root, g.version.String()+"-"+g.arch+".build.log")
}

// run runs the user's go in dir and gives its stdout; stderr goes to the build
// log. When ctx ends, it ends go's whole process group, compilers too.
func (g *getter) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	step := args[0]
	if step == "mod" {
		step += " " + args[1]
	}
	log, err := os.OpenFile(g.logName(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("build log: %w", err)
	}
	defer func() { _ = log.Close() }()
	fmt.Fprintf(log, "$ go %s\n", strings.Join(args, " "))

	var stdout bytes.Buffer
	stderr := &goLog{file: log}
	cmd := exec.CommandContext(ctx, g.goTool, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, g.goEnv(), &stdout, stderr
	cmd.Cancel = func() error { return interruptGroup(cmd) }
	cmd.WaitDelay = g.goGrace
	ownGroup(cmd)
	// The kernel ties the child's life to this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, fault.Measuref(err, "check that Go is installed, or use --kubernetes-from download", "go does not start")
	}
	var reporter sync.WaitGroup
	stop := make(chan struct{})
	reporter.Go(func() { g.elapsed(step, &stderr.packages, stop) })
	err = cmd.Wait()
	killGroup(cmd)
	close(stop)
	reporter.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("go %s for Kubernetes %s: %w", step, g.version, context.Cause(ctx))
	case err != nil:
		tail := lastLines(string(stderr.tail), 12)
		if tail == "" {
			tail = err.Error()
		}
		return stdout.Bytes(), g.goFault(tail, "read "+g.logName(), "go %s for Kubernetes %s ended with %v",
			step, g.version, err)
	}
	return stdout.Bytes(), nil
}

// goEnv is the user's environment without what would change the program: their
// proxy, caches and toolchain count; their flags and workspace do not.
func (g *getter) goEnv() []string {
	env := append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=on", "GOWORK=off", "GOFLAGS=-mod=readonly",
		"GOOS=linux", "GOARCH="+g.arch)
	if g.goTmp != "" {
		env = append(env, "GOTMPDIR="+g.goTmp)
	}
	return env
}

// goFault says what the go command's last words mean for a person. Its words
// are all there is: it has one exit status for everything.
func (g *getter) goFault(words, next, format string, args ...any) error {
	// Go repeats itself for every package it cannot have; the log keeps all.
	cause := errors.New(lastLines(words, 1))
	says := func(marks ...string) bool {
		for _, s := range marks {
			if strings.Contains(words, s) {
				return true
			}
		}
		return false
	}
	switch {
	case says("no space left on device"):
		return fault.Measuref(cause, "free some space, or set GOCACHE, GOMODCACHE and XDG_CACHE_HOME to a larger disk",
			"no space left to build Kubernetes %s", g.version)
	case says("no such host", "connection refused", "network is unreachable", "i/o timeout", "TLS handshake timeout",
		"proxyconnect", "server misbehaving", "module lookup disabled", "connection reset"):
		return fault.Measuref(cause, "check the network (GOPROXY, HTTPS_PROXY), or use --kubernetes-from with a folder",
			"the Go modules of Kubernetes %s cannot be fetched", g.version)
	case says("requires go >=", "toolchain not available"):
		return fault.Measuref(cause, "install a newer Go, or let Go fetch it: GOTOOLCHAIN=auto",
			"the Go at hand is too old for Kubernetes %s", g.version)
	}
	return fault.Measuref(errors.New(words), next, format, args...)
}

// elapsed says every g.tick how long the command runs, until stop is closed.
func (g *getter) elapsed(step string, packages *atomic.Int64, stop <-chan struct{}) {
	start, tick := time.Now(), time.NewTicker(g.tick)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			line := fmt.Sprintf("go %s: %s so far", step, time.Since(start).Round(time.Second))
			if n := packages.Load(); n > 0 {
				line += fmt.Sprintf(", %d packages compiled", n)
			}
			g.progress(line)
		}
	}
}

// goLog copies the go command's stderr to the log, keeps its tail, and counts
// the packages that -v names, one a line.
type goLog struct {
	file     *os.File
	tail     []byte
	line     []byte
	packages atomic.Int64
}

func (l *goLog) Write(b []byte) (int, error) {
	l.tail = append(l.tail, b...)
	l.tail = l.tail[max(0, len(l.tail)-tailBytes):]
	l.line = append(l.line, b...)
	for {
		i := bytes.IndexByte(l.line, '\n')
		if i < 0 {
			break
		}
		if i > 0 && !bytes.ContainsAny(l.line[:i], " \t") {
			l.packages.Add(1)
		}
		l.line = l.line[i+1:]
	}
	// A full disk must not stop the build for the sake of its log.
	_, _ = l.file.Write(b)
	return len(b), nil
}
