package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/localcluster"
	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

// clusterUpFlags describe a local cluster that is to be made.
type clusterUpFlags struct {
	workers               int
	proxyMode, kube, from string
	installPackages       bool
}

func (f *clusterUpFlags) bindUp(cmd *cobra.Command, prefix string) {
	fl := cmd.Flags()
	fl.IntVar(&f.workers, "workers", localcluster.DefaultWorkers, prefix+"nodes beside the control plane")
	fl.StringVar(&f.proxyMode, "proxy-mode", localcluster.ProxyIptables, prefix+"kube-proxy's mode: iptables or nftables")
	fl.StringVar(&f.kube, "kubernetes", parts.DefaultVersion, prefix+"Kubernetes version")
	fl.StringVar(&f.from, "kubernetes-from", "auto", prefix+"where its programs come from: auto, download, build, or a folder")
	fl.BoolVar(&f.installPackages, "install-packages", false, prefix+"install missing Debian packages (as root, with apt-get)")
}

// options are those of localcluster.Up.
func (f *clusterUpFlags) options(a *app, name string) (localcluster.Options, error) {
	if err := oneOf("proxy-mode", f.proxyMode, localcluster.ProxyIptables, localcluster.ProxyNftables); err != nil {
		return localcluster.Options{}, err
	}
	if err := oneOf("kubernetes-from", f.from, "auto", "download", "build"); err != nil && !isFolder(f.from) {
		return localcluster.Options{}, fault.Usagef("choose auto, download, build, or an existing folder", "--kubernetes-from %q is not known", f.from)
	}
	if f.workers < 1 || f.workers > localcluster.MaxWorkers {
		return localcluster.Options{}, fault.Usagef(fmt.Sprintf("give a number between 1 and %d", localcluster.MaxWorkers), "--workers %d is out of range", f.workers)
	}
	return localcluster.Options{
		Name: name, Workers: f.workers, ProxyMode: f.proxyMode, StateDir: a.stateDir(),
		Parts:    parts.Options{Version: f.kube, From: f.from, CacheDir: a.cacheDir(), Mirror: a.Getenv("DRAINPROOF_MIRROR")},
		Progress: func(line string) { a.progress("   %s", line) },
	}, nil
}

// up makes or finds the cluster, packages first when asked to.
func (f *clusterUpFlags) up(ctx context.Context, a *app, name string) (*localcluster.Cluster, error) {
	o, err := f.options(a, name)
	if err != nil {
		return nil, err
	}
	if err := f.prepare(ctx, a); err != nil {
		return nil, err
	}
	return localcluster.Up(ctx, o)
}

// prepare sees to it that the machine has what a local cluster needs, installs it
// when asked to, or says all that is missing at once.
func (f *clusterUpFlags) prepare(ctx context.Context, a *app) error {
	o, err := f.options(a, "")
	if err != nil {
		return err
	}
	if f.installPackages {
		packages := localcluster.MissingPackages()
		if have, err := parts.Cached(o.Parts.CacheDir); err != nil || !hasVersion(have, f.kube) {
			packages = append(packages, parts.Needs(f.from)...)
		}
		if len(packages) > 0 {
			if err := localcluster.InstallPackages(ctx, packages, o.Progress); err != nil {
				return err
			}
		}
	}
	return localcluster.Preflight(ctx, o)
}

func hasVersion(sets []parts.Set, version string) bool {
	return slices.ContainsFunc(sets, func(s parts.Set) bool { return s.Version == version })
}

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Run a real Kubernetes on this machine, without Docker",
		Long: `A local cluster is a real one: etcd, kube-apiserver, controller-manager, scheduler,
kubelet, kube-proxy, containerd and runc, each node in network and mount namespaces of
its own. It needs Linux and root, and some Debian packages that it names. All addresses
are from 198.18.0.0/15, and the host reaches all of them.`,
		Example: `  drainproof cluster up
  drainproof cluster up lab --workers 1 --proxy-mode nftables
  drainproof cluster kubeconfig lab > lab.kubeconfig
  drainproof cluster down lab`,
		Args: exactArgs(),
		RunE: a.needsSubcommand,
	}
	cmd.AddCommand(a.clusterUp(), a.clusterList(), a.clusterStatus(), a.clusterKubeconfig(), a.clusterLoadImage(), a.clusterLogs(), a.clusterDown())
	return cmd
}

// nameOf is the optional NAME argument.
func nameOf(args []string) string {
	if len(args) == 0 {
		return localcluster.DefaultName
	}
	return args[0]
}

// openNamed opens the cluster that was named, or the only one that runs, or the one of the default name.
func (a *app) openNamed(ctx context.Context, args []string) (*localcluster.Cluster, error) {
	name := nameOf(args)
	if len(args) == 0 {
		names, err := localcluster.Names(a.stateDir())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) && len(names) > 0 {
			if name, err = a.onlyLocal(ctx); err != nil {
				return nil, err
			}
		}
	}
	return localcluster.Open(a.stateDir(), name)
}

func (a *app) clusterUp() *cobra.Command {
	var f clusterUpFlags
	cmd := &cobra.Command{
		Use: "up [NAME]", Short: "Make a cluster, or find that it runs",
		Long: `Makes a cluster of one control plane and --workers nodes. The programs of Kubernetes are
downloaded from dl.k8s.io with verified checksums, or built from the Go modules where
that is not reachable (10 to 25 minutes on 2 cores), once per version. Run again, it
does nothing, or repairs what has died.`,
		Example: `  drainproof cluster up
  drainproof cluster up old --kubernetes v1.34.4 --kubernetes-from build`,
		Args: maxOneArg("the cluster's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.up(cmd.Context(), a, nameOf(args))
			if err != nil {
				return err
			}
			v, err := a.statusOf(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.printStatus(v)
		},
	}
	f.bindUp(cmd, "")
	return cmd
}

func (a *app) clusterList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the local clusters", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := localcluster.List(a.stateDir())
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
			for _, c := range all {
				s, err := c.Status(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%s\tKubernetes %s\tkube-proxy %s\t%d nodes\n", c.Name(), stateWord(s), s.Kubernetes, s.ProxyMode, len(s.Nodes))
			}
			if len(all) == 0 {
				a.progress("no local cluster")
			}
			return w.Flush()
		},
	}
}

func (a *app) clusterStatus() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Show a cluster's nodes, programs and addresses", Args: maxOneArg("the cluster's name"),
		Example: `  drainproof cluster status -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, "table", "json"); err != nil {
				return err
			}
			c, err := localcluster.Open(a.stateDir(), nameOf(args))
			if err != nil {
				return err
			}
			v, err := a.statusOf(cmd.Context(), c)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(a.Out, v)
			}
			return a.printStatus(v)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func (a *app) clusterKubeconfig() *cobra.Command {
	return &cobra.Command{
		Use: "kubeconfig [NAME]", Short: "Print a kubeconfig with the rights of an administrator", Args: maxOneArg("the cluster's name"),
		Example: `  drainproof cluster kubeconfig > lab.kubeconfig
  kubectl --kubeconfig lab.kubeconfig get nodes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.openNamed(cmd.Context(), args)
			if err != nil {
				return err
			}
			b, err := c.Kubeconfig()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(b)
			return err
		},
	}
}

func (a *app) clusterLoadImage() *cobra.Command {
	return &cobra.Command{
		Use: "load-image ARCHIVE [NAME]", Short: "Load an image archive into every node",
		Long:    "Load an OCI or docker archive (docker save, drainproof image save) into the container runtime of every node.",
		Example: `  drainproof cluster load-image app.tar`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fault.Usagef("see `"+c.CommandPath()+" --help`", "load-image takes the archive's path and, if you like, the cluster's name")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := isArchive(args[0]); err != nil {
				return err
			}
			c, err := a.openNamed(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			return c.LoadImage(cmd.Context(), args[0])
		},
	}
}

// isArchive refuses what cannot be an image archive: neither a tar file nor a compressed one.
func isArchive(path string) error {
	const next = "give an image archive, as `docker save` or `drainproof image save` writes it"
	f, err := os.Open(path)
	if err != nil {
		return fault.Usagef(next, "reading the archive: %v", err)
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fault.Usagef(next, "reading the archive: %v", err)
	}
	head = head[:n]
	// The magic numbers of gzip (RFC 1952), zstd (RFC 8878) and, in its first header, of a tar file (POSIX, pax).
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) || bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) || n == 512 && string(head[257:262]) == "ustar" {
		return nil
	}
	return fault.Usagef(next, "%s is no image archive", path)
}

func (a *app) clusterLogs() *cobra.Command {
	var node, part string
	cmd := &cobra.Command{
		Use: "logs [NAME]", Short: "List the log files of a cluster's programs, or print one", Args: maxOneArg("the cluster's name"),
		Example: `  drainproof cluster logs
  drainproof cluster logs --node drainproof-worker --part kubelet`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.openNamed(cmd.Context(), args)
			if err != nil {
				return err
			}
			logs, err := c.Logs(node, part)
			if err != nil {
				return err
			}
			if node == "" || part == "" {
				for _, l := range logs {
					fmt.Fprintln(a.Out, l.Path)
				}
				return nil
			}
			if len(logs) == 0 {
				return fault.Usagef("see `drainproof cluster logs` for those that exist", "there is no log of %s on %s", part, node)
			}
			f, err := os.Open(logs[0].Path)
			if err != nil {
				return fault.Measuref(err, "", "opening the log")
			}
			defer f.Close()
			_, err = io.Copy(a.Out, f)
			return err
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "only this node")
	cmd.Flags().StringVar(&part, "part", "", "only this program, such as kubelet")
	return cmd
}

func (a *app) clusterDown() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "down [NAME]", Short: "Remove a cluster and everything that belongs to it",
		Long: `Removes every process, mount, namespace, link, control group and file of the cluster,
also after something in it was killed. A cluster that does not exist is no error.`,
		Example: `  drainproof cluster down
  drainproof cluster down --all`,
		Args: maxOneArg("the cluster's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			names := []string{nameOf(args)}
			if all {
				if len(args) > 0 {
					return fault.Usagef("leave one out", "--all and a name exclude each other")
				}
				var err error
				if names, err = localcluster.Names(a.stateDir()); err != nil {
					return err
				}
			}
			before, err := localcluster.Names(a.stateDir())
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := localcluster.Down(cmd.Context(), a.stateDir(), name); err != nil {
					return err
				}
				switch {
				case slices.Contains(before, name):
					a.progress("cluster %s is gone", name)
				case len(before) == 0:
					a.progress("there was no cluster %s", name)
				default:
					a.progress("there was no cluster %s; there are: %s", name, strings.Join(before, ", "))
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every local cluster")
	return cmd
}
