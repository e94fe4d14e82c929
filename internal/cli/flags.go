package cli

import (
	"errors"
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
