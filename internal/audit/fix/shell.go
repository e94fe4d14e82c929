package fix

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/images"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// oneCommand is a script that is a single simple command: a program with arguments, without
// anything that makes the shell do something before, beside or after it, and without
// assignments in front, which exec would take for the program.
var oneCommand = regexp.MustCompile("^[A-Za-z0-9_./-]+( [^;&|<>()`\\n\\\\#]*)?\\n?$")

// own are what a shell does itself: exec finds no program for them.
var own = map[string]bool{
	"exec": true, "cd": true, "export": true, "set": true, "source": true, ".": true, "eval": true, "trap": true, "wait": true, "ulimit": true, "umask": true,
	"if": true, "for": true, "while": true, "until": true, "case": true, "function": true, "exit": true, "return": true, "read": true, "unset": true, "alias": true,
}

// replaceShell makes the shell in front of a server give way to it: exec in front of
// the command, so that the server is process 1 and the stop signal reaches it.
func (p *planner) replaceShell(w *model.Workload, fs []finding.Finding) []Change {
	var all []Change
	for _, f := range fs {
		c := containerOf(w, f)
		if c == nil {
			all = append(all, p.skip(f, f.Remedy))
			continue
		}
		at, script, program, ok := execable(c)
		if !ok {
			all = append(all, p.skip(f, "what the shell runs is more than one plain command: "+f.Remedy))
			continue
		}
		what := fmt.Sprintf("let the shell of container %s give way to %s, so that the stop signal reaches it: exec", c.Name, program)
		all = append(all, change(w.PodObject, at, what, []finding.Finding{f}, edit{path: at, value: word("exec " + script)}))
	}
	return all
}

// dashC is the flag before a script, with those that change nothing about its end.
var dashC = regexp.MustCompile(`^-[eluxo]*c$`)

// execable finds the text that a container has its shell run, and where it stands, if
// it is one plain command.
func execable(c *model.Container) (at, script, program string, ok bool) {
	var argv, paths []string
	for i, s := range c.Command {
		argv, paths = append(argv, s), append(paths, fmt.Sprintf("%s.command[%d]", c.Path, i))
	}
	for i, s := range c.Args {
		argv, paths = append(argv, s), append(paths, fmt.Sprintf("%s.args[%d]", c.Path, i))
	}
	if len(argv) < 3 || !dashC.MatchString(argv[1]) || images.Started(c.Command, c.Args).Ending != images.Single {
		return "", "", "", false
	}
	switch path.Base(argv[0]) {
	case "sh", "bash", "ash", "dash":
	default:
		return "", "", "", false
	}
	program, _, _ = strings.Cut(strings.TrimSpace(argv[2]), " ")
	return paths[2], argv[2], program, oneCommand.MatchString(argv[2]) && !own[program]
}
