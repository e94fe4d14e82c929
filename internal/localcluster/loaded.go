package localcluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/drainproof/drainproof/internal/fault"
)

// HasLoaded says whether MarkLoaded was called with this image reference in
// the life of this cluster. References are compared as text.
func (c *Cluster) HasLoaded(reference string) (bool, error) {
	_, err := os.Stat(c.loadedPath(reference))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fault.Measuref(err, "run it as root", "looking which images cluster %s holds", c.Name())
	}
	return true, nil
}

// MarkLoaded remembers, until Down, that every node holds the image, so that
// it need not be loaded for every trial.
func (c *Cluster) MarkLoaded(reference string) error {
	path := c.loadedPath(reference)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		return fault.Measuref(err, "run it as root, and see whether the disk is full", "remembering the image that cluster %s holds", c.Name())
	}
	return nil
}

func (c *Cluster) loadedPath(reference string) string {
	safe := make([]rune, 0, len(reference))
	for _, r := range reference {
		if r == '/' || r == os.PathSeparator {
			r = '_'
		}
		safe = append(safe, r)
	}
	return filepath.Join(c.Dir(), "loaded", string(safe))
}
