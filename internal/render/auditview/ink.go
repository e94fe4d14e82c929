package auditview

import (
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// Colours: those that every terminal theme defines.
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// ink colours clean text; its zero value does not.
type ink struct{ on bool }

func (k ink) in(color, s string) string {
	if !k.on || color == plain || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func severityColor(s finding.Severity) string {
	switch s {
	case finding.Error:
		return red
	case finding.Warning:
		return yellow
	case finding.Info:
		return cyan
	}
	return plain
}
