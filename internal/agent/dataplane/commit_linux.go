package dataplane

import (
	"slices"

	"golang.org/x/sys/unix"
)

// notice is one commit that the kernel told of, or its word that it could not tell of some.
type notice struct {
	lost       bool
	generation uint32
	// pid and comm are the process's; 0 and "" where the kernel did not tell.
	pid  uint32
	comm string
	// at is when it was received.
	at int64
	// err ends the notices.
	err error
}

// decodeNotice reads the message of a commit, with its struct nfgenmsg.
func decodeNotice(b []byte) (notice, bool) {
	if len(b) < nfgenBytes {
		return notice{}, false
	}
	b = b[nfgenBytes:]
	id, ok := number(attribute(b, unix.NFTA_GEN_ID))
	return notice{generation: id, pid: numberOf(b, unix.NFTA_GEN_PROC_PID), comm: cString(attribute(b, unix.NFTA_GEN_PROC_NAME))}, ok
}

// before is whether one generation came before another. Their numbers wrap around.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// toldOf is whether the word on a generation, or on a later one, has come.
func toldOf(generation uint32, notices []notice) bool {
	return slices.ContainsFunc(notices, func(n notice) bool { return !before(n.generation, generation) })
}

// committed says what is known of the commits that led from one generation to another: how many, when the last was done, and who made
// them, where the word on each has come and all say the same. From a generation to itself it is the last commit of all: it was read before it was done.
func committed(from, to uint32, notices []notice) Change {
	if from == to {
		from--
	}
	c := Change{Commits: to - from}
	var of []notice
	for _, n := range notices {
		if before(n.generation, to) || n.generation == to {
			if before(from, n.generation) && !n.lost {
				of = append(of, n)
			}
		}
		if !before(n.generation, to) && (c.MonoNs == 0 || n.at < c.MonoNs) {
			c.MonoNs = n.at
		}
	}
	if uint32(len(of)) != c.Commits {
		return c
	}
	c.ByPID, c.ByComm = of[0].pid, of[0].comm
	for _, n := range of {
		if n.pid != c.ByPID {
			c.ByPID = 0
		}
		if n.comm != c.ByComm {
			c.ByComm = ""
		}
	}
	return c
}
