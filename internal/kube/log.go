package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endWithin is how long after the end of a log the API may take to show that the container ended.
const endWithin = 10 * time.Second

// ErrLogBroken is a log stream that ended while its container still ran.
var ErrLogBroken = errors.New("log stream ended before its container did")

// FollowLog calls onLine for each complete line of the log of the Pod's only
// container, from its start. It returns nil when the log ended with its container, ctx's
// error, ErrLogBroken, or what broke the stream. A line is valid only during the call.
func (c *Cluster) FollowLog(ctx context.Context, namespace, pod string, onLine func(line []byte)) error {
	doing := fmt.Sprintf("following the log of pod %s/%s", namespace, pod)
	before, err := c.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return asking(ctx, err, "%s", doing)
	}
	stream, err := c.client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return asking(ctx, err, "%s", doing)
	}
	defer stream.Close()
	rest, err := readLines(stream, onLine)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	}
	ended, err := c.hasEnded(ctx, before)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case !ended:
		return fmt.Errorf("%s: %w", doing, ErrLogBroken)
	case rest > 0:
		return fmt.Errorf("%s: %w, with %d bytes of an unfinished line", doing, ErrLogBroken, rest)
	}
	return nil
}

// readLines gives the complete lines, without their newline, and how many bytes followed the last.
func readLines(r io.Reader, onLine func([]byte)) (rest int, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var long []byte // the start of a line that does not fit the buffer
	for {
		part, err := br.ReadSlice('\n')
		switch {
		case err == nil:
			long = append(long, part[:len(part)-1]...)
			onLine(long)
			long = long[:0]
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return len(long) + len(part), nil
		default:
			return len(long) + len(part), err
		}
	}
}

// hasEnded waits until the API shows that the Pod's container ended: the log's
// end may come first. An orderly end of the stream alone proves nothing, since
// a kubelet that is stopped ends its streams in order.
func (c *Cluster) hasEnded(ctx context.Context, before *corev1.Pod) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	var first corev1.ContainerStatus
	if s := before.Status.ContainerStatuses; len(s) > 0 {
		first = s[0]
	}
	for {
		now, err := c.client.CoreV1().Pods(before.Namespace).Get(limited, before.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err == nil && (now.UID != before.UID || containerEnded(now, first.ContainerID)):
			return true, nil
		}
		if !sleep(limited, pollEvery) {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, err
		}
	}
}

// containerEnded reports whether the container with this id, or any where id is "", has terminated.
func containerEnded(p *corev1.Pod, id string) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil || s.LastTerminationState.Terminated != nil && s.ContainerID != id {
			return true
		}
	}
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}
