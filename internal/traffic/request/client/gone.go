package client

import "sync/atomic"

// gone counts a user's connections that ended in order and were not replaced yet. Safe for concurrent use.
type gone struct{ n atomic.Int64 }

func (g *gone) add() { g.n.Add(1) }

// replace tells whether a connection that was opened stands for one of them.
func (g *gone) replace() bool {
	for {
		n := g.n.Load()
		if n == 0 {
			return false
		}
		if g.n.CompareAndSwap(n, n-1) {
			return true
		}
	}
}
