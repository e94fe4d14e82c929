package eventloop

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/traffic/request"
)

// TestAgendaGivesEachOnce: loops that take at the same time share the requests, and none is taken after the end.
func TestAgendaGivesEachOnce(t *testing.T) {
	t.Parallel()
	const loops, last = 4, 10_000
	a := newAgenda(request.NewSchedule(0, 0, 1e9)) // request k is due at k
	if _, _, ok := a.take(-1); ok {
		t.Error("a request was taken before it was due")
	}
	a.end(last)
	a.end(2 * last) // too late to matter
	var taken [loops][]int64
	var all sync.WaitGroup
	for i := range loops {
		all.Go(func() {
			for {
				k, dueNs, ok := a.take(never - 1)
				if !ok {
					return
				}
				if dueNs != k {
					t.Errorf("request %d is due at %d", k, dueNs)
				}
				taken[i] = append(taken[i], k)
			}
		})
	}
	all.Wait()
	list := slices.Sorted(slices.Values(slices.Concat(taken[:]...)))
	if len(list) != last+1 || list[0] != 0 || list[last] != last || len(slices.Compact(list)) != last+1 {
		t.Errorf("%d requests were taken, %d of them different", len(list), len(slices.Compact(list)))
	}
	if a.owes() || !a.ended() {
		t.Error("the agenda is not at its end")
	}
}

// TestStandbyTakesOver: while one loop is held up, the other sends what is due, and both end with the schedule.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	s := serve(t, answering)
	p := plan(request.NewConnection, s.address, 5000)
	p.Users = 7
	sink := newResults()
	const others = 200
	sink.first = func() { // on the loop that came first: it is held up until the other one has sent without it
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if list, _ := sink.take(); len(list) > others {
				return
			}
		}
		t.Error("nobody sent while one loop was held up")
	}
	first, err := newEngine(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	limit := first.limit
	second, err := first.standby()
	if err != nil {
		t.Fatal(err)
	}
	if first.limit+second.limit > limit {
		t.Errorf("%d and %d sockets of %d", first.limit, second.limit, limit)
	}
	go first.run()
	go second.run()
	sink.wait(t, 1000)
	both{first, second}.Stop()
	list, _ := sink.take()
	wantAnswered(t, list, 200)
	wantSchedule(t, p, list)
}
