//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/drainproof/drainproof/internal/testkit"
)

// dnsQuery asks for the address of drainproof.example.
const dnsQuery = "base64:EjQBAAABAAAAAAAACmRyYWlucHJvb2YHZXhhbXBsZQAAAQAB"

// serversImage loads the image of the servers of docs/servers.md into the shared cluster.
var serversImage = sync.OnceValue(func() error {
	cmd := exec.Command("../../servers/image.sh")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	archive, err := cmd.Output()
	if err != nil {
		return errors.New("servers/image.sh: " + err.Error() + "\n" + errOut.String())
	}
	if out, err := exec.Command(program, "cluster", "load-image", strings.TrimSpace(string(archive)), clusterName).CombinedOutput(); err != nil {
		return errors.New(string(out))
	}
	return nil
})

// deployServers brings the named Deployments of servers/manifests up, as they are but for a grace period that a test can wait for.
func deployServers(t *testing.T, names ...string) {
	t.Helper()
	cluster(t)
	testkit.Require(t, testkit.Program("apt-get"), testkit.Program("dpkg-deb"))
	if err := serversImage(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../servers/manifests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n" + strings.NewReplacer("\n  replicas: 2\n", "\n  replicas: 0\n", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 12").Replace(string(text)))
	}
	file := filepath.Join(t.TempDir(), "servers.yaml")
	if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = kubectlTry(t, clusterName, "delete", "namespace", "servers", "--wait=false") })
	kubectl(t, clusterName, "create", "namespace", "servers")
	kubectl(t, clusterName, "apply", "-f", file)
	kubectl(t, clusterName, append([]string{"-n", "servers", "scale", "deployment", "--replicas=2"}, names...)...)
	for _, n := range names {
		kubectl(t, clusterName, "-n", "servers", "rollout", "status", "deployment", n, "--timeout=120s")
	}
}

// TestE2EServers: a rolling restart of servers that others wrote. As they come, requests are lost; with the remedy of their own documentation, and a preStop
// sleep for the nodes, none is. dnsmasq has no remedy of its own: only its loss is demanded. docs/servers.md has the numbers.
func TestE2EServers(t *testing.T) {
	trials := []struct {
		deployment, mode string
		loses            bool
	}{
		{"nginx-term", "new-connection", true},
		{"nginx-quit-sleep", "new-connection", false},
		{"haproxy-term", "new-connection", true},
		{"haproxy-usr1-sleep", "keep-alive", false},
		{"httpd-term", "new-connection", true},
		{"httpd-winch-sleep", "new-connection", false},
		{"node-init", "new-connection", true},
		{"node-announce-sleep", "new-connection", false},
		{"gunicorn-sleep", "new-connection", false},
		{"go-plain", "new-connection", true},
		{"go-shutdown-sleep", "new-connection", false},
		{"dnsmasq-term", "udp", true},
	}
	names := []string{"app"}
	for _, tt := range trials {
		names = append(names, tt.deployment)
	}
	deployServers(t, names...)
	t.Run("rollout", func(t *testing.T) { // ends when all of them have ended
		for _, tt := range trials {
			t.Run(tt.deployment, func(t *testing.T) {
				t.Parallel()
				out := filepath.Join(t.TempDir(), "r")
				args := testArgs("servers", "deploy/"+tt.deployment, "--mode", tt.mode, "--rate", "50", "--out", out)
				if strings.HasSuffix(tt.deployment, "-sleep") {
					args = append(args, "--after", "10s") // to the end of the last Pod
				}
				switch server, _, _ := strings.Cut(tt.deployment, "-"); server {
				case "nginx", "httpd":
					args = append(args, "--http-path", "/page.txt")
				case "dnsmasq":
					args = append(args, "--data", dnsQuery)
				}
				code := 0
				if tt.loses {
					code = 1
				}
				r := do(t, args...)
				rec := readRecord(t, out)
				endsAs(t, rec, code, r.code, r.errOut)
				if failed := rec.Requests.Failed; (failed > 0) != tt.loses {
					t.Errorf("%d of %d requests failed: %v", failed, rec.Requests.Total, rec.Requests.Outcomes)
				}
			})
		}
	})
	noNamespaceLeft(t, clusterName)
}
