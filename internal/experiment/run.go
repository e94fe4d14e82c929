package experiment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// Runner runs one trial of an arm and gives its record, which is never nil,
// also beside an error.
type Runner func(ctx context.Context, a Arm, set record.Set) (*record.Record, error)

// Options of a run.
type Options struct {
	// Dir is the set's folder: one folder an arm, one below it a repeat.
	Dir string
	// Tool is the program that runs; a set holds records of one.
	Tool record.Tool
	// Resume allows Dir to hold records of the same set already.
	Resume bool
	// BeforeArm is called before the first trial of each arm that has one to
	// run (a fresh cluster, say); AfterArm after its last one, also after an error.
	BeforeArm, AfterArm func(ctx context.Context, a Arm) error
	// Progress is told of each trial before and after it; rec is nil before, and err may come with a record.
	Progress func(a Arm, repeat int, rec *record.Record, err error)
}

// TrialDir is where the record of one repeat is.
func TrialDir(dir, arm string, repeat int) string {
	return filepath.Join(dir, arm, fmt.Sprintf("repeat-%02d", repeat))
}

// Check finds what Run would refuse in o.Dir, and touches nothing: call it before anything is set up.
func Check(e *Experiment, o Options) error {
	_, _, err := existing(e, o)
	return err
}

// Run runs what is missing of e in o.Dir and returns all its complete records. A trial that fails ends
// the run: its record is kept, marked incomplete, and a later run with Resume moves it to history and repeats it. A test whose client
// fell behind is moved to history and repeated at once, twice at most: the machine had failed, not the workload.
func Run(ctx context.Context, e *Experiment, o Options, run Runner) ([]*record.Record, error) {
	have, interrupted, err := existing(e, o)
	if err != nil {
		return nil, err
	}
	for _, dir := range interrupted {
		if err := toHistory(o.Dir, dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fault.Measuref(err, "choose a folder that can be written with --out", "making the output folder")
	}
	if len(e.Source) > 0 {
		if err := os.WriteFile(filepath.Join(o.Dir, keptFile), e.Source, 0o644); err != nil {
			return nil, fault.Measuref(err, "choose a folder that can be written with --out", "keeping the experiment file beside its records")
		}
	}
	var all []*record.Record
	for _, a := range e.Arms {
		records, err := runArm(ctx, e, a, o, have, all, run)
		all = append(all, records...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// runArm runs one arm's missing repeats; before holds the records of the arms before it.
func runArm(ctx context.Context, e *Experiment, a Arm, o Options, have map[string]*record.Record, before []*record.Record, run Runner) (records []*record.Record, err error) {
	prepared := false
	defer func() {
		if prepared && o.AfterArm != nil {
			err = errors.Join(err, o.AfterArm(context.WithoutCancel(ctx), a))
		}
	}()
	for repeat := 1; repeat <= e.Repeats; repeat++ {
		dir := TrialDir(o.Dir, a.Name, repeat)
		if rec := have[dir]; rec != nil {
			records = append(records, rec)
			continue
		}
		if err := ctx.Err(); err != nil {
			return records, fault.Measuref(err, "run it again with --resume", "interrupted before arm %s, repeat %d", a.Name, repeat)
		}
		if !prepared {
			prepared = true
			if o.BeforeArm != nil {
				if err := o.BeforeArm(ctx, a); err != nil {
					return records, fmt.Errorf("preparing arm %s: %w", a.Name, err)
				}
			}
		}
		set := record.Set{Experiment: e.Name, ExperimentSha256: e.Sha256, Arm: a.Name, Arms: e.armNames(), Repeat: repeat, Repeats: e.Repeats}
		others := slices.Concat(before, records, slices.Collect(maps.Values(have)))
		for late := 0; ; late++ {
			rec, err := o.measure(ctx, a, set, dir, others, run)
			if err == nil {
				records = append(records, rec)
				break
			}
			if late == lateTries || !instrumentFailed(rec) || ctx.Err() != nil {
				return records, err
			}
			if err := toHistory(o.Dir, dir); err != nil {
				return records, err
			}
		}
	}
	return records, nil
}

// lateTries is how often a repeat is measured anew because the client, not the workload, had failed it.
const lateTries = 2

// instrumentFailed reports whether a test came to its end, and is incomplete as the client could not keep its schedule.
func instrumentFailed(rec *record.Record) bool {
	return rec != nil && rec.IsTest() && rec.Client != nil && rec.Client.FellBehind && len(rec.Missing) == 1
}

// measure runs one repeat and keeps its record. The record comes with the error where there is one.
func (o Options) measure(ctx context.Context, a Arm, set record.Set, dir string, others []*record.Record, run Runner) (*record.Record, error) {
	repeat := set.Repeat
	if o.Progress != nil {
		o.Progress(a, repeat, nil, nil)
	}
	rec, terr := run(ctx, a, set)
	if o.Progress != nil {
		o.Progress(a, repeat, rec, terr)
	}
	if terr == nil && rec.Completeness == record.Complete {
		if mix := mixed(others, rec); mix != "" {
			// Incomplete, so that a later run may measure it anew.
			rec.Completeness, rec.Missing = record.Incomplete, append(rec.Missing, "it does not belong to its set: "+mix)
			terr = fault.Measuref(nil, "keep the cluster and the tool as they are for the whole set, and run it again with --resume", "it does not belong to its set: %s", mix)
		}
	}
	if _, werr := record.Write(dir, *rec, false); werr != nil {
		return nil, errors.Join(terr, fault.Measuref(werr, "make room or choose another folder with --out, then run it again with --resume", "writing the record of arm %s, repeat %d", a.Name, repeat))
	}
	if terr != nil {
		return rec, fmt.Errorf("arm %s, repeat %d: %w", a.Name, repeat, terr)
	}
	if rec.Completeness == record.Complete {
		return rec, nil
	}
	const next = "run it again with --resume: the incomplete repeat is kept as history and measured anew"
	if rec.IsTest() {
		return rec, fault.Inconclusivef(next, "arm %s, repeat %d is incomplete: %s", a.Name, repeat, first(rec.Missing))
	}
	return rec, fault.Measuref(nil, next, "arm %s, repeat %d is incomplete: %s", a.Name, repeat, first(rec.Missing))
}

func first(s []string) string {
	if len(s) == 0 {
		return "for no stated reason"
	}
	return s[0]
}

// mixed says how rec differs from the records before it in what a set must share; "" when it does not.
func mixed(before []*record.Record, rec *record.Record) string {
	if len(before) == 0 {
		return ""
	}
	return Differs(before[0], rec)
}

// Differs says in what two records differ that one set must share; "" when in nothing.
func Differs(a, b *record.Record) string {
	mode := func(r *record.Record) string {
		if r.Environment.ProxyMode == nil {
			return "not readable"
		}
		return *r.Environment.ProxyMode
	}
	for _, f := range []struct{ name, a, b string }{
		{"tool version", a.Tool.Version, b.Tool.Version},
		{"tool binary", a.Tool.Sha256, b.Tool.Sha256},
		{"Kubernetes version", a.Environment.Kubernetes, b.Environment.Kubernetes},
		{"proxy mode", mode(a), mode(b)},
		{"image", a.Environment.Image, b.Environment.Image},
	} {
		if f.a != f.b {
			return fmt.Sprintf("%s %s here, %s there", f.name, f.a, f.b)
		}
	}
	return ""
}

// existing looks through o.Dir: with Resume it gives the complete records of
// this very set by folder, and the folders of incomplete ones; without, anything there is wrong use.
func existing(e *Experiment, o Options) (have map[string]*record.Record, interrupted []string, err error) {
	have = map[string]*record.Record{}
	entries, err := os.ReadDir(o.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return have, interrupted, nil
	}
	if err != nil {
		return nil, nil, fault.Usagef("choose another folder with --out", "looking into the output folder: %v", err)
	}
	if len(entries) == 0 {
		return have, interrupted, nil
	}
	if !o.Resume {
		return nil, nil, fault.Usagef("choose another folder with --out, or go on with what it holds with --resume", "the output folder %s is not empty", o.Dir)
	}
	if err := e.refuseForeign(o.Dir, entries); err != nil {
		return nil, nil, err
	}
	var firstRec *record.Record
	for _, a := range e.Arms {
		for repeat := 1; repeat <= e.Repeats; repeat++ {
			dir := TrialDir(o.Dir, a.Name, repeat)
			rec, err := record.Read(dir)
			if _, none := errors.AsType[*record.NoRecordError](err); none || errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, nil, fault.Usagef("remove it or choose another folder with --out", "%s holds a record that cannot be read: %v", dir, err)
			}
			if rec.Set == nil || rec.Set.ExperimentSha256 != e.Sha256 {
				return nil, nil, fault.Usagef("choose another folder with --out", "%s holds a record of another experiment", dir)
			}
			if rec.Tool.Version != o.Tool.Version || rec.Tool.Sha256 != o.Tool.Sha256 {
				return nil, nil, fault.Usagef("use the same binary, or start anew in another folder with --out",
					"%s was measured by another build of the tool (%s, %.12s; this is %s, %.12s)", dir, rec.Tool.Version, rec.Tool.Sha256, o.Tool.Version, o.Tool.Sha256)
			}
			if rec.Completeness != record.Complete {
				interrupted = append(interrupted, dir)
				continue
			}
			if firstRec == nil {
				firstRec = &rec
			} else if mix := Differs(firstRec, &rec); mix != "" {
				return nil, nil, fault.Usagef("choose another folder with --out", "%s does not belong to the set: %s", dir, mix)
			}
			have[dir] = &rec
		}
	}
	return have, interrupted, nil
}

// toHistory moves the folder of an interrupted repeat out of the set.
func toHistory(set, dir string) error {
	rec, err := record.Read(dir)
	if err == nil {
		arm, repeat := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
		to := filepath.Join(set, record.HistoryDir, fmt.Sprintf("%s-%s-%s", arm, repeat, rec.ID))
		if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.Rename(dir, to)
		}
	}
	if err != nil {
		return fault.Measuref(err, "check the folder's permissions", "keeping an interrupted repeat as history")
	}
	return nil
}

func (e *Experiment) armNames() []string {
	names := make([]string, 0, len(e.Arms))
	for _, a := range e.Arms {
		names = append(names, a.Name)
	}
	return names
}
