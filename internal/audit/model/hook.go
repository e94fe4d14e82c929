package model

import (
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// hook reads a preStop or postStart hook; nil where there is none.
func (r reader) hook(life manifest.Value, at, key string) *Hook {
	v := r.child(life, at, key, manifest.Map)
	if !v.Exists() {
		return nil
	}
	at = join(at, key)
	how, handler, path := r.handler(v, at)
	h := &Hook{How: how, At: at}
	switch how {
	case "exec":
		h.Exec = r.texts(handler, path, "command")
		h.time(readCommand(h.Exec))
	case "sleep":
		switch n := r.span(handler, path, "seconds", 0); {
		case n.N < 0:
			h.fail("its sleep is of less than 0 seconds")
		case n.Set:
			h.time(slept(seconds(float64(n.N))))
		case handler.At("seconds").Exists():
			h.fail("the seconds of its sleep are no whole number")
		default:
			h.fail("sleep has no seconds")
		}
	case "http":
		h.Port, h.Path = r.text(handler, path, "port"), r.textOr(handler, path, "path", "/")
	case "tcp":
		h.Port = r.text(handler, path, "port")
		h.fail("the kubelet runs no tcpSocket hooks")
	default:
		h.How = "" // grpc is a probe's handler
		h.fail("it has no handler: exec, httpGet or sleep")
	}
	return h
}

// fail marks a hook that holds its container for no time.
func (h *Hook) fail(why string) { h.time(held{known: true, broken: why}) }

// time takes over what the text of a hook tells.
func (h *Hook) time(t held) {
	h.Known, h.AtLeast, h.SleepsFirst = t.known, t.atLeast, t.first
	if t.known {
		h.Took = t.atLeast
	}
	h.Shell, h.Sleeper, h.Broken = t.shell, t.sleeper, t.broken
}

// Endless stands for a sleep without an end; every longer time is cut to it.
const Endless = 10000 * time.Hour

// held is what the text of a command tells about the time that it takes.
type held struct {
	// atLeast is how long the sleeps in it take that surely run; where known is
	// true the command takes no other time that counts.
	atLeast time.Duration
	known   bool
	// first is the part of atLeast before the first thing that may stop the server.
	first time.Duration
	// loud: it runs something that may stop the server.
	loud           bool
	shell, sleeper bool
	broken         string
	// result is how it ends, for what follows it in a shell.
	result result
	// ends: nothing that follows it in a shell is run.
	ends bool
}

// result is how a command ends.
type result uint8

// A command that is known to succeed or to fail decides what && and || run.
const (
	unsure result = iota
	succeeds
	fails
)

// unknown is a command of which only the name is known, or not even that.
func unknown() held { return held{loud: true} }

// slept is a command that sleeps and does nothing else.
func slept(d time.Duration) held {
	return held{atLeast: d, first: d, known: true, result: succeeds}
}

func broken(why string) held { return held{known: true, result: fails, broken: why} }

// then adds what surely runs next.
func (h *held) then(next held) {
	if !h.loud {
		h.first = min(h.first+next.first, Endless)
	}
	h.atLeast = min(h.atLeast+next.atLeast, Endless)
	h.known = h.known && next.known
	h.ends = next.ends
	h.also(next)
}

// perhaps adds what may run next, or not.
func (h *held) perhaps(next held) {
	h.known = h.known && next.known && next.atLeast == 0
	h.also(next)
}

// also adds what is true of a whole where it is true of a part.
func (h *held) also(next held) {
	h.loud = h.loud || next.loud
	h.shell = h.shell || next.shell
	h.sleeper = h.sleeper || next.sleeper
	if h.broken == "" {
		h.broken = next.broken
	}
}

// longest bounds the text of a hook that is looked into.
const longest = 64 << 10

// readCommand reads an exec hook's command, as the kubelet hands it over: no shell
// takes part unless the command names one.
func readCommand(argv []string) held {
	if len(argv) == 0 || argv[0] == "" {
		return broken("its command is empty")
	}
	switch program := argv[0]; {
	case len(argv) == 1 && strings.ContainsAny(strings.TrimSpace(program), " \t\n"):
		return broken("it is one text, and no program is called " + quote(program) + ": each word must be an element of its own")
	case shellOnly[program]:
		return broken(quote(program) + " is a word of the shell and no program: the command needs sh -c")
	}
	size := 0
	words := make([]word, len(argv))
	for i, a := range argv {
		size += len(a)
		words[i] = word{text: a, fixed: true, quoted: true}
	}
	if size > longest {
		return unknown()
	}
	h := run(words, 0)
	if !h.known || h.atLeast > 0 {
		h.broken = ""
	}
	return h
}

// shellOnly are words that only a shell understands.
var shellOnly = map[string]bool{
	"exec": true, "export": true, "set": true, "trap": true, "exit": true, "source": true, ".": true, ":": true,
	"eval": true, "if": true, "while": true, "for": true, "[[": true,
}
