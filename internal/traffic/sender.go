package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// Sender is a running client that sends requests, wherever it runs. Its methods are for one goroutine.
type Sender interface {
	// Clock gives the offset of the client's clock against this process's.
	Clock() (clock.Offset, clock.Reading)
	// Once sends one request by p's mode, now, on a connection of its own.
	Once(ctx context.Context, p request.Plan) (request.Answer, error)
	// Start begins to send p, and returns when the client has begun.
	Start(ctx context.Context, p request.Plan) error
	// Batches gives what was sent and became of it, a few times a second, and is closed when the session
	// has ended. It must be read until then.
	Batches() <-chan request.Batch
	// Stop ends the schedule, waits for what is under way and for the last batch, and ends the session. An
	// error says that the client was lost; what the batches told remains true.
	Stop(ctx context.Context) (record.ClientHealth, error)
}

// StartLocalSender runs a client that sends in this process.
func StartLocalSender() (Sender, error) {
	s, err := startLocal()
	if err != nil {
		return nil, err // no pointer that is nil inside an interface that is not
	}
	return s, nil
}

// DialSender is Dial for requests.
func DialSender(ctx context.Context, stdout io.Reader, stdin io.Writer, closeTransport func() error, options ...Option) (Sender, error) {
	s, err := dial(ctx, stdout, stdin, closeTransport, options...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// batchQueue carries batches from the reader of lines, which must not wait, to whoever may be slow.
type batchQueue struct {
	mu     sync.Mutex
	items  []request.Batch
	closed bool
	wake   chan struct{}
}

func newBatchQueue() *batchQueue { return &batchQueue{wake: make(chan struct{}, 1)} }

func (q *batchQueue) put(b request.Batch) {
	q.mu.Lock()
	q.items = append(q.items, b)
	q.mu.Unlock()
	q.signal()
}

func (q *batchQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *batchQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// forward hands all batches over, in order, until the queue is closed and empty.
func (q *batchQueue) forward(to chan<- request.Batch) {
	defer close(to)
	for {
		q.mu.Lock()
		items, closed := q.items, q.closed
		q.items = nil
		q.mu.Unlock()
		for _, b := range items {
			to <- b
		}
		if len(items) == 0 {
			if closed {
				return
			}
			<-q.wake
		}
	}
}

func (s *session) Batches() <-chan request.Batch { return s.batches }

func (s *session) Once(ctx context.Context, p request.Plan) (request.Answer, error) {
	if err := s.in.Write(order{Do: "once", Requests: &p}); err != nil {
		return request.Answer{}, fault.Measuref(err, "see the log of the worker's Pod", "asking the client for one request")
	}
	w, err := await(ctx, s, s.onces, "sending one request")
	if err != nil {
		return request.Answer{}, err
	}
	if w.Error != "" {
		return request.Answer{}, fault.Measuref(errors.New(w.Error), "", "the client cannot send this request")
	}
	if w.Answer == nil {
		return request.Answer{}, fault.Measuref(nil, "", "the client said nothing of its request")
	}
	return *w.Answer, nil
}

func (s *session) Start(ctx context.Context, p request.Plan) error {
	if err := s.in.Write(order{Do: "requests", Requests: &p}); err != nil {
		return fault.Measuref(err, "see the log of the worker's Pod", "sending the plan to the client")
	}
	w, err := await(ctx, s, s.opened, "starting requests")
	if err != nil {
		return err
	}
	if w.Say == "refused" {
		return fault.Measuref(errors.New(w.Error), "", "the client cannot send this plan")
	}
	return nil
}

func (s *session) Stop(ctx context.Context) (record.ClientHealth, error) {
	r, err := s.Close(ctx)
	if r == nil {
		r = &Report{}
	}
	limitsOrEmpty(&r.Health)
	return r.Health, err
}

// The worker's side.

const (
	// batchSamples and batchFailures keep a batch's line well below jsonlines.MaxLine.
	batchSamples  = 5000
	batchFailures = 100
	batchEvery    = 250 * time.Millisecond
)

// sending is the part of a worker that sends requests.
type sending struct {
	// collector is nil until requests are sent; only the reader of orders looks.
	collector *request.Collector
	// stop stops the engine, once; guarded by the worker's mu.
	stop func()
	// telling keeps a batch from being written after the report.
	telling sync.Mutex
	told    chan struct{}
}

func (w *worker) startRequests(ctx context.Context, p *request.Plan) error {
	switch {
	case p == nil:
		return errors.New("an order to send requests without a plan")
	case w.opened:
		return errors.New("a second order to open")
	}
	w.opened = true
	c := request.NewCollector(*p)
	e, err := startEngine(*p, c)
	if err != nil {
		return w.out.Write(word{Say: "refused", Error: err.Error()})
	}
	w.collector, w.told = c, make(chan struct{})
	w.mu.Lock()
	w.stop = sync.OnceFunc(e.Stop)
	w.mu.Unlock()
	w.tasks.Go(func() {
		t := time.NewTicker(batchEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.told:
				return
			case <-t.C:
				_ = w.tellBatches(c) // a coordinator that is gone shows itself by the end of in
			}
		}
	})
	return w.out.Write(word{Say: "opened"})
}

func (w *worker) stopSending() {
	w.mu.Lock()
	stop := w.stop
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// tellBatches writes what the collector holds; all of it.
func (w *worker) tellBatches(c *request.Collector) error {
	w.telling.Lock()
	defer w.telling.Unlock()
	for more := true; more; {
		var b request.Batch
		b, more = c.Take(batchSamples, batchFailures)
		if b.Count == 0 && len(b.Failures) == 0 && b.Reconnects == 0 {
			return nil
		}
		if err := w.out.Write(word{Say: "batch", Batch: &b}); err != nil {
			return err
		}
	}
	return nil
}

// concludeRequests waits for what is under way and writes the last batches and the report.
func (w *worker) concludeRequests() error {
	w.stopSending()
	close(w.told)
	if err := w.tellBatches(w.collector); err != nil {
		return err
	}
	return w.out.Write(word{Say: "report", Report: &Report{Health: w.collector.Health()}})
}

// once sends one request. It runs beside the reading of orders, as it may take a while.
func (w *worker) once(ctx context.Context, p *request.Plan) error {
	if p == nil {
		return errors.New("an order to send one request without a plan")
	}
	w.tasks.Go(func() {
		say := word{Say: "once"}
		if a, err := sendOnce(ctx, *p); err != nil {
			say.Error = err.Error()
		} else {
			say.Answer = &a
		}
		_ = w.out.Write(say) // a coordinator that is gone shows itself by the end of in
	})
	return nil
}

// errUnknownMode is for a plan of a newer coordinator.
func errUnknownMode(m request.Mode) error {
	return fmt.Errorf("this client does not know the mode %q", m)
}
