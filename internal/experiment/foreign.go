package experiment

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// keptFile is the experiment file as it lies beside its records.
const keptFile = "experiment.yaml"

// refuseForeign refuses to go on in a folder in which no run of e was begun: its files are somebody else's.
func (e *Experiment) refuseForeign(dir string, entries []os.DirEntry) error {
	const next = "choose another folder with --out, or start a new one without --resume"
	if len(e.Source) == 0 {
		ours := append(e.armNames(), record.HistoryDir)
		if !slices.ContainsFunc(entries, func(d os.DirEntry) bool { return d.IsDir() && slices.Contains(ours, d.Name()) }) {
			return fault.Usagef(next, "there is nothing to resume in %s: it holds no trial of this set", dir)
		}
		return nil
	}
	kept, err := readFile(filepath.Join(dir, keptFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fault.Usagef(next, "there is nothing to resume in %s: it holds no %s", dir, keptFile)
	case err != nil:
		return fault.Usagef(next, "looking into the output folder: %v", err)
	case !bytes.Equal(kept, e.Source):
		return fault.Usagef("give the file that it holds, or choose another folder with --out", "%s holds another experiment: its %s differs", dir, keptFile)
	}
	return nil
}
