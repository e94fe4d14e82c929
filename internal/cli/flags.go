package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drainproof/drainproof/internal/fault"
)

// flagFault says what a person can do about a flag that could not be read.
func flagFault(c *cobra.Command, err error) error {
	next := "see `" + c.CommandPath() + " --help`"
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok && e.GetFlag().Value.Type() == "duration" {
		example := "6s"
		if _, err := strconv.ParseUint(e.GetValue(), 10, 32); err == nil {
			example = e.GetValue() + "s"
		}
		next = "give a duration with its unit, such as " + example
	}
	return fault.Usagef(next, "%v", err)
}
