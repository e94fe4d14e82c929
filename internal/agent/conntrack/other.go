//go:build !linux

package conntrack

import (
	"context"
	"errors"
)

// Listener cannot be had: only Linux has conntrack.
type Listener struct{}

var errNotLinux = errors.New("conntrack is only on Linux")

// Open fails: only Linux has conntrack.
func Open(Options) (*Listener, error) {
	return nil, &Unseen{Why: "this is not Linux", Cause: errNotLinux}
}

func (*Listener) TellsOld() bool                           { return false }
func (*Listener) SetFilter(Filter) error                   { return errNotLinux }
func (*Listener) Read(context.Context, func(*Event)) error { return errNotLinux }
func (*Listener) Gaps() []Gap                              { return nil }
func (*Listener) Dump(context.Context) ([]Entry, error)    { return nil, errNotLinux }
func (*Listener) Remember() error                          { return errNotLinux }
func (*Listener) Whose(uint32) (Owner, bool)               { return Owner{}, false }
func (*Listener) Close() error                             { return nil }
func (*Listener) CatchUp() error                           { return errNotLinux }
