package localcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/osthread"
)

// importImage gives an archive to a node's containerd. It tries again while
// containerd is starting.
func importImage(ctx context.Context, p plan, n nodePlan, archive string) error {
	holder, ok := readPID(p, n, procNode)
	if !ok || !holder.alive() {
		return fault.Measuref(nil, "bring the cluster back: drainproof cluster up "+p.Name, "node %s does not run", n.Name)
	}
	return poll(ctx, pollInterval, time.Minute, func() (bool, error) {
		if err := checkAlive(p, n, procContainerd); err != nil {
			return true, err
		}
		out, err := ctrImport(ctx, holder.PID, archive, snapshotterFor(p.Dir))
		if err == nil {
			return true, nil
		}
		err = fmt.Errorf("ctr: %w: %s", err, strings.TrimSpace(out))
		// Only a containerd that does not listen yet is worth another try.
		starting := strings.Contains(out, containerdSocket) || strings.Contains(out, "connection refused") || strings.Contains(out, "Unavailable")
		return !starting, err
	})
}

func ctrImport(ctx context.Context, holder int, archive, snapshotter string) (string, error) {
	// Opened here: the node may not see the folder.
	f, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer f.Close()
	ctr, err := lookProgram("ctr")
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = osthread.Run(func() error {
		if err := enterNode(holder); err != nil {
			return err
		}
		if _, err := os.Stat(containerdSocket); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, ctr, "--address", containerdSocket, "--namespace", "k8s.io",
			"images", "import", "--snapshotter", snapshotter, "-")
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = nodeEnv(), f, &out, &out
		return cmd.Run()
	})
	if err != nil && out.Len() == 0 {
		return err.Error(), err
	}
	return out.String(), err
}
