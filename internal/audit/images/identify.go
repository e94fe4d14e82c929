package images

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

func identify(image string, command, args []string) Known {
	ref := parseReference(image)
	k := Known{Shell: ref.shell(), Sh: ref.sh()}
	byImage, official := ref.server()
	if len(command) == 0 && len(args) == 0 {
		k.Server, k.Official = byImage, official
		return k
	}
	p := Started(command, args)
	program := p.server()
	switch {
	case program != nil && byImage != nil && byImage.Name == program.Name:
		// The image's own entry knows its STOPSIGNAL, which a command does not change.
		k.Server, k.Official = byImage, official
	case program != nil:
		k.Server = program
	case len(command) == 0 && p.optionsOnly(), p.entrypoint(byImage):
		k.Server, k.Official = byImage, official
	}
	return k
}

// server finds the server that the process is.
func (p Process) server() *Server {
	name := p.Name()
	switch {
	case name == "":
		return nil
	case fpmCommand.MatchString(name):
		return phpFPM
	case python.MatchString(name):
		return pythonCode
	case name == "fastapi" && len(p.Argv) > 1 && p.Argv[1] == "run":
		return uvicorn
	}
	return byCommand[name]
}

// optionsOnly: the arguments go to the image's entrypoint as options or words, so the image's server still runs.
func (p Process) optionsOnly() bool {
	return p.Shell == "" && len(p.Argv) > 0 && (strings.HasPrefix(p.Argv[0], "-") || !strings.Contains(p.Argv[0], "/"))
}

// entrypoint: the command is the script that such images start their server with.
func (p Process) entrypoint(byImage *Server) bool {
	return byImage != nil && strings.Contains(path.Base(p.File), "entrypoint")
}

// Delay is how long the server goes on accepting after its stop signal, by its arguments.
func (s *Server) Delay(command, args []string) (d time.Duration, set bool) {
	if s == nil || s.delay == nil {
		return 0, false
	}
	words := slices.Concat(command, args)
	for i, w := range words {
		if !strings.Contains(w, "=") && i+1 < len(words) {
			w += " " + words[i+1]
		}
		m := s.delay.FindStringSubmatch(w)
		if m == nil {
			continue
		}
		value := m[len(m)-1]
		if strings.Trim(value, "0123456789") == "" {
			value += "s"
		}
		if took, err := time.ParseDuration(value); err == nil && (took > d || !set) {
			d, set = took, true
		}
	}
	return d, set
}

// Drain is where a hook's command makes the server finish gently.
type Drain struct {
	Before, Part, After string
}

// waits matches what keeps a hook going after its command: without it the stop
// signal follows at once.
var waits = regexp.MustCompile(`\b(?:sleep|while|until|wait|tail)\b`)

// Waits says whether the hook goes on for a while after it told the server to finish.
func (d Drain) Waits() bool {
	return waits.MatchString(d.After) || strings.Contains(d.Part, "wait-shutdown")
}

// Drains finds the part of a hook's command that makes the server finish gently; ok
// is false without one.
func (s *Server) Drains(command string) (d Drain, ok bool) {
	if s == nil {
		return Drain{}, false
	}
	from, to := -1, -1
	for _, p := range s.drains {
		if m := p.FindStringIndex(command); m != nil && (from < 0 || m[0] < from) {
			from, to = m[0], m[1]
		}
	}
	if from < 0 {
		return Drain{}, false
	}
	return Drain{Before: command[:from], Part: strings.TrimSpace(command[from:to]), After: command[to:]}, true
}

// CanDrain says whether a hook's command could make the server finish gently.
func (s *Server) CanDrain() bool { return s != nil && len(s.drains) > 0 }
