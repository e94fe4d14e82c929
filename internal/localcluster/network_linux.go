package localcluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/osthread"
)

// usedPrefixes lists what the host's own network namespace has addresses in or routes to.
func usedPrefixes() ([]netip.Prefix, error) {
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list this machine's routes: %w", err)
	}
	var used []netip.Prefix
	add := func(n *net.IPNet) {
		if n == nil {
			return
		}
		if a, ok := netip.AddrFromSlice(n.IP); ok {
			ones, _ := n.Mask.Size()
			used = append(used, netip.PrefixFrom(a.Unmap(), ones).Masked())
		}
	}
	for _, a := range addrs {
		add(a.IPNet)
	}
	for _, r := range routes {
		add(r.Dst)
	}
	return used, nil
}

// makeNetwork builds the cluster's network: a switch, a cable from it to every
// node and one to the host, addresses and routes.
func makeNetwork(p plan) error {
	sw, err := makeNetns(p.switchNetns())
	if err != nil {
		return err
	}
	defer sw.close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	if err := sw.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make the switch of cluster %s: %w", p.Name, err)
	}
	if err := sw.up("br0"); err != nil {
		return err
	}
	for i, n := range p.Nodes {
		if err := plugNode(p, n, sw, fmt.Sprintf("node%d", i)); err != nil {
			return fmt.Errorf("connect node %s: %w", n.Name, err)
		}
	}
	if err := plugHost(p, sw); err != nil {
		return fmt.Errorf("connect this machine to cluster %s: %w", p.Name, err)
	}
	return nil
}

// plugNode makes a node's namespace with eth0 in it, whose other end is port on the switch.
func plugNode(p plan, n nodePlan, sw *nsHandle, port string) error {
	node, err := makeNetns(n.Netns)
	if err != nil {
		return err
	}
	defer node.close()
	if err := node.sysctl(map[string]string{
		"net/ipv4/ip_forward": "1",
		// Replies may leave by another way than requests come in.
		"net/ipv4/conf/all/rp_filter":     "0",
		"net/ipv4/conf/default/rp_filter": "0",
	}); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "eth0"
	cable := &netlink.Veth{LinkAttrs: attrs, PeerName: port, PeerNamespace: netlink.NsFd(sw.fd)}
	if err := node.LinkAdd(cable); err != nil {
		return fmt.Errorf("make its cable: %w", err)
	}
	if err := sw.plug(port); err != nil {
		return err
	}
	if err := node.address("eth0", netip.PrefixFrom(n.Addr, 24)); err != nil {
		return err
	}
	for _, other := range p.Nodes {
		if other.Name == n.Name {
			continue
		}
		if err := node.route("eth0", other.Pods, other.Addr); err != nil {
			return err
		}
	}
	// Programs look for a default route, and a connection to a Service needs
	// some route before kube-proxy translates its address. The host does not
	// forward what arrives by it.
	return node.route("eth0", netip.MustParsePrefix("0.0.0.0/0"), p.hostAddr())
}

func plugHost(p plan, sw *nsHandle) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = p.hostLink()
	// An address that was chosen is one that udev leaves alone; the nodes must not
	// find another behind it later.
	attrs.HardwareAddr = make(net.HardwareAddr, 6)
	if _, err := rand.Read(attrs.HardwareAddr); err != nil {
		return fmt.Errorf("choose an address for link %s: %w", attrs.Name, err)
	}
	attrs.HardwareAddr[0] = attrs.HardwareAddr[0]&^1 | 2 // unicast, locally administered
	handle, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	host := &nsHandle{Handle: handle, fd: -1}
	defer host.close()
	cable := &netlink.Veth{LinkAttrs: attrs, PeerName: "host", PeerNamespace: netlink.NsFd(sw.fd)}
	if err := host.LinkAdd(cable); err != nil {
		return fmt.Errorf("make link %s: %w", attrs.Name, err)
	}
	// The cluster's traffic stays in the cluster. A program that later turns forwarding on for the whole
	// machine (Docker does) turns it on here too.
	forwarding := "/proc/sys/net/ipv4/conf/" + attrs.Name + "/forwarding"
	if err := os.WriteFile(forwarding, []byte("0"), 0o644); err != nil {
		return fmt.Errorf("keep the cluster's traffic from this machine's other networks: %w", err)
	}
	if err := sw.plug("host"); err != nil {
		return err
	}
	if err := host.address(attrs.Name, netip.PrefixFrom(p.hostAddr(), 24)); err != nil {
		return err
	}
	for _, n := range p.Nodes {
		if err := host.route(attrs.Name, n.Pods, n.Addr); err != nil {
			return err
		}
	}
	// The control plane's kube-proxy translates the host's connections to Services.
	return host.route(attrs.Name, p.services(), p.Nodes[0].Addr)
}

// nsHandle acts on the links of one network namespace.
type nsHandle struct {
	*netlink.Handle
	name string
	fd   int
}

func (h *nsHandle) close() {
	h.Close()
	if h.fd >= 0 {
		unix.Close(h.fd)
	}
}

func (h *nsHandle) up(link string) error {
	l, err := h.LinkByName(link)
	if err == nil {
		err = h.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("bring up link %s: %w", link, err)
	}
	return nil
}

// plug makes a link a port of the switch.
func (h *nsHandle) plug(link string) error {
	l, err := h.LinkByName(link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", link, err)
	}
	bridge, err := h.LinkByName("br0")
	if err != nil {
		return fmt.Errorf("find the switch: %w", err)
	}
	if err := h.LinkSetMasterByIndex(l, bridge.Attrs().Index); err != nil {
		return fmt.Errorf("plug %s into the switch: %w", link, err)
	}
	return h.up(link)
}

func (h *nsHandle) address(link string, p netip.Prefix) error {
	l, err := h.LinkByName(link)
	if err == nil {
		err = h.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)})
	}
	if err != nil {
		return fmt.Errorf("give %s to link %s: %w", p, link, err)
	}
	return h.up(link)
}

func (h *nsHandle) route(link string, to netip.Prefix, via netip.Addr) error {
	l, err := h.LinkByName(link)
	if err == nil {
		err = h.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(to), Gw: via.AsSlice()})
	}
	if err != nil {
		return fmt.Errorf("route %s via %s: %w", to, via, err)
	}
	return nil
}

func (h *nsHandle) sysctl(values map[string]string) error {
	return osthread.Run(func() error {
		if err := enterNetns(h.name); err != nil {
			return err
		}
		for key, v := range values {
			if err := os.WriteFile("/proc/sys/"+key, []byte(v), 0o644); err != nil {
				return fmt.Errorf("set %s: %w", key, err)
			}
		}
		return nil
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// makeNetns makes a named network namespace, as `ip netns add` does, and brings up its loopback.
func makeNetns(name string) (*nsHandle, error) {
	path := netnsPath(name)
	err := withSharedParent(func() error {
		if err := os.MkdirAll(netnsDir, 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		return nil, fmt.Errorf("make network namespace %s: %w", name, err)
	}
	err = osthread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return nil, fmt.Errorf("make network namespace %s: %w", name, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	handle, err := netlink.NewHandleAt(netns.NsHandle(fd))
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open netlink in network namespace %s: %w", name, err)
	}
	h := &nsHandle{Handle: handle, name: name, fd: fd}
	if err := h.up("lo"); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// removeNetwork removes whatever exists of the network. The links in the
// namespaces end with them.
func removeNetwork(link, netnsPrefix string) error {
	var errs []error
	if l, err := netlink.LinkByName(link); err == nil {
		if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("remove link %s: %w", link, err))
		}
	}
	names, err := clusterNetns(netnsPrefix)
	if err != nil {
		errs = append(errs, err)
	}
	for _, name := range names {
		path := netnsPath(name)
		// EINVAL: the file was made, the namespace not yet.
		for {
			err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if err == nil {
				continue
			}
			if !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
			}
			break
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove network namespace: %w", err))
		}
	}
	// Whoever makes a namespace makes this folder when it is missing.
	_ = unix.Rmdir(netnsDir)
	return errors.Join(errs...)
}

// clusterNetns lists the named network namespaces of a cluster.
func clusterNetns(prefix string) ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
