package parts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	fromAuto     = "auto"
	fromDownload = "download"
	fromBuild    = "build"
	fromFolder   = "folder"
)

// all lists every part, in the order of messages.
func all() []Part {
	return []Part{Etcd, APIServer, ControllerManager, Scheduler, Kubelet, Proxy, Kubectl}
}

const manifestName = "manifest.json"

// manifest marks a set as complete: it is written last, before the folder gets its final name.
type manifest struct {
	Version string `json:"version"`
	Arch    string `json:"arch"`
	From    string `json:"from"`
	// Source is the mirror, or the version of Go that built the set.
	Source string          `json:"source"`
	Files  map[string]file `json:"files"`
	// Links are parts that are links, with their targets.
	Links map[string]string `json:"links,omitempty"`
}

type file struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// cacheRoot is the folder below which all sets live.
func cacheRoot(cacheDir string) (string, error) {
	if cacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fault.Measuref(err, "set HOME or XDG_CACHE_HOME", "no folder for the cache")
		}
		cacheDir = filepath.Join(user, "drainproof")
	}
	// The go command and links want absolute names.
	abs, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", fmt.Errorf("cache folder %s: %w", cacheDir, err)
	}
	return filepath.Join(abs, "kubernetes"), nil
}

func setName(version, arch, from string) string { return version + "-" + arch + "-" + from }

// readSet gives the complete set in dir, or an error that says what it lacks.
// It compares sizes, not digests: hashing half a gigabyte would cost every `up` seconds.
func readSet(dir string) (Set, error) {
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return Set{}, err
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return Set{}, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	if filepath.Base(dir) != setName(m.Version, m.Arch, m.From) {
		return Set{}, fmt.Errorf("%s: the manifest is that of %s", dir, setName(m.Version, m.Arch, m.From))
	}
	for name, want := range m.Files {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return Set{}, err
		}
		if info.Size() != want.Bytes {
			return Set{}, fmt.Errorf("%s: %d bytes, not %d", filepath.Join(dir, name), info.Size(), want.Bytes)
		}
	}
	if missing, inert := lacking(dir); len(missing)+len(inert) > 0 {
		return Set{}, fmt.Errorf("%s lacks %s", dir, strings.Join(append(missing, inert...), ", "))
	}
	return Set{Version: m.Version, From: m.From, Dir: dir}, nil
}

// lacking lists the parts that dir does not hold, and those it holds but nobody may execute.
func lacking(dir string) (missing, inert []string) {
	for _, p := range all() {
		info, err := os.Stat(filepath.Join(dir, string(p)))
		switch {
		case err != nil || !info.Mode().IsRegular():
			missing = append(missing, string(p))
		case info.Mode().Perm()&0o111 == 0:
			inert = append(inert, string(p))
		}
	}
	return missing, inert
}

// publish gives the finished folder tmp its final name, so that a set is either whole or absent.
func publish(tmp, final string, m manifest) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", final, err)
	}
	f, err := os.OpenFile(filepath.Join(tmp, manifestName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", final, err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("manifest of %s: %w", final, err)
	}
	// What is there under the final name was found incomplete by the holder of the lock.
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("replacing %s: %w", final, err)
	}
	if err := os.Rename(tmp, final); err != nil {
		return fmt.Errorf("finishing %s: %w", final, err)
	}
	return nil
}

// Cached lists the complete sets in cacheDir (the user's when empty), by
// version, then by how they came. A cache that does not exist holds none.
func Cached(cacheDir string) ([]Set, error) {
	root, err := cacheRoot(cacheDir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the cached sets: %w", err)
	}
	var sets []Set
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if set, err := readSet(filepath.Join(root, e.Name())); err == nil {
			sets = append(sets, set)
		}
	}
	slices.SortFunc(sets, func(a, b Set) int {
		va, _ := parseVersion(a.Version)
		vb, _ := parseVersion(b.Version)
		return cmp.Or(cmp.Compare(va.minor, vb.minor), cmp.Compare(va.patch, vb.patch), cmp.Compare(a.Dir, b.Dir))
	})
	return sets, nil
}

// Remove deletes everything that cacheDir (the user's when empty) holds of one
// version: sets, leftovers and build logs. The caller knows that no cluster
// runs from it. A version that is not there is no error; one that another
// process is getting is.
func Remove(cacheDir, kubernetes string) error {
	v, err := parseVersion(kubernetes)
	if err != nil {
		return err
	}
	root, err := cacheRoot(cacheDir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the cached sets: %w", err)
	}
	for _, arch := range archs(entries, v) {
		unlock, held, err := tryLock(lockName(root, v, arch))
		if err != nil {
			return err
		}
		if !held {
			return fault.Measuref(nil, "wait for it to end, then try again",
				"kubernetes %s is being fetched or built by another process", v)
		}
		err = removeAll(root, entries, v.String()+"-"+arch)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// archs gives the architectures for which entries hold something of v.
func archs(entries []fs.DirEntry, v version) []string {
	var found []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(e.Name(), "."), v.String()+"-")
		if !ok {
			continue
		}
		if i := strings.IndexAny(rest, "-."); i > 0 && !slices.Contains(found, rest[:i]) {
			found = append(found, rest[:i])
		}
	}
	return found
}

// removeAll deletes the entries of one version and architecture, but not the
// lock: whoever waits for it must find the same file as its next holder.
func removeAll(root string, entries []fs.DirEntry, stem string) error {
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), ".")
		if !strings.HasPrefix(name, stem) || name == stem+".lock" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			return fmt.Errorf("removing %s: %w", e.Name(), err)
		}
	}
	return nil
}
