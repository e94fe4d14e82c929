package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

// folder takes the programs that the user has, from o.From.
func folder(ctx context.Context, o Options) (Set, error) {
	info, err := os.Stat(o.From)
	if err != nil || !info.IsDir() {
		return Set{}, fault.Usagef("say auto, download, build, or a folder that holds the programs",
			"%q is neither a way to get Kubernetes nor a folder", o.From)
	}
	dir, err := filepath.Abs(o.From)
	if err != nil {
		return Set{}, fmt.Errorf("folder %s: %w", o.From, err)
	}
	if missing, inert := lacking(dir); len(missing)+len(inert) > 0 {
		var wrong []string
		if len(missing) > 0 {
			wrong = append(wrong, "it lacks "+strings.Join(missing, ", "))
		}
		if len(inert) > 0 {
			wrong = append(wrong, "nobody may execute "+strings.Join(inert, ", "))
		}
		return Set{}, fault.Usagef("put all seven programs of one version there, executable",
			"folder %s is no complete Kubernetes: %s", dir, strings.Join(wrong, "; "))
	}
	got, err := kubeletVersion(ctx, dir)
	if err != nil {
		return Set{}, fault.Measuref(err, "check that it is a program for this machine", "%s does not run", filepath.Join(dir, string(Kubelet)))
	}
	if o.Version != "" {
		asked, err := parseVersion(o.Version)
		if err != nil {
			return Set{}, err
		}
		if !sameVersion(got, asked) {
			return Set{}, fault.Usagef("ask for that version, or name another folder",
				"folder %s holds Kubernetes %s, not %s", dir, got, asked)
		}
	} else if _, err := parseVersion(release(got)); err != nil {
		return Set{}, fmt.Errorf("folder %s: %w", dir, err)
	}
	return Set{Version: got, From: fromFolder, Dir: dir}, nil
}

// kubeletVersion runs dir's kubelet and gives what it prints, such as v1.37.2.
func kubeletVersion(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, string(Kubelet)), "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
			return "", fmt.Errorf("kubelet --version: %w: %s", err, lastLines(string(exit.Stderr), 3))
		}
		return "", fmt.Errorf("kubelet --version: %w", err)
	}
	v, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "Kubernetes ")
	if !ok {
		return "", fmt.Errorf("kubelet --version printed %.80q", out)
	}
	return v, nil
}

// release cuts a vendor's build metadata (v1.37.2+k3s1) off a version.
func release(v string) string {
	v, _, _ = strings.Cut(v, "+")
	return v
}

// sameVersion allows build metadata behind the release that was asked for.
func sameVersion(got string, asked version) bool { return release(got) == asked.String() }

// inventory describes what dir holds, for its manifest.
func inventory(dir string) (files map[string]file, links map[string]string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the new set: %w", err)
	}
	files, links = map[string]file{}, map[string]string{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			if links[e.Name()], err = os.Readlink(path); err != nil {
				return nil, nil, fmt.Errorf("listing the new set: %w", err)
			}
			continue
		}
		if files[e.Name()], err = digest(path); err != nil {
			return nil, nil, fmt.Errorf("listing the new set: %w", err)
		}
	}
	return files, links, nil
}

func digest(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return file{}, err
	}
	return file{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n}, nil
}

// lastLines gives the last n lines of s that are not empty.
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
