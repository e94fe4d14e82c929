package eventloop

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// TestArrivalIsTheKernels: a client that looks late does not make the server slow.
func TestArrivalIsTheKernels(t *testing.T) {
	t.Parallel()
	said := make(chan struct{})
	s := serve(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		for heard(in) {
			say(c, hello)
			said <- struct{}{}
		}
	})
	d := drive(t, plan(request.KeepAlive, s.address, 1), nil)
	// The kernel begins to stamp a moment after it was asked to, so one of some requests must do.
	for end := time.Now().Add(patience); time.Now().Before(end); {
		d.request()
		<-said
		said := d.clock.MonoNs() // and on loopback that is when it arrived
		time.Sleep(2 * time.Millisecond)
		if r := d.ended(t, len(d.list)+1); r[len(r)-1].EndedNs <= said {
			wantAnswered(t, r, 200)
			return
		}
	}
	t.Error("every answer counts from when it was read")
}

// TestArrivedNs: whatever the wall clock does, an answer comes after its request and not in the future.
func TestArrivedNs(t *testing.T) {
	t.Parallel()
	e := &engine{clock: clock.NewStopwatch(), aheadNs: 1_000_000_000_000}
	e.lookNs = e.clock.MonoNs()
	c := &conn{sentNs: e.lookNs - 1000}
	for name, at := range map[string]struct{ wallNs, want int64 }{
		"not stamped":        {0, e.lookNs},
		"in between":         {e.lookNs - 500 + e.aheadNs, e.lookNs - 500},
		"before the request": {e.lookNs - 5000 + e.aheadNs, c.sentNs},
	} {
		if got := e.arrivedNs(c, at.wallNs); got != at.want {
			t.Errorf("%s: %d, want %d", name, got, at.want)
		}
	}
	future := e.lookNs + int64(time.Hour)
	if got := e.arrivedNs(c, future+e.aheadNs); got < e.lookNs || got >= future {
		t.Errorf("in the future: %d ns after the look", got-e.lookNs)
	}
}
