// Package parts gets the programs of one Kubernetes version onto this machine:
// downloaded with verified checksums, built from the Go modules, or taken from
// a folder; once per version, into the user's cache.
//
// It must not know how a cluster is put together from them.
package parts

import "context"

// DefaultVersion is what `cluster up` runs without --kubernetes.
const DefaultVersion = "v1.37.2"

// Part is the name of one program.
type Part string

const (
	Etcd              Part = "etcd"
	APIServer         Part = "kube-apiserver"
	ControllerManager Part = "kube-controller-manager"
	Scheduler         Part = "kube-scheduler"
	Kubelet           Part = "kubelet"
	Proxy             Part = "kube-proxy"
	Kubectl           Part = "kubectl"
)

// Options say which version and where from.
type Options struct {
	// Version such as v1.37.2; when empty DefaultVersion, or what a folder holds.
	Version string
	// From is auto (also when empty), download, build, or a folder that holds
	// the programs. auto downloads where the mirror answers, else builds.
	From string
	// CacheDir is the tool's cache folder; the user's (os.UserCacheDir/drainproof) when empty.
	CacheDir string
	// Mirror replaces https://dl.k8s.io in tests, and for people who keep a copy.
	Mirror string
	// Progress receives one line per step, with an estimate where there is one;
	// one call at a time, not always from the caller's goroutine.
	Progress func(line string)
}

// Set is a complete set of programs of one version.
type Set struct {
	// Version such as v1.37.2; a folder's may carry its vendor's suffix (v1.37.2+k3s1).
	Version string
	// From is download, build or folder: what was done, now or earlier.
	From string
	// Dir holds one executable per part, by its name (links to one program in a build).
	Dir string
}

// Path gives the executable of one part.
func (s Set) Path(p Part) string { return s.Dir + "/" + string(p) }

// Get returns the set, from the cache when it is there. Interrupted or failed,
// it leaves nothing that a later call would take for complete.
func Get(ctx context.Context, o Options) (Set, error) { return get(ctx, o) }
