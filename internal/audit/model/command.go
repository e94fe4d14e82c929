package model

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quick are commands that take no time that counts. The loud ones may stop the server.
var quick = map[string]held{
	"exit":  {known: true, result: succeeds, ends: true},
	"false": {known: true, result: fails},
	"test":  {known: true}, "[": {known: true},
	"kill": {known: true, loud: true}, "pkill": {known: true, loud: true}, "killall": {known: true, loud: true},
}

// plain are the quick ones that succeed unless something is very wrong.
var plain = []string{
	":", "cd", "date", "echo", "export", "mkdir", "printf", "pwd", "readonly", "rm", "set", "touch", "trap", "true", "umask", "unset",
}

// signallers only send their server a signal when they are given this option.
var signallers = map[string]string{"nginx": "-s", "httpd": "-k", "apache2": "-k", "apachectl": "-k", "apache2ctl": "-k"}

// run tells what one simple command does.
func run(words []word, depth int) held {
	for len(words) > 0 && words[0].assigns {
		if words[0].runs {
			return unknown()
		}
		words = words[1:]
	}
	nothing := held{known: true, result: succeeds}
	if len(words) == 0 {
		return nothing
	}
	head, args := words[0], words[1:]
	program := base(head.text)
	if !head.fixed {
		return unknown()
	}
	if slices.ContainsFunc(args, func(w word) bool { return w.runs }) {
		h := unknown()
		h.sleeper = program == "sleep"
		return h
	}
	switch program {
	case "sleep":
		return readSleep(args)
	case "sh", "bash", "ash", "dash", "ksh", "zsh":
		return readShell(program, args, depth)
	case "exec":
		if len(args) == 0 {
			return nothing
		}
		h := run(args, depth)
		h.ends = true
		return h
	case "env", "nohup", "command", "busybox", "toybox":
		if program == "env" {
			for len(args) > 0 && strings.Contains(args[0].text, "=") {
				args = args[1:]
			}
		}
		if len(args) == 0 || strings.HasPrefix(args[0].text, "-") {
			return unknown()
		}
		return run(args, depth)
	}
	if h, ok := quick[program]; ok {
		return h
	}
	if slices.Contains(plain, program) {
		return nothing
	}
	if option, ok := signallers[program]; ok && slices.ContainsFunc(args, func(w word) bool { return w.text == option }) {
		return held{known: true, loud: true}
	}
	return readCode(program, args)
}

func base(path string) string {
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	return strings.TrimSuffix(name, ".exe")
}

func quote(text string) string {
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return strconv.Quote(text)
}

// readSleep reads the arguments of sleep: times that add up, with a unit or in seconds.
func readSleep(args []word) held {
	h := slept(0)
	if len(args) == 0 {
		h = broken("sleep is not told how long")
	}
	for _, a := range args {
		if !a.fixed {
			return held{sleeper: true}
		}
		d, ok := sleepTime(a.text)
		if !ok {
			h = broken("sleep does not take " + quote(a.text))
			break
		}
		h.then(slept(d))
	}
	h.sleeper = true
	return h
}

var units = map[byte]float64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}

func sleepTime(text string) (time.Duration, bool) {
	if text == "infinity" || text == "inf" {
		return Endless, true
	}
	unit := 1.0
	if n := len(text); n > 0 {
		if u, ok := units[text[n-1]]; ok {
			text, unit = text[:n-1], u
		}
	}
	if strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(n, 1) {
		return 0, false
	}
	return seconds(n * unit), true
}

// seconds makes a duration of a number that is not negative.
func seconds(n float64) time.Duration {
	if n >= Endless.Seconds() {
		return Endless
	}
	return time.Duration(n * float64(time.Second))
}

// readShell reads the arguments of a shell: options, and the text after -c.
func readShell(program string, args []word, depth int) held {
	h := unknown()
	h.shell = true
	text, errexit := false, false
	for len(args) > 0 {
		option := args[0].text
		if !args[0].fixed || len(option) < 2 || option[0] != '-' && option[0] != '+' {
			break
		}
		args = args[1:]
		if option == "--" {
			break
		}
		if strings.HasPrefix(option, "--") {
			if option == "--rcfile" || option == "--init-file" {
				args = args[min(1, len(args)):]
			}
			continue
		}
		on := option[0] == '-'
		for _, letter := range option[1:] {
			switch letter {
			case 'c':
				text = text || on
			case 'e':
				errexit = on
			case 'n':
				return h // it reads the text and runs none of it
			case 'o', 'O':
				if len(args) > 0 {
					if args[0].text == "errexit" {
						errexit = on
					}
					args = args[1:]
				}
			}
		}
	}
	switch {
	case !text:
		return h // a script in the image, or what comes in
	case len(args) == 0:
		h = broken(program + " -c is followed by nothing")
	case args[0].fixed:
		h = readText(args[0].text, errexit, depth+1)
		if h.broken != "" && len(args) > 1 && !strings.ContainsAny(args[0].text, " \t\n") {
			h.broken = program + " -c runs only " + quote(args[0].text) + ": the whole command must be one text"
		}
	}
	h.shell = true
	h.ends = false // what ended is this shell
	return h
}
