// Package localcluster runs a real Kubernetes on this machine: a control plane
// and workers as network and mount namespaces, without Docker, as root on Linux.
//
// It must not know what a cluster is used for, nor import k8s.io/*: it speaks
// to the API server in plain HTTP. The programs come from package parts.
//
// A cluster is a plan (names and addresses, pure data) and a list of steps,
// each with its undo. Down runs every undo and needs nothing but the cluster's
// name and the folder of its state, so it also works after a kill -9 of
// anything. Everything that a node mounts lives in a mount namespace of the
// node's own and ends with its last process; everything else has a name that
// follows from the cluster's identity.
package localcluster
