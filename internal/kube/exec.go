package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Exec runs a command in the Pod's only container with streams attached, over
// a WebSocket, or SPDY where the API server or a proxy before it knows no WebSocket. It
// returns when the command ends: nil for exit code 0. The end of ctx ends
// the connection; the command sees its stdin close.
func (c *Cluster) Exec(ctx context.Context, namespace, pod string, command []string, stdin io.Reader, stdout, stderr io.Writer) error {
	doing := fmt.Sprintf("running %q in pod %s/%s", command[0], namespace, pod)
	url := c.client.CoreV1().RESTClient().Post().
		Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Command: command, Stdin: stdin != nil, Stdout: stdout != nil, Stderr: stderr != nil,
		}, scheme.ParameterCodec).URL()
	ws, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, url.String())
	if err != nil {
		return asking(ctx, err, "%s", doing)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, url)
	if err != nil {
		return asking(ctx, err, "%s", doing)
	}
	both, err := remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return asking(ctx, err, "%s", doing)
	}
	if err := both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr}); err != nil {
		return asking(ctx, err, "%s", doing)
	}
	return nil
}
