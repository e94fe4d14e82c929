package traffic

import "sync"

// noteQueue carries notes from whoever must not wait to whoever may be slow.
// It is without bound; a flow gives at most five notes in its life.
type noteQueue struct {
	mu     sync.Mutex
	queue  []Note
	closed bool
	wake   chan struct{}
	empty  chan struct{}
}

func newNoteQueue() *noteQueue {
	return &noteQueue{wake: make(chan struct{}, 1), empty: make(chan struct{})}
}

// done is closed once take has told its caller that there will be no more: all notes before were dealt with.
func (q *noteQueue) done() <-chan struct{} { return q.empty }

// put never blocks. Notes after close are dropped.
func (q *noteQueue) put(n Note) {
	q.mu.Lock()
	if !q.closed {
		q.queue = append(q.queue, n)
	}
	q.mu.Unlock()
	q.signal()
}

// close ends the queue after what is in it.
func (q *noteQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *noteQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for notes and takes all there are, in order; more is false after
// the last ones, and then it must not be called again.
func (q *noteQueue) take() (notes []Note, more bool) {
	for {
		q.mu.Lock()
		notes, q.queue = q.queue, nil
		closed := q.closed
		q.mu.Unlock()
		if len(notes) > 0 {
			return notes, true
		}
		if closed {
			close(q.empty)
			return nil, false
		}
		<-q.wake
	}
}
