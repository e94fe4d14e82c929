package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/jsonlines"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// closeWait bounds how long a worker may take to end once its input has ended.
const closeWait = 10 * time.Second

type dialer struct {
	version string // "" accepts any
}

// session is the coordinator's end.
type session struct {
	in        *jsonlines.Writer
	transport func() error
	queue     *noteQueue
	notes     chan Note
	offset    clock.Offset
	remote    clock.Reading

	hello   chan word
	clocks  chan clockAnswer
	opened  chan word
	onces   chan word
	batches chan request.Batch
	pending *batchQueue
	readEnd chan struct{} // closed when the reader has ended; err is set then
	once    sync.Once

	mu     sync.Mutex
	err    error
	plan   Plan
	told   map[string]*FlowReport
	status *Status
	flows  []FlowReport
	report *Report
}

type clockAnswer struct {
	id         int
	receivedNs int64
	reading    clock.Reading
}

func dial(ctx context.Context, stdout io.Reader, stdin io.Writer, closeTransport func() error, options ...Option) (*session, error) {
	var d dialer
	for _, o := range options {
		o(&d)
	}
	s := &session{
		in: jsonlines.NewWriter(stdin), transport: closeTransport, queue: newNoteQueue(), notes: make(chan Note, 64),
		hello: make(chan word, 1), clocks: make(chan clockAnswer, 1), opened: make(chan word, 1),
		onces: make(chan word, 1), batches: make(chan request.Batch, 16), pending: newBatchQueue(),
		readEnd: make(chan struct{}), told: map[string]*FlowReport{},
	}
	go s.read(stdout)
	go s.forward()
	go s.pending.forward(s.batches)
	if err := s.greet(ctx, d.version); err != nil {
		s.letGo()
		<-s.readEnd
		return nil, err
	}
	return s, nil
}

// read takes the worker's lines until they end.
func (s *session) read(stdout io.Reader) {
	err := jsonlines.Read(stdout, s.hear)
	s.mu.Lock()
	if err == nil && s.report == nil {
		err = io.ErrUnexpectedEOF
	}
	s.err = err
	s.mu.Unlock()
	s.queue.close()
	s.pending.close()
	close(s.readEnd)
}

// forward hands notes to their reader, who may be slow.
func (s *session) forward() {
	defer close(s.notes)
	for {
		notes, more := s.queue.take()
		if !more {
			return
		}
		for _, n := range notes {
			s.notes <- n
		}
	}
}

func (s *session) hear(w word) error {
	now := clock.MonoNs()
	switch w.Say {
	case "hello":
		return offer(s.hello, w)
	case "clock":
		if w.Clock == nil {
			return errors.New("a clock without a reading")
		}
		return offer(s.clocks, clockAnswer{id: w.ID, receivedNs: now, reading: *w.Clock})
	case "opened", "refused":
		return offer(s.opened, w)
	case "once":
		return offer(s.onces, w)
	case "batch":
		if w.Batch == nil {
			return errors.New("a batch without content")
		}
		s.pending.put(*w.Batch)
	case "note":
		if w.Note == nil {
			return errors.New("a note without content")
		}
		s.mu.Lock()
		remember(s.told, *w.Note)
		s.mu.Unlock()
		s.queue.put(*w.Note)
	case "status":
		s.mu.Lock()
		s.status = w.Status
		s.mu.Unlock()
	case "flows":
		s.mu.Lock()
		s.flows = append(s.flows, w.Flows...)
		s.mu.Unlock()
	case "report":
		if w.Report == nil {
			return errors.New("a report without content")
		}
		s.mu.Lock()
		s.report = w.Report
		s.report.Flows = s.flows
		limitsOrEmpty(&s.report.Health)
		s.mu.Unlock()
	default:
		return fmt.Errorf("the worker says %q, which this version does not know", w.Say)
	}
	return nil
}

// offer hands over what was asked for; a second answer is one that nobody asked for.
func offer[T any](to chan T, v T) error {
	select {
	case to <- v:
		return nil
	default:
		return errors.New("the worker said the same thing twice")
	}
}

// lost describes the end of the worker's lines.
func (s *session) lost(step string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cause := s.err
	if errors.Is(cause, io.ErrUnexpectedEOF) {
		cause = errors.New("its output ended")
	}
	return fault.Measuref(cause, "see the log of the worker's Pod; its node or the connection to it may have failed", "the client was lost while %s", step)
}

// await waits for one answer, the end of the worker, or ctx.
func await[T any](ctx context.Context, s *session, from chan T, step string) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	default:
	}
	select {
	case v = <-from:
		return v, nil
	case <-s.readEnd:
		select {
		case v = <-from: // its last words
			return v, nil
		default:
			return v, s.lost(step)
		}
	case <-ctx.Done():
		return v, fmt.Errorf("%s: %w", step, context.Cause(ctx))
	}
}

// greet compares versions and measures the clock.
func (s *session) greet(ctx context.Context, version string) error {
	hello, err := await(ctx, s, s.hello, "greeting it")
	if err != nil {
		return err
	}
	if hello.Error != "" {
		return fault.Measuref(errors.New(hello.Error), "", "the client could not start")
	}
	if hello.Protocol != protocolVersion {
		return fault.Measuref(nil, "use the image that belongs to this program (drainproof image)", "the worker speaks protocol %d, this program %d", hello.Protocol, protocolVersion)
	}
	if version != "" && hello.Version != version {
		return fault.Measuref(nil, "use the image that belongs to this program (drainproof image)", "the worker is version %q, this program %q", hello.Version, version)
	}
	exchanges := make([]clock.Exchange, 0, clockExchanges)
	for id := range clockExchanges {
		sent := clock.MonoNs()
		if err := s.in.Write(order{Do: "clock", ID: id + 1}); err != nil {
			return fault.Measuref(err, "", "asking the worker for its clock")
		}
		a, err := await(ctx, s, s.clocks, "comparing clocks")
		if err != nil {
			return err
		}
		if a.id != id+1 {
			return fault.Measuref(nil, "", "the worker answered clock question %d with %d", id+1, a.id)
		}
		exchanges = append(exchanges, clock.Exchange{SentMonoNs: sent, ReceivedMonoNs: a.receivedNs, Remote: a.reading})
	}
	s.remote = exchanges[len(exchanges)-1].Remote
	s.offset, _ = clock.Estimate(clock.BootID(), exchanges)
	return nil
}

func (s *session) Clock() (clock.Offset, clock.Reading) { return s.offset, s.remote }

func (s *session) Notes() <-chan Note { return s.notes }

func (s *session) Open(ctx context.Context, p Plan) error {
	if _, err := p.targets(); err != nil {
		return err
	}
	s.mu.Lock()
	s.plan = p
	s.mu.Unlock()
	head := p
	head.Flows = nil
	orders := []order{{Do: "plan", Plan: &head}}
	for flows := p.Flows; len(flows) > 0; {
		n := min(len(flows), chunk)
		orders = append(orders, order{Do: "flows", Flows: flows[:n]})
		flows = flows[n:]
	}
	for _, o := range append(orders, order{Do: "open"}) {
		if err := s.in.Write(o); err != nil {
			return fault.Measuref(err, "see the log of the worker's Pod", "sending the plan to the client")
		}
	}
	w, err := await(ctx, s, s.opened, "opening flows")
	switch {
	case err != nil:
		return err
	case w.Say == "refused":
		return fault.Measuref(errors.New(w.Error), "", "the client cannot hold this plan")
	case w.Failed > 0:
		more := ""
		if w.Failed > len(w.Failures) {
			more = fmt.Sprintf(" and %d more", w.Failed-len(w.Failures))
		}
		return fault.Measuref(nil, "see that the workload is ready and that nothing between it and the client forbids this traffic",
			"%d of %d flows got no first answer: %s%s", w.Failed, len(p.Flows), strings.Join(w.Failures, "; "), more)
	}
	return nil
}

func (s *session) Close(ctx context.Context) (*Report, error) {
	writeErr := s.in.Write(order{Do: "close"})
	if writeErr == nil {
		select {
		case <-s.readEnd:
		case <-ctx.Done():
		}
	}
	closeErr := s.letGo()
	select {
	case <-s.readEnd:
	case <-time.After(closeWait):
		return nil, fault.Measuref(closeErr, "", "the client's output did not end after its connection was closed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.report != nil:
		return s.report, nil
	case ctx.Err() != nil:
		return lostReport(s.plan, s.told, s.status), fault.Measuref(context.Cause(ctx), "", "waiting for the client's report")
	default:
		cause := s.err
		if cause == nil {
			cause = writeErr // both tell of the same loss, and the reader saw it first
		}
		return lostReport(s.plan, s.told, s.status), fault.Measuref(cause, "see the log of the worker's Pod; its node or the connection to it may have failed", "the client was lost before its report")
	}
}

// letGo closes the transport, once.
func (s *session) letGo() (err error) {
	s.once.Do(func() {
		if s.transport != nil {
			err = s.transport()
		}
	})
	return err
}

// startLocal runs the worker in this process, over two pipes: one protocol and one code for every vantage.
func startLocal() (*session, error) {
	ordersOut, ordersIn := io.Pipe()
	wordsOut, wordsIn := io.Pipe()
	ended := make(chan struct{})
	var served error
	go func() {
		defer close(ended)
		served = serve(context.Background(), ordersOut, wordsIn, "", 0)
		_ = wordsIn.CloseWithError(served)
		_ = ordersOut.CloseWithError(io.ErrClosedPipe)
	}()
	s, err := dial(context.Background(), wordsOut, ordersIn, func() error {
		_ = ordersIn.Close()
		_ = wordsOut.Close()
		<-ended
		return nil
	})
	if err != nil {
		<-ended
		return nil, errors.Join(served, err)
	}
	return s, nil
}
