package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/drainproof/drainproof/internal/fault"
)

// connectTimeout is how long the first answer of the API server may take.
const connectTimeout = 10 * time.Second

// Cluster is a connection to one cluster. It is safe for concurrent use.
type Cluster struct {
	client  kubernetes.Interface
	config  *rest.Config
	context string
	version string
}

var _ API = (*Cluster)(nil)

// Clientset is the typed client, for trigger.
func (c *Cluster) Clientset() kubernetes.Interface { return c.client }

// Context is the kubeconfig's context that is in use.
func (c *Cluster) Context() string { return c.context }

// Server is the API server's URL.
func (c *Cluster) Server() string { return c.config.Host }

// quietKlog keeps the client library from writing to the terminal: what
// matters of it comes back as errors and watch health. The library's logger is one per process.
var quietKlog = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) })

// Version is the API server's, such as v1.37.2.
func (c *Cluster) Version() string { return c.version }

// Connect reads the kubeconfig, picks the context and asks the API server for
// its version. Errors are faults: no kubeconfig, no such context, no answer.
func Connect(ctx context.Context, o Options) (*Cluster, error) {
	quietKlog()
	raw, err := loadKubeconfig(o)
	if err != nil {
		return nil, err
	}
	name, err := pickContext(raw, o.Context)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fault.Usagef("mend the kubeconfig, or name another context with --context", "context %q of the kubeconfig cannot be used: %v", name, err)
	}
	config.QPS, config.Burst = 50, 100
	if len(o.Kubeconfig) > 0 {
		// A local cluster is on this machine: never through $HTTPS_PROXY.
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	config.UserAgent = o.UserAgent
	if config.UserAgent == "" {
		config.UserAgent = "drainproof"
	}
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fault.Usagef("mend the kubeconfig", "context %q of the kubeconfig cannot be used: %v", name, err)
	}
	c := &Cluster{client: client, config: config, context: name}
	if o.Confirm != nil {
		if err := o.Confirm(c.Context(), c.Server()); err != nil {
			return nil, err
		}
	}
	if c.version, err = c.askVersion(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func loadKubeconfig(o Options) (*clientcmdapi.Config, error) {
	const next = "say which cluster: --cluster NAME for a local one, --kubeconfig FILE or $KUBECONFIG for any other"
	if len(o.Kubeconfig) > 0 {
		raw, err := clientcmd.Load(o.Kubeconfig)
		if err != nil {
			return nil, fault.Usagef(next, "the kubeconfig cannot be read: %v", err)
		}
		return raw, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.KubeconfigPath
	raw, err := rules.Load()
	if err != nil {
		return nil, fault.Usagef(next, "the kubeconfig cannot be read: %v", err)
	}
	if len(raw.Contexts) == 0 && len(raw.Clusters) == 0 {
		return nil, fault.Usagef(next, "no kubeconfig: none of %s names a cluster", strings.Join(rules.GetLoadingPrecedence(), ", "))
	}
	return raw, nil
}

// pickContext gives the name of the wanted context, or of the current one.
func pickContext(raw *clientcmdapi.Config, want string) (string, error) {
	have := slices.Sorted(maps.Keys(raw.Contexts))
	list := "the kubeconfig has: " + strings.Join(have, ", ")
	if len(have) == 0 {
		list = "the kubeconfig has no contexts at all"
	}
	switch {
	case want == "" && raw.CurrentContext == "":
		return "", fault.Usagef("choose one with --context; "+list, "the kubeconfig has no current context")
	case want == "":
		want = raw.CurrentContext
	}
	if _, ok := raw.Contexts[want]; !ok {
		return "", fault.Usagef("choose one with --context; "+list, "no such context %q", want)
	}
	return want, nil
}

// askVersion is the first request to the server, so its failure says most about the connection.
func (c *Cluster) askVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err == nil {
		err = decodeJSON(body, &v)
	}
	if err == nil && v.GitVersion == "" {
		err = errors.New("the answer is not that of a Kubernetes API server: it names no version")
	}
	if err != nil {
		return "", unreachable(err, c.Server(), c.context)
	}
	return v.GitVersion, nil
}

// unreachable says why the API server did not answer, and what to do about it.
func unreachable(err error, server, contextName string) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted while asking the API server %s: %w", server, err)
	}
	what := fmt.Sprintf("the API server %s of context %q", server, contextName)
	var netErr *url.Error
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return fault.Measuref(err, "renew the credentials of this context (log in to the cluster again)", "%s refuses the credentials", what)
	case isCertificate(err):
		return fault.Measuref(err, "take a fresh kubeconfig from the cluster: this one does not trust the server's certificate", "%s cannot be trusted", what)
	case errors.As(err, &netErr) && netErr.Timeout():
		return fault.Measuref(err, "check that the cluster runs and that a VPN or firewall is not in the way", "%s does not answer within %s", what, connectTimeout)
	default:
		return fault.Measuref(err, "check that the cluster runs (`drainproof cluster list` for local ones) and that the context is the right one", "%s cannot be reached", what)
	}
}

func isCertificate(err error) bool {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok
}
