package localcluster

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

const (
	// DefaultName is the cluster that `cluster up` makes without a name.
	DefaultName = "drainproof"
	// DefaultStateDir holds everything that belongs to local clusters.
	DefaultStateDir = "/var/lib/drainproof"
	// DefaultWorkers is the number of nodes beside the control plane.
	DefaultWorkers = 2
	// MaxWorkers is what the cluster's range of Pod addresses (one /24 per
	// node out of a /21) leaves beside the control plane, rounded down.
	MaxWorkers = 6

	// ProxyIptables and ProxyNftables are the modes of kube-proxy.
	ProxyIptables = "iptables"
	ProxyNftables = "nftables"
)

// Options say what cluster is wanted. The zero value is the default cluster.
type Options struct {
	// Name of the cluster: a DNS label of at most 40 characters.
	Name string
	// Workers is the number of nodes beside the control plane, 1 to MaxWorkers; 0 means DefaultWorkers.
	Workers int
	// ProxyMode is ProxyIptables (also when empty) or ProxyNftables.
	ProxyMode string
	// Parts say which Kubernetes and where its programs come from.
	Parts parts.Options
	// StateDir is where clusters are kept; DefaultStateDir when empty.
	StateDir string
	// Progress receives one line per step; may be nil.
	Progress func(line string)
}

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// normalize fills in the defaults and refuses what cannot be meant.
func (o Options) normalize() (Options, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if err := checkName(o.Name); err != nil {
		return o, err
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Workers < 1 || o.Workers > MaxWorkers {
		return o, fault.Usagef("choose 1 to 6 workers", "a local cluster cannot have %d workers", o.Workers)
	}
	switch o.ProxyMode {
	case "":
		o.ProxyMode = ProxyIptables
	case ProxyIptables, ProxyNftables:
	default:
		return o, fault.Usagef("choose iptables or nftables", "kube-proxy mode %q is not known", o.ProxyMode)
	}
	switch {
	case o.Parts.Version != "":
		o.Parts.Version = "v" + strings.TrimPrefix(o.Parts.Version, "v")
	case !o.fromFolder():
		o.Parts.Version = parts.DefaultVersion
	}
	if o.Parts.Progress == nil {
		o.Parts.Progress = o.Progress
	}
	dir, err := realStateDir(o.StateDir)
	o.StateDir = dir
	return o, err
}

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fault.Usagef("use lower-case letters, digits and dashes, at most 40", "%q is not a cluster name", name)
	}
	return nil
}

// realStateDir gives the absolute folder with its links resolved as far as it
// exists: the cluster's identity is derived from it.
func realStateDir(dir string) (string, error) {
	if dir == "" {
		dir = DefaultStateDir
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fault.Measuref(err, "name the state folder by its full path", "state folder %s cannot be located", dir)
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest), nil
		}
		if at == filepath.Dir(at) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// fromFolder says that the programs come from a folder, whose version decides
// when none is asked for.
func (o Options) fromFolder() bool {
	return !slices.Contains([]string{"", "auto", "download", "build"}, o.Parts.From)
}

func (o Options) say(line string) {
	if o.Progress != nil {
		o.Progress(line)
	}
}
