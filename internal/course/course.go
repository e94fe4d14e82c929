// Package course takes a trial of whatever kind from its first step to its record: one step after the other, until one fails or somebody
// interrupts; then what was seen is collected, what was changed is put back, and the record is put together, whatever came before.
//
// It must not know what a trial measures, nor what it changes.
package course

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/record"
)

// Origin is what is to be measured, by whom and where.
type Origin struct {
	// ID of the trial; empty for one that gets its own.
	ID string
	// Config must be complete and valid.
	Config record.Config
	Set    *record.Set
	Tool   record.Tool
	// Cluster or Context names the cluster for the record; one is empty.
	Cluster, Context string
	// Kernel is this machine's kernel release.
	Kernel string
	CPUs   int
}

// NewRecord is the record of a trial that has just begun: incomplete, and nothing in it yet but where it comes from.
func NewRecord(o Origin, bootID string, now time.Time) *record.Record {
	return &record.Record{
		Schema: record.Schema, ID: o.ID, StartedAt: now.UTC(), Tool: o.Tool, Config: o.Config, Set: o.Set,
		Events: []record.Event{}, Flows: []record.Flow{}, Windows: []record.Window{}, Sources: []record.Source{},
		Notes: []string{}, Completeness: record.Incomplete, Missing: []string{},
		Summary: record.Summary{TCP: map[record.Outcome]int{}, UDP: map[record.Outcome]int{}},
		Environment: record.Environment{
			Cluster: o.Cluster, Context: o.Context, Image: o.Config.Image, Nodes: []record.Node{},
			Kernel: o.Kernel, CPUs: o.CPUs, OS: runtime.GOOS, Arch: runtime.GOARCH, BootID: bootID,
		},
		Clocks: []record.Clock{{Name: "harness", BootID: bootID, OffsetNs: new(int64), UncertaintyNs: new(int64), Method: "same-kernel"}},
	}
}

// Course is a trial's way.
type Course struct {
	Record  *record.Record
	Journal *journal.Journal
	// Steps are its phases in their order, and Phase names the one under way.
	Steps []func(context.Context) error
	Phase func() string
	// Collect takes what is still under way, in the end; Assemble turns what was gathered into the record's facts.
	Collect  func(context.Context)
	Assemble func()
	// PuttingBack is called before the first of Undos, where there is one.
	PuttingBack func()
	Undos       *Undos
}

// Run goes through it. Where an error came before the end, the record says what is missing. Everything is put back when Run returns, or
// the error, and a note in the record, says what is left and how to remove it.
func (c Course) Run(ctx context.Context) error {
	err := c.steps(ctx)
	phase, interrupted := c.Phase(), err != nil && ctx.Err() != nil
	if interrupted {
		c.Journal.Harness(record.Interrupted, "trial/"+c.Record.ID, map[string]any{"phase": phase})
		err = &interruptedError{phase, ctx.Err()}
		c.Record.Missing = append(c.Record.Missing, err.Error())
	} else if err != nil {
		c.Record.Missing = append(c.Record.Missing, fmt.Sprintf("phase %s: %v", phase, err))
	}
	ctx = context.WithoutCancel(ctx)
	c.Collect(ctx)
	var left error
	if !c.Undos.Empty() {
		c.PuttingBack()
		left = c.Undos.Run(ctx)
	}
	if left != nil {
		c.Record.Notes = append(c.Record.Notes, "Not everything could be put back: "+left.Error())
	}
	c.Assemble()
	switch {
	case left != nil:
		return fault.Measuref(errors.Join(err, left), "put back what is left with `drainproof cleanup`, once the cluster answers", "trial %s ended with things left in the cluster", c.Record.ID)
	case interrupted:
		return fault.Measuref(err, "run it again; what this trial had changed in the cluster has been put back", "trial %s", c.Record.ID)
	}
	return err
}

func (c Course) steps(ctx context.Context) error {
	for _, step := range c.Steps {
		if err := step(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// interruptedError: somebody ended the trial early. A person knows that without the context's words for it.
type interruptedError struct {
	phase string
	cause error
}

func (e *interruptedError) Error() string { return fmt.Sprintf("interrupted in the phase %q", e.phase) }

func (e *interruptedError) Unwrap() error { return e.cause }
