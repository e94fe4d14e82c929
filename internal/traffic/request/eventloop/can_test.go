package eventloop

import (
	"runtime"
	"testing"

	"github.com/drainproof/drainproof/internal/traffic/request"
)

func TestCan(t *testing.T) {
	linux := runtime.GOOS == "linux"
	for _, c := range []struct {
		mode         request.Mode
		scheme, host string
		want         bool
	}{
		{request.NewConnection, "http", "10.0.0.1", linux},
		{request.KeepAlive, "http", "::1", linux},
		{request.NewConnection, "https", "10.0.0.1", false},
		{request.NewConnection, "http", "web.shop", false},
		{request.HTTP2, "http", "10.0.0.1", false},
		{request.TCP, "tcp", "10.0.0.1", false},
	} {
		p := request.Plan{Mode: c.mode, Target: request.Target{Scheme: c.scheme, Host: c.host}}
		if got := Can(p); got != c.want {
			t.Errorf("%s to %s://%s: %v", c.mode, c.scheme, c.host, got)
		}
	}
}
