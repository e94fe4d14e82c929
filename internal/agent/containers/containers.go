// Package containers tells which container and Pod a namespace belongs to, from the node's /proc: cgroup paths carry the Pod's UID and the
// container's id, as the kubelet and the runtime write them, on cgroup v1 and v2, with cgroupfs and systemd drivers.
//
// It remembers: what it is asked about has often just ended.
//
// It must not know Kubernetes' API or the kernel's events.
package containers

// Container is one of the node's, as its processes were found.
type Container struct {
	// PodUID is as the kubelet writes it. That of a static Pod is the 32 digits of its manifest's hash, which its mirror in the API
	// carries as the annotation kubernetes.io/config.hash, with another UID of its own. Empty where the container is in no Pod (Docker's).
	PodUID string
	// ID is the runtime's, 64 hexadecimal digits; empty where only the Pod is known.
	ID string
	// PID and Comm are those of the oldest process that was seen in it, in the PID namespace of the /proc that was read. A Pod's
	// sandbox is a container as well: its process is called pause with containerd and CRI-O.
	PID  int
	Comm string
	// NetNs, MntNs and PIDNs are the inodes of that process's namespaces; 0 where it shares the node's.
	NetNs, MntNs, PIDNs uint32
	// FirstNs and LastNs are when it was first and last seen alive, by the clock of whoever scans.
	FirstNs, LastNs int64
}

// Pod is one of the node's that has processes, or had.
type Pod struct {
	UID string
	// NetNs is the inode of its network namespace, the newest if its sandbox was made anew; 0 where it uses the node's.
	NetNs uint32
	// FirstNs and LastNs are when it was first and last seen alive.
	FirstNs, LastNs int64
}
