package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const docs = 10_000

// BenchmarkPeer times whole programs, one after the other in turn, on one file of
// 10,000 documents: this one and kube-score, the best known auditor of manifests that is written in Go. Both print
// JSON to a pipe. The metrics are medians over the rounds.
//
//	x-faster: their processor time over ours, start-up included
//	memory-share: our greatest resident memory over theirs
func BenchmarkPeer(b *testing.B) {
	dir := b.TempDir()
	ours := build(b, "../../..", filepath.Join(dir, "drainproof"), "./cmd/drainproof")
	theirs := build(b, "../../../tools/peer", filepath.Join(dir, "kube-score"), "github.com/zegl/kube-score/cmd/kube-score")
	input := filepath.Join(dir, "input.yaml")
	if err := os.WriteFile(input, []byte(documents(docs)), 0o644); err != nil {
		b.Fatal(err)
	}
	var a, p []usage
	for b.Loop() {
		a = append(a, run(b, ours, "audit", "-f", input, "-o", "json"))
		p = append(p, run(b, theirs, "score", "-o", "json", input))
	}
	mine, peer := median(a), median(p)
	b.ReportMetric(float64(mine.wall.Microseconds())/docs, "us/doc")
	b.ReportMetric(float64(peer.wall.Microseconds())/docs, "peer-us/doc")
	b.ReportMetric(float64(peer.cpu)/float64(mine.cpu), "x-faster")
	b.ReportMetric(float64(peer.wall)/float64(mine.wall), "x-faster-wall")
	b.ReportMetric(float64(mine.rssKiB)/1024, "MiB")
	b.ReportMetric(float64(peer.rssKiB)/1024, "peer-MiB")
	b.ReportMetric(float64(mine.rssKiB)/float64(peer.rssKiB), "memory-share")
}

type usage struct {
	wall, cpu time.Duration
	rssKiB    int64
}

func build(b *testing.B, dir, out, pkg string) string {
	b.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// run runs one program. Exit code 1 means that it found something, which it must.
func run(b *testing.B, program string, args ...string) usage {
	b.Helper()
	cmd := exec.Command(program, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	start := time.Now()
	err := cmd.Run()
	u := usage{wall: time.Since(start)}
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		b.Fatalf("%s: %v, wanted exit code 1\n%s", filepath.Base(program), err, problems.String())
	}
	if out.Len() < docs {
		b.Fatalf("%s printed only %d bytes on %d documents", filepath.Base(program), out.Len(), docs)
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	u.rssKiB = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	return u
}
