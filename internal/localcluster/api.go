package localcluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// apiClient speaks to the API server as the cluster's administrator.
type apiClient struct {
	server string
	http   *http.Client
}

func newAPIClient(p plan) (*apiClient, error) {
	ca, err := os.ReadFile(p.pki("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the authority of cluster %s: %w", p.Name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read the authority of cluster %s: %s holds no certificate", p.Name, p.pki("ca.crt"))
	}
	pair, err := tls.LoadX509KeyPair(p.pki("admin.crt"), p.pki("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's key of cluster %s: %w", p.Name, err)
	}
	return &apiClient{server: p.server(), http: &http.Client{
		// A server that hangs must not hang the tool.
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
		},
	}}, nil
}

func (c *apiClient) close() { c.http.CloseIdleConnections() }

// statusError is an answer of the API server that is not a success.
type statusError struct {
	Method, Path string
	Code         int
	Message      string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s: HTTP %d: %s", e.Method, e.Path, e.Code, e.Message)
}

// do sends one request; out may be nil.
func (c *apiClient) do(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		var s struct{ Message string }
		if json.Unmarshal(b, &s) != nil || s.Message == "" {
			s.Message = string(b[:min(len(b), 300)])
		}
		return &statusError{method, path, resp.StatusCode, s.Message}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

func (c *apiClient) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, out)
}

// apiNode is what Up and Status read of a Node.
type apiNode struct {
	Metadata struct{ Name string }
	Status   struct {
		NodeInfo   struct{ KubeletVersion string }
		Addresses  []struct{ Type, Address string }
		Conditions []struct{ Type, Status string }
	}
}

func (n apiNode) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// nodes gives the Nodes by their name.
func (c *apiClient) nodes(ctx context.Context) (map[string]apiNode, error) {
	var list struct{ Items []apiNode }
	if err := c.get(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	m := make(map[string]apiNode, len(list.Items))
	for _, n := range list.Items {
		m[n.Metadata.Name] = n
	}
	return m, nil
}

func (c *apiClient) version(ctx context.Context) (string, error) {
	var v struct{ GitVersion string }
	err := c.get(ctx, "/version", &v)
	return v.GitVersion, err
}
