package model

import (
	"slices"
	"strings"
)

// This file reads as much of the shell's language as hooks are usually written in:
// commands one after another, with && and ||, in pipelines and in the background. Anything
// else ends the reading: what came before still counts, what comes after is not known.

// list is a chain of pipelines up to a semicolon, a newline or an ampersand.
type list struct {
	steps      []step
	background bool
}

// step is a pipeline and what joins it to the one before: "", "&&" or "||".
type step struct {
	joint    string
	commands [][]word
	// outputs are where the commands' outputs go.
	outputs []outputs
}

// outputs say whether a command's two outputs go elsewhere than its shell's.
type outputs struct{ out, err bool }

// follow follows one redirection.
func (o *outputs) follow(op, target string) {
	descriptor, op := op[:len(op)-len(strings.TrimLeft(op, "0123456789"))], strings.TrimLeft(op, "0123456789")
	if op[0] == '<' {
		return
	}
	away := true
	switch {
	case target == "/dev/stdout", target == "/dev/stderr", strings.HasPrefix(target, "/dev/fd/"), strings.HasPrefix(target, "/proc/self/fd/"):
		away = false
	case op != ">&":
	case target == "1":
		away = o.out
	case target == "2":
		away = o.err
	case target == "-":
	case isNumber(target):
		away = false
	default:
		o.err = true // both outputs to a file
	}
	switch descriptor {
	case "", "1":
		o.out = away
	case "2":
		o.err = away
	}
}

// apart says whether the pipeline keeps none of its shell's outputs open.
func (s step) apart() bool {
	for i, o := range s.outputs {
		if !o.err || !o.out && i == len(s.outputs)-1 {
			return false
		}
	}
	return true
}

// reserved words open what is not read.
var reserved = []string{
	"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function", "select", "time",
	"coproc", "{", "}", "!", "[[",
}

// nested bounds shells that start shells.
const nested = 4

// readText tells what a shell does with a text.
func readText(text string, errexit bool, depth int) held {
	tokens, ok := split(text)
	if !ok || depth > nested {
		h := unknown()
		h.sleeper = strings.Contains(text, "sleep")
		return h
	}
	read, rest := parse(tokens)
	h := held{known: true, result: succeeds}
	for i, l := range read {
		if !h.runList(l, &errexit, depth) {
			for _, l := range read[i+1:] {
				h.mention(l, depth)
			}
			return h
		}
	}
	if len(rest) > 0 {
		h.known, h.loud, h.result = false, true, unsure
		h.sleeper = h.sleeper || slices.ContainsFunc(rest, func(t token) bool { return t.op == "" && base(t.word.text) == "sleep" })
	}
	return h
}

// mention notes what a list that may not be reached would need.
func (h *held) mention(l list, depth int) {
	for _, s := range l.steps {
		n := s.run(depth)
		h.sleeper = h.sleeper || n.sleeper
	}
}

// runList adds a list that is surely reached, and says whether the next one surely is.
func (h *held) runList(l list, errexit *bool, depth int) bool {
	if l.background {
		for _, s := range l.steps {
			n := s.run(depth)
			h.also(n)
			// Who runs a hook waits until nobody holds its outputs open any more.
			if !s.apart() && (!n.known || n.atLeast > 0) {
				h.known = false
			}
		}
		h.result = succeeds
		return true
	}
	for i, s := range l.steps {
		n := s.run(depth)
		before := h.result
		switch {
		case i == 0, s.joint == "&&" && before == succeeds, s.joint == "||" && before == fails:
			h.then(n)
			h.result = n.result
			if n.ends {
				return false
			}
			s.options(errexit)
		case before != unsure: // not run; the result stands
		case n.ends: // nobody knows whether anything more is run
			h.perhaps(n)
			h.known, h.result = false, unsure
			return false
		default:
			h.perhaps(n)
			switch {
			case s.joint == "||" && n.result == succeeds:
				h.result = succeeds
			case s.joint == "&&" && n.result == fails:
				h.result = fails
			}
		}
	}
	if !*errexit || h.result == succeeds {
		return true
	}
	// The shell ends at a failure. Where it is not sure to fail, the rest is not known.
	h.known = h.known && h.result == fails && len(l.steps) == 1
	return false
}

// options follows set -e and set +e.
func (s step) options(errexit *bool) {
	if len(s.commands) != 1 || len(s.commands[0]) == 0 || s.commands[0][0].text != "set" {
		return
	}
	args := s.commands[0][1:]
	for i, a := range args {
		if len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+' {
			continue
		}
		long := strings.HasSuffix(a.text, "o") && i+1 < len(args) && args[i+1].text == "errexit"
		if strings.Contains(a.text[1:], "e") || long {
			*errexit = a.text[0] == '-'
		}
	}
}

// run tells what a pipeline does: its commands run side by side, and its last one gives the result.
func (s step) run(depth int) held {
	if len(s.commands) == 1 {
		return run(s.commands[0], depth)
	}
	h := held{known: true}
	for _, c := range s.commands {
		n := run(c, depth)
		h.atLeast, h.first = max(h.atLeast, n.atLeast), max(h.first, n.first)
		h.known = h.known && n.known
		h.result = n.result
		h.also(n)
	}
	if h.loud {
		h.first = 0
	}
	return h
}

// parse groups tokens into lists. What it cannot read it gives back, from the beginning of the list that holds it.
func parse(tokens []token) (read []list, rest []token) {
	start := 0 // of the list in hand
	var l list
	var s step
	var command []word
	redirected := false
	var to outputs

	// done ends the command in hand; false where there is none.
	done := func() bool {
		if len(command) == 0 && !redirected {
			return false
		}
		if len(command) == 0 {
			command = []word{{text: "true", fixed: true}} // a redirection alone opens a file
		}
		s.commands, s.outputs = append(s.commands, command), append(s.outputs, to)
		command, redirected, to = nil, false, outputs{}
		return true
	}
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.op {
		case "":
			if len(command) == 0 && !t.word.quoted && slices.Contains(reserved, t.word.text) {
				return read, tokens[start:]
			}
			command = append(command, t.word)
		case ">":
			if i++; i == len(tokens) || tokens[i].op != "" || tokens[i].word.runs {
				return read, tokens[start:]
			}
			to.follow(t.word.text, tokens[i].word.text)
			redirected = true
		case "|":
			if !done() {
				return read, tokens[start:]
			}
		case "&&", "||":
			if !done() {
				return read, tokens[start:]
			}
			l.steps = append(l.steps, s)
			s = step{joint: t.op}
		case "\n":
			if len(command) == 0 && !redirected && (len(l.steps) > 0 || len(s.commands) > 0) {
				continue // after && or |, the line goes on
			}
			fallthrough
		case ";", "&":
			if !done() {
				if t.op == "\n" {
					start = i + 1
					continue // an empty line
				}
				return read, tokens[start:]
			}
			l.steps = append(l.steps, s)
			l.background = t.op == "&"
			read = append(read, l)
			l, s, start = list{}, step{}, i+1
		default: // parentheses, the end of a case
			return read, tokens[start:]
		}
	}
	if done() {
		l.steps = append(l.steps, s)
		return append(read, l), nil
	}
	if len(l.steps) > 0 || len(s.commands) > 0 {
		return read, tokens[start:] // && with nothing after it
	}
	return read, nil
}
