//go:build !linux

package conntrack

// Cookie is not told here.
func (*Listener) Cookie() (uint64, error) { return 0, errNotLinux }
