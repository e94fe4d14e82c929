//go:build !linux

package containers

import "errors"

// Map cannot be filled: containers' processes are on Linux.
type Map struct{}

// New makes a map that stays empty: only Linux has the processes of containers.
func New(string) *Map { return &Map{} }

func (*Map) Scan(int64) error                        { return errors.New("processes of containers are only on Linux") }
func (*Map) See(int, int64) (Container, bool)        { return Container{}, false }
func (*Map) Lookup(_, _, _ uint32) (Container, bool) { return Container{}, false }
func (*Map) PodByNetNs(uint32) (Pod, bool)           { return Pod{}, false }
func (*Map) Pods() []Pod                             { return nil }
func (*Map) Containers(string) []Container           { return nil }
