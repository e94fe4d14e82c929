package cli

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
)

// flagFault says what a person can do about a flag that could not be read.
func flagFault(c *cobra.Command, err error) error {
	next := "see `" + c.CommandPath() + " --help`"
	type badValue interface {
		error
		GetValue() string
	}
	// The errors of time.ParseDuration have no type, but all begin so.
	if e, ok := errors.AsType[badValue](err); ok && errors.Unwrap(e) != nil && strings.HasPrefix(errors.Unwrap(e).Error(), "time: ") {
		example := "6s"
		if _, err := strconv.ParseUint(e.GetValue(), 10, 32); err == nil {
			example = e.GetValue() + "s"
		}
		next = "give a duration with its unit, such as " + example
	}
	return fault.Usagef(next, "%v", err)
}

var (
	// excluded is how cobra says that flags exclude each other, and misspelt how it says that there is no such command.
	excluded = regexp.MustCompile(`^if any flags in the group .*; \[(.+)\] were all set$`)
	misspelt = regexp.MustCompile(`(?s)^(unknown command .*?)\n\nDid you mean this\?\n\t(\S+)`)
)

// wrongUse puts what cobra refuses into our words.
func wrongUse(err error) error {
	text := err.Error()
	if m := excluded.FindStringSubmatch(text); m != nil {
		return fault.Usagef("leave one of them out", "--%s exclude each other", strings.Join(strings.Fields(m[1]), " and --"))
	}
	if m := misspelt.FindStringSubmatch(text); m != nil {
		return fault.Usagef("perhaps `"+m[2]+"` was meant; `drainproof --help` lists the commands", "%s", m[1])
	}
	if strings.HasPrefix(text, "unknown command ") {
		return fault.Usagef("`drainproof --help` lists the commands", "%s", text)
	}
	return err
}
