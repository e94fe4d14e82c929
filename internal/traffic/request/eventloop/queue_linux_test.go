package eventloop

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueIsAList compares a queue with a slice.
func TestQueueIsAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		conns := make([]*conn, 8)
		for i := range conns {
			conns[i] = &conn{index: int32(i)}
		}
		q, want := newQueue(byRequest), []int32{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			i := rapid.Int32Range(0, 7).Draw(t, "connection")
			if at := slices.Index(want, i); at >= 0 {
				q.remove(conns, conns[i])
				want = slices.Delete(want, at, at+1)
			} else {
				q.push(conns, conns[i])
				want = append(want, i)
			}
			got, backwards := []int32{}, []int32{}
			for at := q.first; at != none; at = conns[at].links[byRequest].after {
				got = append(got, at)
			}
			for at := q.last; at != none; at = conns[at].links[byRequest].before {
				backwards = append(backwards, at)
			}
			slices.Reverse(backwards)
			if !slices.Equal(got, want) || !slices.Equal(backwards, want) {
				t.Fatalf("forwards %v, backwards %v, want %v", got, backwards, want)
			}
		}
	})
}
