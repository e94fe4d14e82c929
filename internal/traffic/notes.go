package traffic

import "sync"

// chunkNotes is how many notes lie together. Chunks, unlike one growing slice, are
// never copied: that would hold up whoever puts notes just when there are many.
const chunkNotes = 256

// noteQueue carries notes from whoever must not wait to whoever may be slow.
// It is without bound; a flow gives at most five notes in its life.
type noteQueue struct {
	mu     sync.Mutex
	chunks [][]Note
	length int
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
		last := len(q.chunks) - 1
		if last < 0 || len(q.chunks[last]) == chunkNotes {
			q.chunks = append(q.chunks, make([]Note, 0, chunkNotes))
			last++
		}
		q.chunks[last] = append(q.chunks[last], n)
		q.length++
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

// waiting is how many notes nobody has taken.
func (q *noteQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length
}

// take waits for notes and takes the oldest ones, in order; more is false after
// the last ones, and then it must not be called again.
func (q *noteQueue) take() (notes []Note, more bool) {
	for {
		q.mu.Lock()
		if len(q.chunks) > 0 {
			notes, q.chunks = q.chunks[0], q.chunks[1:]
			q.length -= len(notes)
		}
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
