package model

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Images without a shell sleep in the language of their program. These are the
// ways that are usual; every other text is not known.
var (
	harmless = regexp.MustCompile(`^(?:|pass|import [\w., ]+|from time import (?:sleep|\*)|exit(?:\(\d*\))?|sys\.exit\(\d*\))$`)
	sleeping = regexp.MustCompile(`^(?:time\.)?sleep(?:\s*\(\s*(\d*\.?\d+)\s*\)|\s+(\d*\.?\d+))$`)
	timeout  = regexp.MustCompile(`^setTimeout\(\s*(?:\(\s*\)|_)\s*=>\s*(?:\{\s*\}|process\.exit\(\d*\)|\{\s*process\.exit\(\d*\);?\s*\})\s*,\s*(\d+)\s*\);?$`)
	start    = regexp.MustCompile(`(?i)^start-sleep\s+(?:(-s|-seconds|-m|-milliseconds)\s+)?(\d*\.?\d+)$`)
)

// readCode reads a command that hands its program a text to run.
func readCode(program string, args []word) held {
	option := ""
	switch lower := strings.ToLower(program); {
	case strings.HasPrefix(lower, "python"):
		option = "-c"
	case lower == "perl", lower == "ruby", lower == "node", lower == "nodejs":
		option = "-e"
	case lower == "powershell", lower == "pwsh":
		return readPowerShell(args)
	default:
		return unknown()
	}
	for i, a := range args {
		switch {
		case !a.fixed, !strings.HasPrefix(a.text, "-"):
			return unknown() // a script in the image
		case a.text != option:
			continue
		case i+1 == len(args), !args[i+1].fixed:
			return unknown()
		case program == "node", program == "nodejs":
			return readNode(args[i+1].text)
		}
		return readStatements(args[i+1].text)
	}
	return unknown()
}

// readStatements reads Python, Perl and Ruby, as far as they only sleep.
func readStatements(code string) held {
	h := held{known: true, result: succeeds}
	for _, line := range strings.FieldsFunc(code, func(c rune) bool { return c == ';' || c == '\n' }) {
		line = strings.TrimSpace(line)
		if m := sleeping.FindStringSubmatch(line); m != nil {
			h.then(slept(number(m[1]+m[2], time.Second)))
			continue
		}
		if !harmless.MatchString(line) {
			h.then(unknown())
			h.result = unsure
			break
		}
		if strings.Contains(line, "exit") {
			break
		}
	}
	return h
}

func readNode(code string) held {
	if m := timeout.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
		return slept(number(m[1], time.Millisecond))
	}
	return unknown()
}

func readPowerShell(args []word) held {
	var text []string
	for _, a := range args {
		if !a.fixed {
			return unknown()
		}
		// Options before the command; -Command itself is one of them.
		if len(text) == 0 && strings.HasPrefix(a.text, "-") {
			continue
		}
		text = append(text, a.text)
	}
	h := held{known: true, result: succeeds}
	for _, line := range strings.FieldsFunc(strings.Join(text, " "), func(c rune) bool { return c == ';' || c == '\n' }) {
		m := start.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			h.then(unknown())
			h.result = unsure
			return h
		}
		unit := time.Second
		if strings.HasPrefix(strings.ToLower(m[1]), "-m") {
			unit = time.Millisecond
		}
		h.then(slept(number(m[2], unit)))
	}
	if len(text) == 0 {
		return unknown()
	}
	return h
}

// number reads digits with at most one point among them.
func number(digits string, unit time.Duration) time.Duration {
	n, _ := strconv.ParseFloat(digits, 64) // out of range is infinity, and so Endless
	return seconds(n * unit.Seconds())
}
