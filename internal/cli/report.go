package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/htmlview"
	"github.com/drainproof/drainproof/internal/render/testview"
	"github.com/drainproof/drainproof/internal/verdict"
	"github.com/drainproof/drainproof/schema"
)

func (a *app) reportCommand() *cobra.Command {
	var output string
	var compare, verbose, force, again bool
	var html, title string
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Read records again: one trial's timeline, or the tables of a set",
		Long: `Reads the records below the given folders. One trial: its timeline, flows and
windows. Sets: per experiment and data plane the core table, the triggers, UDP and the
dead-endpoint windows, as medians of per-repeat values with range and n. A set with a
hole, or one that mixes tools, versions or data planes, is refused.

--html writes a page to look at, send or print. It loads nothing. Incomplete records are shown
and say what they lack.

Tests of services are shown by themselves: one with its worst moments, a set as a table of
its arms, and, where agents told, tables of causes, of the order in which Pods ended, and of
the nodes that were late. JSON of several records is .sets[], of one the record itself. --compare shows what a fix did: the trials before it, the trials after it
(or two arms of one experiment), and what their number can prove.

--explain-again derives the causes and the ends of Pods anew from the events, and the verdict from the
numbers, by this version's rules, for records of an older one. The records stay as they are.

Output follows the width of the terminal, elsewhere the environment's COLUMNS, from 72 to 120
columns; from 96 on a table that is wider keeps its shape.`,
		Example: `  drainproof report out/demo
  drainproof report matrix
  drainproof report results/ -o markdown
  drainproof report matrix -o json | jq '.sets[0]'
  drainproof report --compare before after
  drainproof report --compare results/evidence/dead-endpoint/sleep-0 results/evidence/dead-endpoint/sleep-5
  drainproof report --explain-again results/evidence/dead-endpoint
  drainproof report drainproof-runs/20261130-030603-380511 --html report.html`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.Usagef("give folders that `drainproof run` or `drainproof test` wrote", "report needs at least one folder or record")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", output, "table", "json", "markdown"); err != nil {
				return err
			}
			switch {
			case html == "" && (force || title != ""):
				return fault.Usagef("add --html FILE", "--force and --title are for --html")
			case html != "" && (compare || verbose || c.Flags().Changed("output")):
				return fault.Usagef("leave one out", "--html excludes --compare, --verbose and --output")
			case html != "":
				return a.reportHTML(args, html, title, force, again)
			case compare:
				return a.compare(args, output, again)
			}
			return a.report(args, output, verbose, again)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or markdown")
	cmd.Flags().StringVar(&html, "html", "", "write one self-contained page (verdict, timeline, curves, tables) to this file; - for stdout")
	cmd.Flags().StringVar(&title, "title", "", "heading of the page of --html")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file of --html")
	cmd.Flags().BoolVar(&compare, "compare", false, "two folders: the trials before a change, and those after it")
	cmd.Flags().BoolVar(&again, "explain-again", false, "derive causes, ends of Pods and verdicts anew, by this version's rules; the records stay as they are")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "of one trial: every event, every failure, and the reason for every window that was not measured")
	return cmd
}

// read gives the records below the folders, explained again if that is asked for; one that contradicts itself is refused.
func (a *app) read(again bool, dirs ...string) ([]render.Input, error) {
	paths, err := record.Find(dirs...)
	if err != nil {
		return nil, recordFault(err)
	}
	var set []render.Input
	for _, p := range paths {
		rec, err := record.Read(p)
		if err != nil {
			return nil, recordFault(err)
		}
		if problems := record.Validate(rec); len(problems) > 0 {
			return nil, fault.Inconclusivef("measure it again: a report on it could say anything", "%s contradicts itself: %v%s", p, problems[0], andMore(len(problems)-1))
		}
		if again {
			explain.Record(&rec)
			verdict.Again(&rec)
		}
		set = append(set, render.Input{Path: p, Record: rec})
	}
	return set, nil
}

func (a *app) report(dirs []string, output string, verbose, again bool) error {
	set, err := a.read(again, dirs...)
	if err != nil {
		return err
	}
	var flows, tests []render.Input
	for _, in := range set {
		if in.Record.IsTest() {
			tests = append(tests, in)
		} else {
			flows = append(flows, in)
		}
	}
	if verbose && len(set) > 1 {
		return fault.Usagef("choose one of them, or leave --verbose out", "--verbose tells all of one trial, and these are %d", len(set))
	}
	if len(flows) == 1 && len(set) == 1 && output == "markdown" {
		flows[0].Record.Set = nil // alone it is no set with a hole
	}
	if len(set) == 1 && (output != "markdown" || len(tests) == 1) {
		o := a.renderOptions()
		o.Verbose = verbose
		if err := a.showInput(output, set[0], o); err != nil {
			return err
		}
		return whole(set)
	}
	switch {
	case len(tests) == 0:
		return a.showSet(output, flows)
	case len(flows) == 0:
		return a.showTests(output, tests)
	case output == "json":
		return setFault(render.JSON(a.Out, set))
	}
	if err := a.showSet(output, flows); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	return a.showTests(output, tests)
}

// reportHTML writes the page. A file that is there is not overwritten unasked, and never half.
func (a *app) reportHTML(dirs []string, file, title string, force, again bool) error {
	set, err := a.read(again, dirs...)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := htmlview.Write(&b, set, htmlview.Options{Title: title}); err != nil {
		return fault.Measuref(err, "", "writing the page")
	}
	if file == "-" {
		if _, err := a.Out.Write(b.Bytes()); err != nil {
			return err
		}
		return whole(set)
	}
	if _, err := os.Lstat(file); err == nil && !force {
		return fault.Usagef("choose another name, or overwrite it with --force", "%s exists already", file)
	}
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return fault.Usagef("make it, or choose another", "%s cannot be written: the folder %s does not exist", file, filepath.Dir(file))
	}
	if err := canHold(filepath.Dir(file)); err != nil {
		return err
	}
	if err := replaceFile(file, b.Bytes()); err != nil {
		return fault.Measuref(err, "make room or change the rights", "writing %s", file)
	}
	a.progress("page: %s", file)
	return whole(set)
}

// whole says, once they are shown, that some of the records are incomplete.
func whole(set []render.Input) error {
	var cut []render.Input
	for _, in := range set {
		if in.Record.Completeness != record.Complete {
			cut = append(cut, in)
		}
	}
	if len(cut) == 0 {
		return nil
	}
	return fault.Inconclusivef("see `missing` in the record, and measure it again", "%s is incomplete: %s%s", cut[0].Path, harmless(cut[0].Record.Missing[0]), andMore(len(cut)-1))
}

// andMore says how many are not told, where there are any.
func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// compare sets the trials of two folders beside each other.
func (a *app) compare(dirs []string, output string, again bool) error {
	if len(dirs) != 2 {
		return fault.Usagef("give the folder of the trials before the change, and that of those after it", "--compare takes two folders, not %d", len(dirs))
	}
	var sides [2][]record.Record
	for i, dir := range dirs {
		set, err := a.read(again, dir)
		if err != nil {
			return err
		}
		for _, in := range set {
			sides[i] = append(sides[i], in.Record)
		}
	}
	c, err := verdict.Compare(sides[0], sides[1])
	if err != nil {
		return err
	}
	switch output {
	case "json":
		return writeJSON(a.Out, c)
	case "markdown":
		return testview.ComparisonMarkdown(a.Out, c)
	default:
		return testview.Comparison(a.Out, c, a.renderOptions())
	}
}

// setFault turns a refused set into an answer: inconclusive.
func setFault(err error) error {
	if err == nil {
		return nil
	}
	if holes, ok := errors.AsType[*render.HoleError](err); ok {
		next := "measure what is missing: the same command again, with --resume"
		switch singles, repeats := holes.Kinds(); {
		case singles && repeats:
			next += "; leave the single trials out, or measure them again"
		case repeats && holes.WholeArms():
			next += ", or give the folder of the whole set"
		case singles:
			next = "leave that record out, or measure it again"
		}
		return fault.Inconclusivef(next, "%v", err)
	}
	if _, ok := errors.AsType[*render.MixedError](err); ok {
		return fault.Usagef("report them apart, or measure the set again in one environment", "%v", err)
	}
	if _, ok := errors.AsType[*render.DuplicateError](err); ok {
		return fault.Usagef("give each record once, in one folder", "%v", err)
	}
	return err
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema [record|audit]", Short: "Print the JSON Schema of a record, or of an audit's JSON",
		Example: `  drainproof schema > record-v1.json
  drainproof schema audit > audit-v1.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "record" && args[0] != "audit" {
				return fault.Usagef("name one of them: record or audit", "there is no schema %q", strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text := schema.RecordV1
			if len(args) == 1 && args[0] == "audit" {
				text = schema.AuditV1
			}
			_, err := a.Out.Write(text)
			return err
		},
	}
}
