package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drainproof/drainproof/internal/osthread"
)

// readyLimit bounds each wait of Up. A cluster takes 10 to 25 s on 2 cores; a
// machine under load gets more.
const readyLimit = 3 * time.Minute

const pollInterval = 100 * time.Millisecond

// builder holds what the steps of one Up share.
type builder struct {
	plan     plan
	stateDir string
	state    *state
	say      func(string)
	client   *apiClient
}

// steps is what a cluster is made of, in order. Every Undo works from names
// that follow from the cluster's identity.
func (b *builder) steps() []step {
	p, r := b.plan, b.plan.remains()
	return []step{
		{
			Name: "taking the addresses " + p.Subnet.String(),
			Do:   func(context.Context) error { return writeState(b.stateDir, *b.state) },
			Undo: func(context.Context) error { return removeFiles(p.Dir) },
		},
		{
			Name: "making cgroups",
			Do:   func(context.Context) error { return b.makeCgroups() },
			Undo: func(ctx context.Context) error { return removeCgroup(ctx, r.cgroup) },
		},
		{
			Name: "making the network",
			Do:   func(context.Context) error { return makeNetwork(p) },
			Undo: func(context.Context) error { return removeNetwork(r.link, r.netnsPrefix) },
		},
		{
			Name: "writing keys and configuration",
			Do:   func(context.Context) error { return b.writeFiles() },
		},
		{
			Name: "making the nodes",
			Do:   func(context.Context) error { return b.startOn(procNode) },
			// Covers all later steps: whatever they start ends here.
			Undo: func(ctx context.Context) error { return killAll(ctx, r) },
		},
		{
			Name: "starting etcd and the API server",
			Do:   func(context.Context) error { return b.startOn(procEtcd, procAPIServer) },
		},
		{
			Name: "starting containerd",
			Do:   func(ctx context.Context) error { return b.startContainerd(ctx) },
		},
		{
			Name: "waiting for the API server",
			Do:   b.waitAPI,
		},
		{
			Name: "starting the kubelets, the controller manager and the scheduler",
			Do:   func(context.Context) error { return b.startOn(procKubelet, procControllerManager, procScheduler) },
		},
		{
			Name: "starting the proxies",
			Do:   b.startProxies,
		},
		{
			Name: "waiting until the nodes are ready",
			Do: func(ctx context.Context) error {
				if err := b.waitReady(ctx, readyLimit); err != nil {
					return err
				}
				// From here on it shares the processors with what measures it.
				hs, err := hierarchies()
				if err == nil {
					err = setShares(hs, "/"+cgroupParent, runningWeight)
				}
				if err != nil {
					return err
				}
				b.state.Phase = PhaseRunning
				return writeState(b.stateDir, *b.state)
			},
		},
	}
}

func (b *builder) close() {
	if b.client != nil {
		b.client.close()
	}
}

func (b *builder) api() (*apiClient, error) {
	if b.client == nil {
		c, err := newAPIClient(b.plan)
		if err != nil {
			return nil, err
		}
		b.client = c
	}
	return b.client, nil
}

func (b *builder) makeCgroups() error {
	hs, err := hierarchies()
	if err != nil {
		return err
	}
	all := 0
	for _, n := range b.plan.Nodes {
		if err := makeCgroup(hs, b.plan.partsCgroup(n)); err != nil {
			return err
		}
		busy := len(n.processes()) - 1
		if err := setShares(hs, b.plan.nodeCgroup(n), busy); err != nil {
			return err
		}
		all += busy
	}
	if err := setShares(hs, b.plan.cgroup(), all); err != nil {
		return err
	}
	return setShares(hs, "/"+cgroupParent, all)
}

func (b *builder) writeFiles() error {
	if err := writePKI(b.plan, time.Now()); err != nil {
		return err
	}
	for _, n := range b.plan.Nodes {
		if err := prepareNode(n); err != nil {
			return err
		}
	}
	if err := writePause(b.plan); err != nil {
		return err
	}
	bin, err := cniFolder()
	if err != nil {
		return err
	}
	return writeConfigs(b.plan, machine{CNIBin: bin, Snapshotter: snapshotterFor(b.plan.Dir)})
}

// startOn starts those programs on every node that has them, in the order of the names.
func (b *builder) startOn(names ...string) error {
	for _, name := range names {
		for _, n := range b.plan.Nodes {
			for _, has := range n.processes() {
				if has != name {
					continue
				}
				if err := start(b.plan, n, name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// startContainerd loads the pause image too, while the API server is still starting.
func (b *builder) startContainerd(ctx context.Context) error {
	if err := b.startOn(procContainerd); err != nil {
		return err
	}
	return loadImage(ctx, b.plan, b.plan.pauseArchive())
}

// checkAll fails when a program that was started has ended.
func (b *builder) checkAll() error {
	for _, n := range b.plan.Nodes {
		for _, name := range n.processes() {
			if err := checkAlive(b.plan, n, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// await polls check; a program that ends meanwhile ends the wait.
func (b *builder) await(ctx context.Context, limit time.Duration, check func() error) error {
	return poll(ctx, pollInterval, limit, func() (bool, error) {
		err := check()
		if err == nil {
			return true, nil
		}
		if gone := b.checkAll(); gone != nil {
			return true, gone
		}
		return false, err
	})
}

func (b *builder) waitAPI(ctx context.Context) error {
	api, err := b.api()
	if err != nil {
		return err
	}
	err = b.await(ctx, readyLimit, func() error { return api.get(ctx, "/readyz", nil) })
	if err != nil {
		return fmt.Errorf("the API server at %s is not ready: %w", b.plan.server(), err)
	}
	return nil
}

// startProxies starts a node's kube-proxy as soon as the Node has an address:
// earlier, it would wait in steps of seconds. It then says about the Node what
// a kubelet may not say itself.
func (b *builder) startProxies(ctx context.Context) error {
	api, err := b.api()
	if err != nil {
		return err
	}
	config, err := proxyConfigMap(b.plan)
	if err != nil {
		return fmt.Errorf("encode the proxies' configuration: %w", err)
	}
	started, published := map[string]bool{}, false
	return b.await(ctx, readyLimit, func() error {
		if !published {
			err := api.do(ctx, http.MethodPost, "/api/v1/namespaces/kube-system/configmaps", "application/json", config, nil)
			if s, ok := errors.AsType[*statusError](err); err != nil && (!ok || s.Code != http.StatusConflict) {
				return err
			}
			published = true
		}
		nodes, err := api.nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range b.plan.Nodes {
			if started[n.Name] || len(nodes[n.Name].Status.Addresses) == 0 {
				continue
			}
			if err := conntrackReady(ctx, b.plan, n); err != nil {
				return err
			}
			if err := start(b.plan, n, procProxy); err != nil {
				return err
			}
			started[n.Name] = true
			if err := b.describeNode(ctx, api, n); err != nil {
				return err
			}
		}
		if len(started) < len(b.plan.Nodes) {
			return fmt.Errorf("%d of %d nodes have registered", len(started), len(b.plan.Nodes))
		}
		return nil
	})
}

func (b *builder) describeNode(ctx context.Context, api *apiClient, n nodePlan) error {
	patch, err := nodePatch(n)
	if err != nil {
		return fmt.Errorf("encode the description of node %s: %w", n.Name, err)
	}
	return api.do(ctx, http.MethodPatch, "/api/v1/nodes/"+n.Name, "application/merge-patch+json", patch, nil)
}

// waitReady waits until every node is Ready, Pods can be made, and every
// node's kube-proxy translates the address of a Service.
func (b *builder) waitReady(ctx context.Context, limit time.Duration) error {
	api, err := b.api()
	if err != nil {
		return err
	}
	programmed := map[string]bool{}
	return b.await(ctx, limit, func() error {
		nodes, err := api.nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range b.plan.Nodes {
			if !nodes[n.Name].ready() {
				return fmt.Errorf("node %s is not ready", n.Name)
			}
		}
		if err := api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil); err != nil {
			return err
		}
		service := netip.AddrPortFrom(b.plan.apiService(), 443)
		for _, n := range b.plan.Nodes {
			if programmed[n.Name] {
				continue
			}
			if err := dialFrom(ctx, n.Netns, service); err != nil {
				return fmt.Errorf("node %s does not reach Service default/kubernetes: %w", n.Name, err)
			}
			programmed[n.Name] = true
		}
		return nil
	})
}

// dialFrom connects from a network namespace, and hangs up.
func dialFrom(ctx context.Context, netns string, to netip.AddrPort) error {
	return osthread.Run(func() error {
		if err := enterNetns(netns); err != nil {
			return err
		}
		d := net.Dialer{Timeout: time.Second}
		conn, err := d.DialContext(ctx, "tcp", to.String())
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// loadImage imports an archive on all nodes at once.
func loadImage(ctx context.Context, p plan, archive string) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range p.Nodes {
		g.Go(func() error {
			if err := importImage(ctx, p, n, archive); err != nil {
				return fmt.Errorf("load image archive %s on node %s: %w", filepath.Base(archive), n.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// cniFolder finds the plugins of the container network.
func cniFolder() (string, error) {
	for _, dir := range cniFolders {
		missing := false
		for _, plugin := range cniPlugins {
			if _, err := os.Stat(filepath.Join(dir, plugin)); err != nil {
				missing = true
			}
		}
		if !missing {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no folder has all CNI plugins %v (looked in %v)", cniPlugins, cniFolders)
}
