package agent

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// costNow is what this process has taken so far.
func costNow() Cost {
	var c Cost
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		c.CPUNs = u.Utime.Nano() + u.Stime.Nano()
	}
	// The most that was resident is in no rusage of a process that a shell's fork was before it: it is inherited there.
	status, _ := os.ReadFile("/proc/self/status")
	if _, after, found := bytes.Cut(status, []byte("VmHWM:")); found {
		fields := bytes.Fields(after)
		if kib, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
			c.RSSBytes = kib << 10
		}
	}
	return c
}

// firstPIDNs is the inode of the kernel's first PID namespace (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const firstPIDNs = 0xEFFFFFFC

// ownNs is the inode of one of this process's namespaces, as /proc/self/ns names it; 0 where it cannot be read.
func ownNs(kind string) uint32 {
	var s unix.Stat_t
	if unix.Stat("/proc/self/ns/"+kind, &s) != nil {
		return 0
	}
	return uint32(s.Ino)
}
