//go:build !linux

package containers

// Containers is empty.
func (*Map) Containers(string) []Container { return nil }
