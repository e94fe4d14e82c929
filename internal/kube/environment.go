package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// Where kubeadm, and what follows its layout, keeps kube-proxy's configuration.
const (
	proxyConfigMap = "kube-proxy"
	proxyConfigKey = "config.conf"
)

// Environment fills what the cluster knows of itself: Kubernetes, ProxyMode,
// ProxyModeFrom, ClusterUID, Context and Nodes. The other fields are left alone.
func (c *Cluster) Environment(ctx context.Context) (record.Environment, error) {
	env := record.Environment{Kubernetes: c.version, Context: c.context}
	system, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return env, asking(ctx, err, "reading namespace kube-system, whose UID names the cluster")
	}
	env.ClusterUID = string(system.UID)
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return env, asking(ctx, err, "listing nodes")
	}
	for _, n := range nodes.Items {
		i := n.Status.NodeInfo
		env.Nodes = append(env.Nodes, record.Node{
			Name: n.Name, Kubelet: i.KubeletVersion, Kernel: i.KernelVersion,
			ContainerRuntime: i.ContainerRuntimeVersion, OSImage: i.OSImage, BootID: i.BootID,
		})
	}
	env.ProxyMode, env.ProxyModeFrom = c.proxyMode(ctx)
	return env, nil
}

// proxyMode reads the data plane's mode where kube-proxy's configuration is
// kept; a mode that cannot be read is nil, and from says why.
func (c *Cluster) proxyMode(ctx context.Context) (mode *string, from string) {
	where := "ConfigMap " + metav1.NamespaceSystem + "/" + proxyConfigMap
	cm, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, proxyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, "not readable: no " + where + " (another data plane, or kube-proxy is set up otherwise)"
	case apierrors.IsForbidden(err):
		return nil, "not readable: no right to get " + where
	case err != nil:
		return nil, "not readable: " + where + ": " + err.Error()
	}
	text, ok := cm.Data[proxyConfigKey]
	if !ok {
		return nil, "not readable: " + where + " has no " + proxyConfigKey
	}
	m, said, err := parseProxyMode([]byte(text))
	if err != nil {
		return nil, "not readable: " + where + ", " + proxyConfigKey + ": " + err.Error()
	}
	from = where + ", " + proxyConfigKey
	if !said {
		from += " (mode is empty, which means iptables on Linux)"
	}
	return &m, from
}

// parseProxyMode reads a KubeProxyConfiguration. said is false where the mode is left to the default.
func parseProxyMode(config []byte) (mode string, said bool, err error) {
	var c struct {
		Kind string `json:"kind"`
		Mode string `json:"mode"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return "", false, err
	}
	if c.Kind != "KubeProxyConfiguration" {
		return "", false, fmt.Errorf("kind is %q, not KubeProxyConfiguration", c.Kind)
	}
	if c.Mode == "" {
		return "iptables", false, nil
	}
	return c.Mode, true, nil
}

func decodeJSON(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the answer is not that of a Kubernetes API server: %w", err)
	}
	return nil
}

// asking wraps the failure of one request: an ended context stays what it is,
// everything else becomes a fault that says what to do.
func asking(ctx context.Context, err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case apierrors.IsForbidden(err):
		return fault.Measuref(err, "its words say whether a right, a quota or a policy stands in the way; docs/permissions.md lists the rights",
			"%s: the API server refuses it", doing)
	case apierrors.IsUnauthorized(err):
		return fault.Measuref(err, "renew the credentials of this context (log in to the cluster again)", "%s", doing)
	default:
		return fault.Measuref(err, "check that the API server answers, then try again", "%s", doing)
	}
}
