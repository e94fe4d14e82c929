// Package containers tells which container and Pod a namespace belongs to, from the node's /proc: cgroup paths carry the Pod's UID and the
// container's id, as the kubelet and the runtime write them, on cgroup v1 and v2, with cgroupfs and systemd drivers.
//
// It must not know Kubernetes' API or the kernel's events.
package containers
