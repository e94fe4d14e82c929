package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

// Phases of a cluster, as state.json has them.
const (
	// PhaseCreating: Up has begun and has not ended (or was killed).
	PhaseCreating = "creating"
	// PhaseRunning: Up has ended well.
	PhaseRunning = "running"
)

// state is the file state.json in a cluster's folder. It is written before
// anything else is made, so that nothing exists that it does not announce.
type state struct {
	Schema    string       `json:"schema"`
	Name      string       `json:"name"`
	Phase     string       `json:"phase"`
	BootID    string       `json:"boot_id"`
	Created   time.Time    `json:"created"`
	Subnet    netip.Prefix `json:"subnet"`
	Workers   int          `json:"workers"`
	ProxyMode string       `json:"proxy_mode"`
	Version   string       `json:"kubernetes"`
	PartsFrom string       `json:"parts_from"`
	PartsDir  string       `json:"parts_dir"`
}

const stateSchema = "drainproof.dev/localcluster/v1"

func stateFile(stateDir, name string) string {
	return filepath.Join(clusterDir(stateDir, name), "state.json")
}

// plan gives the cluster that the state describes.
func (s state) plan(stateDir string) plan {
	p := newPlan(stateDir, s.Name, s.Subnet, s.Workers)
	p.ProxyMode, p.Version, p.PartsDir = s.ProxyMode, s.Version, s.PartsDir
	return p
}

// readState gives nil without an error when there is no such cluster, and an
// error when there is a folder whose state cannot be understood.
func readState(stateDir, name string) (*state, error) {
	path := stateFile(stateDir, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of cluster %s: %w", name, err)
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil || s.Schema != stateSchema || s.Name != name || !s.Subnet.IsValid() {
		return nil, fault.Measuref(err, "take it down and up again: drainproof cluster down "+name,
			"%s is not the state of a local cluster that this version knows", path)
	}
	return &s, nil
}

func writeState(stateDir string, s state) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state of cluster %s: %w", s.Name, err)
	}
	if err := os.MkdirAll(clusterDir(stateDir, s.Name), 0o755); err != nil {
		return fmt.Errorf("make the folder of cluster %s: %w", s.Name, err)
	}
	return writeWhole(stateFile(stateDir, s.Name), append(b, '\n'), 0o644)
}

// writeWhole replaces a file so that a reader never sees half of it.
func writeWhole(path string, data []byte, mode fs.FileMode) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp)))
	}
	return nil
}

// stateNames lists the clusters that have a folder, in order of their names.
func stateNames(stateDir string) ([]string, error) {
	entries, err := os.ReadDir(clustersDir(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the local clusters: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && validName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
