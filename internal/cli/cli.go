// Package cli is the command line: it parses flags into options, validates
// them, makes one call below and renders the result.
//
// It holds no rule about terminations, traffic or records. It is the only
// package that reads arguments, the environment and the terminal; it returns an
// exit code and never exits.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drainproof/drainproof/internal/fault"
)

// Streams is the program's whole view of its surroundings.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads one environment variable.
	Getenv func(string) string
	// InIsTerminal, OutIsTerminal and ErrIsTerminal say who is at the other end.
	InIsTerminal, OutIsTerminal, ErrIsTerminal bool
	// Width and ErrWidth are those of the terminals behind Out and Err in columns, else what COLUMNS says; 0 where neither is there.
	Width, ErrWidth int
}

// columnsOf is what the environment says of the width of output (POSIX, XBD 8.3); 0 where it says nothing that can be followed.
func columnsOf(getenv func(string) string) int {
	n, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// System is the process's own surroundings.
func System() Streams {
	columns := func(f *os.File) int {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
		return columnsOf(os.Getenv)
	}
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Width: columns(os.Stdout), ErrWidth: columns(os.Stderr),
		InIsTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutIsTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// app carries what every command needs.
type app struct {
	Streams
	quiet bool
	// started is set once flags and arguments were accepted: errors before are wrong use.
	started bool
	// code is what a command wants in place of 0.
	code fault.Code
}

// Run runs one command line and returns its exit code: 0 pass, 1 verdict failed,
// 2 wrong use, 3 inconclusive, 4 could not measure.
func Run(ctx context.Context, args []string, s Streams) int {
	a := &app{Streams: s}
	a.Out = &quietPipe{s.Out}
	root := a.root(filepath.Base(args[0]))
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err == nil {
		return int(a.code)
	}
	code := fault.CodeOf(err)
	if _, ok := errors.AsType[*fault.Error](err); !ok && !a.started {
		err = wrongUse(err)
		code = fault.Usage
	}
	a.printError(err)
	return int(code)
}

func (a *app) printError(err error) {
	fmt.Fprintf(a.Err, "drainproof: %s\n", oneLine(err.Error()))
	if next := fault.NextOf(err); next != "" {
		fmt.Fprintf(a.Err, "  next: %s\n", next)
	}
}

// oneLine keeps joined errors readable.
func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

func (a *app) root(name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "drainproof",
		Short: "Measure, explain, fix and prove lossless Pod termination on Kubernetes",
		Long: `drainproof holds real connections to a Pod, ends the Pod, and records what became
of every connection, when, and by what evidence.

Results go to stdout, progress and warnings to stderr. Exit codes: 0 pass,
1 the verdict failed, 2 wrong use, 3 inconclusive, 4 could not measure.`,
		Example: `  drainproof cluster up                                  a real Kubernetes on this machine
  drainproof run --arm drain --trigger delete --grace 6s  one trial on it
  drainproof run -f experiments/quick.yaml --out quick    a whole set of trials
  drainproof report quick                                 read it again
  drainproof audit -f manifests/                          what will lose traffic, before the release
  drainproof cluster down`,
		SilenceErrors: true, SilenceUsage: true,
		Version: versionString(),
	}
	if strings.HasPrefix(name, "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drainproof"}
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print no progress")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return flagFault(c, err)
	})
	root.AddCommand(a.runCommand(), a.testCommand(), a.auditCommand(), a.reportCommand(), a.clusterCommand(), a.demoCommand(), a.imageCommand(),
		a.cleanupCommand(), a.schemaCommand(), a.probeCommand(), a.probeHookCommand(), a.killCommand(), a.agentCommand(), a.workerCommand(), a.versionCommand())
	a.markStart(root)
	return root
}

// markStart notes, in every command below c, that flags and arguments were accepted.
func (a *app) markStart(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			a.started = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		a.markStart(sub)
	}
}

// progress prints one line to stderr unless --quiet.
func (a *app) progress(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.Err, format+"\n", args...)
	}
}

// color says whether the result may hold colours (no-color.org, TERM=dumb).
func (a *app) color() bool {
	return a.OutIsTerminal && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

// oneOf checks an enumerated flag.
func oneOf(flag, value string, allowed ...string) error {
	for _, v := range allowed {
		if v == value {
			return nil
		}
	}
	shown := slices.DeleteFunc(slices.Clone(allowed), func(v string) bool { return v == "" })
	return fault.Usagef("choose one of "+strings.Join(shown, ", "), "--%s %q is not known", flag, value)
}

// needsSubcommand answers a command that only groups others: a word that is none of them is refused by its Args.
func (a *app) needsSubcommand(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// exactArgs is cobra.ExactArgs with a message that names what is wanted.
func exactArgs(what ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(what) {
			return nil
		}
		if len(what) == 0 {
			return fault.Usagef("see `"+c.CommandPath()+" --help`", "%s takes no argument, but got %q", c.CommandPath(), args)
		}
		return fault.Usagef("see `"+c.CommandPath()+" --help`", "%s takes %s", c.CommandPath(), strings.Join(what, " and "))
	}
}

// maxOneArg allows one optional argument.
func maxOneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return fault.Usagef("see `"+c.CommandPath()+" --help`", "%s takes at most one argument, %s, but got %q", c.CommandPath(), what, args)
	}
}
