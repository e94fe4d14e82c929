package kube

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func kubeconfig(server string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: u}}]
`, server)
}

func TestConnectRefusals(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer denies.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer web.Close()
	empty := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		o    Options
		code fault.Code
		want []string // in the message or the advice
	}{
		{"no file", Options{KubeconfigPath: filepath.Join(t.TempDir(), "none")}, fault.Usage, []string{"cannot be read", "--cluster NAME"}},
		{"empty file", Options{KubeconfigPath: empty}, fault.Usage, []string{"no kubeconfig", empty, "--kubeconfig FILE"}},
		{"not YAML", Options{Kubeconfig: []byte("{")}, fault.Usage, []string{"cannot be read"}},
		{"no such context", Options{Kubeconfig: kubeconfig(closed.URL), Context: "three"}, fault.Usage, []string{`no such context "three"`, "one, two", "--context"}},
		{"nobody answers", Options{Kubeconfig: kubeconfig(closed.URL)}, fault.Unmeasurable, []string{"cannot be reached", closed.URL, "cluster list"}},
		{"credentials refused", Options{Kubeconfig: kubeconfig(denies.URL)}, fault.Unmeasurable, []string{"refuses the credentials", "log in"}},
		{"certificate not trusted", Options{Kubeconfig: kubeconfig(untrusted.URL)}, fault.Unmeasurable, []string{"cannot be trusted", "fresh kubeconfig"}},
		{"not Kubernetes", Options{Kubeconfig: kubeconfig(web.URL)}, fault.Unmeasurable, []string{"not that of a Kubernetes API server"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Connect(t.Context(), tt.o)
			if err == nil {
				t.Fatal("no error")
			}
			if c := fault.CodeOf(err); c != tt.code {
				t.Errorf("code %d, want %d: %v", c, tt.code, err)
			}
			all := err.Error() + "\n" + fault.NextOf(err)
			for _, w := range tt.want {
				if !strings.Contains(all, w) {
					t.Errorf("%q is not in %q", w, all)
				}
			}
		})
	}
}

func TestConnectUsesTheNamedContext(t *testing.T) {
	var agent string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		fmt.Fprint(w, `{"gitVersion":"v1.37.2"}`)
	}))
	defer srv.Close()
	c, err := Connect(t.Context(), Options{Kubeconfig: kubeconfig(srv.URL), Context: "two", UserAgent: "drainproof/v0"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Context() != "two" || c.Server() != srv.URL || c.version != "v1.37.2" || agent != "drainproof/v0" {
		t.Errorf("context %q, server %q, version %q, agent %q", c.Context(), c.Server(), c.version, agent)
	}
}

func TestParseProxyMode(t *testing.T) {
	const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	tests := []struct {
		name, config, mode string
		said, ok           bool
	}{
		{"said", head + "mode: nftables\n", "nftables", true, true},
		{"empty means iptables", head + "mode: \"\"\n", "iptables", false, true},
		{"absent means iptables", head, "iptables", false, true},
		{"another kind", "kind: Other\nmode: ipvs\n", "", false, false},
		{"not YAML", "\t:", "", false, false},
	}
	for _, tt := range tests {
		mode, said, err := parseProxyMode([]byte(tt.config))
		if mode != tt.mode || said != tt.said || (err == nil) != tt.ok {
			t.Errorf("%s: %q, %v, %v", tt.name, mode, said, err)
		}
	}
}
