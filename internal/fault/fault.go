// Package fault is how every other package says what went wrong: what
// happened, to what, what to do next, and which exit code that deserves.
//
// It must not know any other package of the project, nor print anything: the
// command layer is the only place where a fault becomes text on a terminal.
package fault

import (
	"errors"
	"fmt"
)

// Code is the exit code of the program (documented in docs/cli.md).
type Code int

const (
	// Pass: the command did what it was asked to do.
	Pass Code = 0
	// Failed: the measurement was good, and its verdict is a failure.
	Failed Code = 1
	// Usage: wrong flags, arguments or input files; nothing was touched.
	Usage Code = 2
	// Inconclusive: something was measured, but not enough to judge.
	Inconclusive Code = 3
	// Unmeasurable: the measurement could not be made or was interrupted.
	Unmeasurable Code = 4
)

// Error is a failure that a person can act on.
type Error struct {
	Code Code
	// What happened, and to which object. Lower case, no final period.
	What string
	// Next is what to do about it; empty where there is nothing to add.
	Next string
	// Cause is the wrapped error; nil where What says it all.
	Cause error
}

// Error gives what happened and the cause, without the advice.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.What
	}
	return e.What + ": " + e.Cause.Error()
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// Usagef is wrong use: exit code 2.
func Usagef(next, format string, args ...any) *Error {
	return &Error{Code: Usage, What: fmt.Sprintf(format, args...), Next: next}
}

// Measuref is a measurement that could not be made: exit code 4. A nil cause is allowed.
func Measuref(cause error, next, format string, args ...any) *Error {
	return &Error{Code: Unmeasurable, What: fmt.Sprintf(format, args...), Next: next, Cause: cause}
}

// Inconclusivef is a measurement that does not suffice: exit code 3.
func Inconclusivef(next, format string, args ...any) *Error {
	return &Error{Code: Inconclusive, What: fmt.Sprintf(format, args...), Next: next}
}

// Unmet is a precondition that does not hold: the check's name, what must be true, what is, and the remedy.
func Unmet(check, invariant, seen, remedy string) error {
	return Measuref(nil, remedy, "preflight check %s: %s, but %s", check, invariant, seen)
}

// CodeOf gives the exit code that err deserves: that of the outermost Error
// in its chain, Pass for nil, Unmeasurable for a plain error.
func CodeOf(err error) Code {
	if err == nil {
		return Pass
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Unmeasurable
}

// NextOf gives the first advice in err's chain, or "".
func NextOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Next != "" {
			return e.Next
		}
		err = e.Cause
	}
	return ""
}
