package page

import (
	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// NotMeasured stands for every null.
const NotMeasured = "not measured"

// Sign of a bound before a number: at most, at least, or neither known.
func Sign(b record.Bound) string {
	switch b {
	case record.Upper:
		return "≤ "
	case record.Lower:
		return "≥ "
	case record.Either:
		return "~ "
	default:
		return ""
	}
}

// Uncertainty prints a clock's bound: nothing on one kernel, ±? where it is not known.
func Uncertainty(u *int64) string {
	switch {
	case u == nil:
		return " ±?"
	case *u == 0:
		return ""
	}
	return " ±" + figure.Nanoseconds(*u)
}
