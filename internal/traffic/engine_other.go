//go:build !linux

package traffic

import "github.com/drainproof/drainproof/internal/fault"

func newEngine(func(Note)) (holder, error) {
	return nil, fault.Usagef("use --vantage pod: the client then runs in the cluster", "a client on this machine needs Linux")
}
