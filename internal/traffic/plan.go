package traffic

import (
	"net/netip"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// maxFlows bounds one client: a descriptor each, and a machine's ports towards one address.
const maxFlows = 60_000

// target is a flow's address, read.
type target struct {
	id       string
	protocol record.Protocol
	remote   netip.AddrPort
}

// targets checks a plan and reads its addresses.
func (p Plan) targets() ([]target, error) {
	if p.HeartbeatNs <= 0 || p.ReadTimeoutNs <= 0 || p.ConnectTimeoutNs <= 0 {
		return nil, fault.Usagef("give durations above 0s", "heartbeat, read timeout or connect timeout is not positive")
	}
	if len(p.Flows) == 0 || len(p.Flows) > maxFlows {
		return nil, fault.Usagef("plan 1 to 60000 flows for one client", "a client cannot hold %d flows", len(p.Flows))
	}
	seen := make(map[string]bool, len(p.Flows))
	out := make([]target, 0, len(p.Flows))
	for _, f := range p.Flows {
		if f.ID == "" || seen[f.ID] {
			return nil, fault.Usagef("give each flow an id of its own", "flow id %q is empty or used twice", f.ID)
		}
		seen[f.ID] = true
		if f.Protocol != record.TCP && f.Protocol != record.UDP {
			return nil, fault.Usagef("choose tcp or udp", "flow %s has the unknown protocol %q", f.ID, f.Protocol)
		}
		remote, err := netip.ParseAddrPort(f.Address)
		if err != nil || remote.Port() == 0 {
			return nil, fault.Usagef("give IP:port, such as 192.0.2.1:7001", "flow %s has the address %q", f.ID, f.Address)
		}
		out = append(out, target{id: f.ID, protocol: f.Protocol, remote: netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())})
	}
	return out, nil
}
