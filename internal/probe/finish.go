package probe

import (
	"context"
	"os"
	"sync"
)

// finish stops accepting, ends what is kept, waits for what is in flight, and
// exits as soon as nothing is, or when the window is over. UDP goes on until then.
func (p *probe) finish(ctx context.Context, signals <-chan os.Signal) {
	_ = p.tcp.listener.Close()
	p.log.now(LogListenerClosed, map[string]any{"listener": "tcp", "address": p.tcp.listener.Addr().String()})
	_ = p.http.listener.Close()
	p.log.now(LogListenerClosed, map[string]any{"listener": "http", "address": p.http.listener.Addr().String()})
	p.log.now(LogDrainBegan, map[string]any{
		"window_ns": p.config.DrainWindow.Nanoseconds(), "connections": len(p.tcp.all()), "requests": p.http.active.Load(), "announce": p.config.Announce,
	})

	window, cancel := context.WithTimeout(ctx, p.config.DrainWindow)
	defer cancel()
	var ending sync.WaitGroup
	finished := make(chan struct{})
	ending.Go(func() {
		defer close(finished)
		var ends sync.WaitGroup
		ends.Go(func() { p.tcp.finish() })
		ends.Go(func() { p.http.finish(window, p.config.Announce) })
		ends.Wait()
	})
	for open := true; open; {
		select {
		case <-finished:
			open = false
		case <-window.Done():
			open = false
		case sig := <-signals:
			p.log.now(LogSigterm, map[string]any{"signal": sig.String(), "during": "finish"})
		}
	}
	p.log.now(LogDrainEnded, map[string]any{"requests": p.http.active.Load()})
	p.leave(false)
	ending.Wait()
}
