package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
)

// hookTimeout bounds the hook's call: a server on the same host that takes longer does not answer.
const hookTimeout = 10 * time.Second

// Hook is a preStop hook: it calls url, which must answer with a status from 200 to 299, and then sleeps. ctx ends it early, which is an error.
func Hook(ctx context.Context, url string, sleep time.Duration) error {
	if err := call(ctx, url); err != nil {
		return fault.Measuref(err, "see that the probe listens there, and its log", "calling %s", url)
	}
	t := time.NewTimer(sleep)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.Measuref(context.Cause(ctx), "", "sleeping for %v after the call", sleep)
	}
}

func call(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	// No proxy of the environment stands between a hook and its own Pod, and no connection outlives the call.
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, requestLimit))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("it answered with %s", res.Status)
	}
	return nil
}
