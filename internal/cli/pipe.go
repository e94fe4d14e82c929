package cli

import (
	"errors"
	"io"
	"syscall"
)

// quietPipe is a stdout whose reader may leave early, as head does. The program
// catches SIGPIPE, so that it does not die with a cluster half made; such a write
// therefore fails, with EPIPE. That is no fault of the command: it goes on, is
// read by nobody, and ends with the code that it has earned.
type quietPipe struct{ w io.Writer }

func (p *quietPipe) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// bareOut is stdout for those who must know that nobody reads it any more: what
// runs in a Pod ends with its reader, or tells of it.
func (a *app) bareOut() io.Writer {
	if p, ok := a.Out.(*quietPipe); ok {
		return p.w
	}
	return a.Out
}
