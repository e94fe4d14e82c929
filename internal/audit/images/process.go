package images

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Ending says what becomes of a shell that starts a program: whether it stays as the parent.
type Ending uint8

// The endings.
const (
	// NoShell: no shell is started, or its script is a file that cannot be seen.
	NoShell Ending = iota
	// Replaced: exec puts the program in the shell's place.
	Replaced
	// Single: the script is one simple command without exec. Whether the shell gives up its place depends on the shell.
	Single
	// Last: as Single, but other commands run before.
	Last
	// Kept: the shell stays, whichever it is.
	Kept
	// Handled: the script sets a trap, so what a signal does is its own business.
	Handled
	// Unreadable: the script is too clever to tell.
	Unreadable
)

// Process is what a container's command line starts.
type Process struct {
	// Argv is the program that does the work, behind shells, inits and wrappers; nil where it cannot be read.
	Argv []string
	// Init is the init that is started first, e.g. tini; "" without one.
	Init string
	// Shell is the base name of the shell that is PID 1; "" without one.
	Shell string
	// Script is the text after the shell's -c; File the script file that it, or the kernel, runs.
	Script, File string
	Ending       Ending
	// Why says what keeps the shell, where it is Kept.
	Why string
	// Redirects: the last command has a redirection, for which bash stays.
	Redirects bool
	// Assumed: only the arguments are set, so the image's entrypoint decides whether they are run as they stand.
	Assumed bool
}

// Name is the base name of the program, "" where it cannot be read.
func (p Process) Name() string {
	if len(p.Argv) == 0 {
		return ""
	}
	return path.Base(p.Argv[0])
}

// inits start the program that their arguments name, reap children and forward signals.
var inits = []string{"tini", "tini-static", "dumb-init", "catatonit", "docker-init", "pid1"}

// supervisors read what they start from files.
var supervisors = []string{"s6-svscan", "init", "my_init", "supervisord", "runsvdir", "systemd"}

var shells = []string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}

// Started reads a container's command line.
func Started(command, args []string) Process {
	argv := slices.Concat(command, args)
	p := Process{Assumed: len(command) == 0}
	if len(argv) == 0 {
		return p
	}
	switch name := path.Base(argv[0]); {
	case slices.Contains(supervisors, name):
		p.Init = name
		return p
	case slices.Contains(inits, name):
		p.Init = name
		argv = afterOptions(argv[1:], "p", "e", "r")
	}
	argv = unwrap(argv)
	if len(argv) == 0 {
		return p
	}
	name := path.Base(argv[0])
	switch {
	case slices.Contains(shells, name):
		p.readShell(name, argv[1:])
	case strings.HasSuffix(name, ".sh") || strings.HasSuffix(name, ".bash"):
		p.File, p.Argv = argv[0], argv
	default:
		p.Argv = program(argv)
	}
	return p
}

// readShell reads the arguments of a shell.
func (p *Process) readShell(name string, args []string) {
	p.Shell = name
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			continue
		case strings.HasPrefix(a, "--"):
			continue
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			if strings.Contains(a, "c") && a[0] == '-' {
				// Options may stand between -c and the text: sh -c -e 'text'.
				rest := args[i+1:]
				for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
					rest = rest[1:]
				}
				if len(rest) > 0 {
					p.Script = rest[0]
					p.read(readScript(p.Script))
				}
				return
			}
			if strings.HasSuffix(a, "o") {
				i++ // -o pipefail
			}
		default:
			p.File = a
			return
		}
	}
}

func (p *Process) read(s script) {
	p.Ending, p.Why, p.Redirects = s.ending, s.why, s.redirects
	p.Argv = program(unwrap(s.argv))
}

// wrappers run what follows their own options.
var wrappers = map[string][]string{
	"exec": {"a"}, "command": nil, "nohup": nil, "nice": {"n"}, "env": {"u", "C"}, "stdbuf": {"o", "e", "i"}, "setpriv": nil, "chrt": nil,
	"tini": {"p", "e"}, "dumb-init": {"r"}, "ddtrace-run": nil, "opentelemetry-instrument": nil, "time": nil,
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// unwrap takes away variables and programs that only start another one in their place.
func unwrap(argv []string) []string {
	for len(argv) > 0 {
		name := path.Base(argv[0])
		valued, isWrapper := wrappers[name]
		switch {
		case assignment.MatchString(argv[0]):
			argv = argv[1:]
		case isWrapper:
			argv = afterOptions(argv[1:], valued...)
		case (name == "gosu" || name == "su-exec") && len(argv) > 1:
			argv = argv[2:]
		default:
			return argv
		}
	}
	return argv
}

// afterOptions skips the options before a command; the valued ones take a word more.
func afterOptions(argv []string, valued ...string) []string {
	for len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		option := argv[0]
		argv = argv[1:]
		if option == "--" {
			break
		}
		if len(option) == 2 && slices.Contains(valued, option[1:]) && len(argv) > 0 {
			argv = argv[1:]
		}
	}
	return argv
}

// launchers start the program that their arguments name.
var launchers = []struct{ name, verb string }{
	{"bundle", "exec"}, {"poetry", "run"}, {"pipenv", "run"}, {"uv", "run"}, {"pdm", "run"}, {"newrelic-admin", "run-program"},
}

var python = regexp.MustCompile(`^python(\d+(\.\d+)?)?$`)

// program looks through launchers: "poetry run gunicorn" and "python -m gunicorn" are gunicorn.
func program(argv []string) []string {
	for len(argv) > 2 {
		name := path.Base(argv[0])
		if python.MatchString(name) {
			i := slices.Index(argv, "-m")
			if i < 0 || i+1 >= len(argv) || slices.ContainsFunc(argv[1:i], func(a string) bool { return !strings.HasPrefix(a, "-") }) {
				return argv
			}
			argv = argv[i+1:]
			continue
		}
		looked := false
		for _, l := range launchers {
			if name == l.name && argv[1] == l.verb {
				argv, looked = afterOptions(argv[2:]), true
				break
			}
		}
		if !looked {
			return argv
		}
	}
	return argv
}
