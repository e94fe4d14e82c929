package eventloop

import (
	"bufio"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// wantSchedule checks that the requests were planned on the grid of the plan, each once and with its user, whatever became of them.
func wantSchedule(t *testing.T, p request.Plan, list []request.Result) {
	t.Helper()
	slices.SortFunc(list, func(a, b request.Result) int { return int(a.PlannedNs - b.PlannedNs) })
	grid := request.NewSchedule(list[0].PlannedNs, 0, p.Rate)
	for k, r := range list {
		if r.PlannedNs != grid.DueNs(int64(k)) || r.User != k%p.Users {
			t.Fatalf("request %d of user %d, planned %d ns after the first; the plan: user %d, %d ns",
				k, r.User, r.PlannedNs-list[0].PlannedNs, k%p.Users, grid.DueNs(int64(k))-list[0].PlannedNs)
		}
		if r.SentNs < r.PlannedNs {
			t.Fatalf("request %d was sent %d ns too early", k, r.PlannedNs-r.SentNs)
		}
	}
}

// TestScheduleIsKeptWhileTheServerStalls: nobody answers, and requests go on leaving.
func TestScheduleIsKeptWhileTheServerStalls(t *testing.T) {
	t.Parallel()
	for _, mode := range []request.Mode{request.NewConnection, request.KeepAlive} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, _ *net.TCPConn, in *bufio.Reader) { untilGone(in) })
			p := plan(mode, s.address, 250)
			p.Users = 3
			p.Limits.FirstByteNs = int64(400 * time.Millisecond)
			list, _ := sendSome(t, p, 20)
			// While the first waited for its end, about a hundred others had to leave.
			if len(list) < 30 {
				t.Errorf("%d requests were sent", len(list))
			}
			wantSchedule(t, p, list)
			for i, r := range list {
				if r.End != (request.End{Kind: request.EndTimeout, Phase: record.PhaseFirstByte}) {
					t.Errorf("request %d: %+v", i, r.End)
				}
			}
		})
	}
}

// TestLateLoopSkipsNothing: a client that was held up sends late what it owes, and says when it was due.
func TestLateLoopSkipsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, answering)
	p := plan(request.KeepAlive, s.address, 1000)
	p.Users = 7
	const held = 300 * time.Millisecond
	sink := newResults()
	sink.first = func() { time.Sleep(held) }
	e, err := newEngine(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	go e.run()
	sink.wait(t, 400)
	e.Stop()
	list, _ := sink.take()
	wantAnswered(t, list, 200)
	wantSchedule(t, p, list)
	latest := int64(0)
	for _, r := range list {
		latest = max(latest, r.SentNs-r.PlannedNs)
	}
	if latest < int64(held/2) {
		t.Errorf("the latest request was only %d ns late", latest)
	}
}

// TestStopSendsWhatIsOwed: what was due before the end and is late leaves all the same.
func TestStopSendsWhatIsOwed(t *testing.T) {
	t.Parallel()
	p := plan(request.KeepAlive, serve(t, answering).address, 1000)
	sink := newResults()
	sink.first = func() { time.Sleep(200 * time.Millisecond) }
	e, err := newEngine(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	go e.run()
	sink.wait(t, 1) // and the loop is held up
	e.Stop()
	list, _ := sink.take()
	wantAnswered(t, list, 200)
	wantSchedule(t, p, list)
	if len(list) < 200 {
		t.Errorf("%d requests left in 200 ms at 1,000 a second", len(list))
	}
}

// TestTooManyConnections: beyond what the process can hold, requests end as the client's own failure, until others end.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(_ int, c *net.TCPConn, in *bufio.Reader) {
		if heard(in) {
			<-release
			say(c, hello)
			untilGone(in)
		}
	})
	p := plan(request.NewConnection, s.address, 1)
	d := drive(t, p, func(e *engine) { e.limit = 2 })
	for range 3 {
		d.request()
	}
	r := d.ended(t, 1)[0]
	if len(d.list) != 1 || r.End.Kind != request.EndClientLimit || r.End.Message == "" || request.Classify(p.Mode, nil, r.End, 0) != record.ClientLimited {
		t.Fatalf("%d ended, the first by %+v", len(d.list), r.End)
	}
	close(release)
	wantAnswered(t, d.ended(t, 3)[1:], 200)
	if d.open != 2 {
		t.Fatalf("%d connections wait for the server's close", d.open)
	}
	d.request() // which is worth more than waiting
	wantAnswered(t, d.ended(t, 4)[1:], 200)
}

// TestIdleConnectionsMakeRoom: a user's request is worth more than the connection that another does not use.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	p := plan(request.KeepAlive, serve(t, answering).address, 1)
	p.Users = 3
	d := drive(t, p, func(e *engine) { e.limit = 2 })
	for i := range 7 {
		d.request()
		d.ended(t, i+1)
	}
	wantAnswered(t, d.list, 200)
	if d.open != 2 || d.users[0].count != 1 || d.users[1].count != 0 || d.users[2].count != 1 || d.reconnects != 0 {
		t.Errorf("%d open, users have %d, %d and %d, %d reconnects", d.open, d.users[0].count, d.users[1].count, d.users[2].count, d.reconnects)
	}
}

// TestStopWaitsForWhatIsUnderWay: no further request leaves, those that did are answered, and everything is let go.
func TestStopWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(5)
	s := serve(t, func(n int, c *net.TCPConn, in *bufio.Reader) {
		if !heard(in) {
			return
		}
		if n < 5 {
			arrived.Done()
		}
		<-release
		say(c, hello)
		answering(n, c, in)
	})
	e, sink := start(t, plan(request.KeepAlive, s.address, 100), nil)
	arrived.Wait()
	var stopping sync.WaitGroup
	for range 3 { // from several sides at once
		stopping.Go(e.Stop)
	}
	if list, _ := sink.take(); len(list) != 0 {
		t.Fatalf("%d requests ended unanswered", len(list))
	}
	close(release)
	stopping.Wait()
	list, _ := sink.take()
	if len(list) < 5 {
		t.Errorf("%d requests were told of", len(list))
	}
	wantAnswered(t, list, 200)
	e.Stop() // once more is no harm
	if after, _ := sink.take(); len(after) != len(list) {
		t.Errorf("%d results came after the end", len(after)-len(list))
	}
}

// TestStopIsBounded: what is never answered ends by its limit.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, _ *net.TCPConn, in *bufio.Reader) { untilGone(in) })
	p := plan(request.NewConnection, s.address, 100)
	p.Limits.WholeNs = int64(200 * time.Millisecond)
	e, sink := start(t, p, nil)
	sink.wait(t, 1)
	e.Stop()
	list, _ := sink.take()
	for i, r := range list {
		if r.End.Kind != request.EndTimeout {
			t.Errorf("request %d: %+v", i, r.End)
		}
	}
}

// TestStopAtOnce: before anything was due.
func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, answering)
	p := plan(request.KeepAlive, s.address, 1)
	p.PhaseNs = int64(time.Hour)
	e, err := Start(p, newResults())
	if err != nil {
		t.Fatal(err)
	}
	e.Stop()
	if s.connections() != 0 {
		t.Errorf("%d connections", s.connections())
	}
}

// TestOldKernel: without epoll_pwait2 the loop waits by ppoll.
func TestOldKernel(t *testing.T) {
	t.Parallel()
	s := serve(t, answering)
	p := plan(request.KeepAlive, s.address, 200)
	e, sink := start(t, p, func(e *engine) { e.noWait2 = true })
	sink.wait(t, 20)
	e.Stop()
	list, _ := sink.take()
	wantAnswered(t, list, 200)
	wantSchedule(t, p, list)
}

// TestManyInstances: a header that names every response anew costs bounded memory.
func TestManyInstances(t *testing.T) {
	t.Parallel()
	p := plan(request.KeepAlive, serve(t, answering).address, 1)
	e, err := newEngine(p, newResults())
	if err != nil {
		t.Fatal(err)
	}
	defer e.release()
	c := e.take(-1)
	for i := range 3 * instancesKnown {
		c.response.Instance = append(c.response.Instance[:0], byte(i>>16), byte(i>>8), byte(i))
		if got := e.instance(c); got != string(c.response.Instance) {
			t.Fatalf("%q for %q", got, c.response.Instance)
		}
	}
	if len(e.instances) > instancesKnown {
		t.Errorf("%d names are kept", len(e.instances))
	}
}
