//go:build !linux

package dataplane

import (
	"context"

	"github.com/drainproof/drainproof/internal/fault"
)

// Watcher reads rules on Linux only.
type Watcher struct{}

// Open says that there is nothing to read.
func Open(Options) (*Watcher, []Sight, error) {
	return nil, nil, fault.Measuref(nil, "run the agent on a node of the cluster", "the rules of a data plane can be read on Linux only")
}

// Read is never reached: Open gives no Watcher.
func (*Watcher) Read(context.Context, func(Change)) error { return nil }

// Counts is never reached.
func (*Watcher) Counts() Counts { return Counts{} }

// Close is never reached.
func (*Watcher) Close() error { return nil }
