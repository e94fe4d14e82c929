package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/drainproof/drainproof/internal/osthread"
)

// conntrackKey appears in a network namespace once the kernel tracks connections.
const conntrackKey = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established"

// conntrackReady sees to it that the kernel's connection tracking is there
// before a kube-proxy starts: it sets this key first of all and ends if it is missing, which it is on a
// fresh machine until something loads the module. An error asks the caller to try again.
func conntrackReady(ctx context.Context, p plan, n nodePlan) error {
	holder, ok := readPID(p, n, procNode)
	if !ok {
		return fmt.Errorf("node %s does not run", n.Name)
	}
	there := func() error {
		return osthread.Run(func() error {
			if err := enterNode(holder.PID); err != nil {
				return err
			}
			_, err := os.Stat(conntrackKey)
			return err
		})
	}
	if there() == nil {
		return nil
	}
	if modprobe, err := lookProgram("modprobe"); err == nil {
		_ = exec.CommandContext(ctx, modprobe, "nf_conntrack").Run() // the look after it decides
	}
	if err := there(); err != nil {
		return fmt.Errorf("connection tracking is not there yet: %w", err)
	}
	return nil
}
