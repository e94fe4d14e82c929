package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/jsonlines"
)

const (
	statusEvery = time.Second
	noteStep    = 2 * time.Millisecond
	noteSteps   = 150
	manyNotes   = 10 // in one step
	noteBuffer  = 32 << 10
)

// worker is one run of Serve.
type worker struct {
	out    *jsonlines.Writer
	notes  *noteQueue
	plan   Plan
	opened bool
	tasks  sync.WaitGroup
	// mu guards holder and the engine in sending, which serve lets go of beside the reader of orders.
	mu     sync.Mutex
	holder holder
	sending
}

// hold keeps the engine, so that it is let go of at the end, whoever ends first.
func (w *worker) hold(h holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder = h
}

func (w *worker) held() holder {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holder
}

// errDone ends the reading of orders after the report.
var errDone = errors.New("done")

func serve(ctx context.Context, in io.Reader, out io.Writer, version string, lifetime time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if lifetime > 0 {
		ctx, cancel = context.WithTimeout(ctx, lifetime)
		defer cancel()
	}
	w := &worker{out: jsonlines.NewWriter(out), notes: newNoteQueue()}
	now := clock.Read()
	if err := w.out.Write(word{Say: "hello", Protocol: protocolVersion, Version: version, PID: os.Getpid(), Clock: &now}); err != nil {
		return err
	}
	w.tasks.Go(w.tellNotes)

	var err error
	read := make(chan error, 1)
	go func() { read <- jsonlines.Read(in, func(o order) error { return w.obey(ctx, o) }) }()
	select {
	case err = <-read:
	case <-ctx.Done():
		err = fmt.Errorf("the worker's time is over: %w", context.Cause(ctx))
		if c, ok := in.(io.Closer); ok {
			_ = c.Close()
			select {
			case <-read:
			case <-time.After(time.Second):
				// A blocking descriptor (a terminal as stdin) cannot be interrupted; the process ends with this error.
			}
		}
	}
	cancel()
	w.stopSending()
	if h := w.held(); h != nil {
		h.Close()
	}
	w.notes.close()
	w.tasks.Wait()
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

func (w *worker) obey(ctx context.Context, o order) error {
	switch o.Do {
	case "clock":
		r := clock.Read()
		return w.out.Write(word{Say: "clock", ID: o.ID, Clock: &r})
	case "plan":
		if o.Plan == nil {
			return errors.New("an order to plan without a plan")
		}
		w.plan = *o.Plan
	case "flows":
		if len(w.plan.Flows)+len(o.Flows) > maxFlows {
			return errors.New("a plan of too many flows")
		}
		w.plan.Flows = append(w.plan.Flows, o.Flows...)
	case "open":
		return w.open(ctx)
	case "once":
		return w.once(ctx, o.Requests)
	case "requests":
		return w.startRequests(ctx, o.Requests)
	case "close":
		return w.close()
	default:
		return fmt.Errorf("unknown order %q", o.Do)
	}
	return nil
}

func (w *worker) open(ctx context.Context) error {
	if w.opened {
		return errors.New("a second order to open")
	}
	w.opened = true
	h, err := newEngine(w.notes.put)
	if err != nil {
		return w.out.Write(word{Say: "refused", Error: err.Error()})
	}
	w.hold(h)
	done := make(chan []string, 1)
	if err := h.Open(w.plan, func(failures []string) { done <- failures }); err != nil {
		return w.out.Write(word{Say: "refused", Error: err.Error()})
	}
	w.plan = Plan{}
	w.tasks.Go(func() {
		t := time.NewTicker(statusEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case failures := <-done:
				_ = w.out.Write(word{Say: "opened", Failed: len(failures), Failures: failures[:min(len(failures), failuresTold)]})
			case <-t.C:
				s := h.Status()
				// A coordinator that is gone shows itself by the end of in.
				_ = w.out.Write(word{Say: "status", Status: &s})
			}
		}
	})
	return nil
}

// tellNotes writes notes until the queue is closed and empty. The first is
// told at once. While very many come, as when all flows end together, they are left to gather, for
// 300 ms at most: telling would compete for the processors with noticing.
func (w *worker) tellNotes() {
	var buf []byte
	for {
		notes, more := w.notes.take()
		if !more {
			return
		}
		for i := range notes {
			b, err := json.Marshal(word{Say: "note", Note: &notes[i]})
			if err != nil {
				panic("traffic: a note of plain fields cannot be encoded: " + err.Error())
			}
			buf = append(append(buf, b...), '\n')
			if len(buf) > noteBuffer || i == len(notes)-1 {
				_ = w.out.WriteBytes(buf) // a coordinator that is gone shows itself by the end of in
				buf = buf[:0]
			}
		}
		for range noteSteps {
			before := w.notes.waiting()
			time.Sleep(noteStep)
			if w.notes.waiting()-before < manyNotes {
				break
			}
		}
	}
}

// close writes the report, after all notes.
func (w *worker) close() error {
	if w.collector != nil {
		if err := w.concludeRequests(); err != nil {
			return err
		}
		return errDone
	}
	r := &Report{} // of a session that was never opened
	if h := w.held(); h != nil {
		if r = h.Close(); r == nil {
			return errors.New("a second order to close")
		}
	}
	w.notes.close()
	<-w.notes.done()
	for flows := r.Flows; len(flows) > 0; {
		n := min(len(flows), chunk)
		if err := w.out.Write(word{Say: "flows", Flows: flows[:n]}); err != nil {
			return err
		}
		flows = flows[n:]
	}
	if err := w.out.Write(word{Say: "report", Report: r.blank()}); err != nil {
		return err
	}
	return errDone
}
