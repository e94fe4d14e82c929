//go:build !linux || !(amd64 || arm64)

package kernel

import (
	"context"
	"errors"
)

var errOnlyLinux = errors.New("kernel: tracing works on Linux only, on amd64 and arm64")

// Tracer tells what the kernel does. There is none on this system.
type Tracer struct{}

// Open fails on this system.
func Open(Options) (*Tracer, error) { return nil, errOnlyLinux }

// Sights is empty.
func (t *Tracer) Sights() []Sight { return nil }

// Watch fails on this system.
func (t *Tracer) Watch(uint32, Subject) error { return errOnlyLinux }

// Unwatch fails on this system.
func (t *Tracer) Unwatch(uint32) error { return errOnlyLinux }

// WatchPorts fails on this system.
func (t *Tracer) WatchPorts(uint8, ...uint16) error { return errOnlyLinux }

// TakeConntrack takes nothing on this system.
func (t *Tracer) TakeConntrack(int) (bool, error) { return false, nil }

// Read fails on this system.
func (t *Tracer) Read(context.Context, func(*Event)) error { return errOnlyLinux }

// CatchUp fails on this system.
func (t *Tracer) CatchUp() error { return errOnlyLinux }

// Lost fails on this system.
func (t *Tracer) Lost() (Loss, error) { return Loss{}, errOnlyLinux }

// Close does nothing.
func (t *Tracer) Close() error { return nil }
