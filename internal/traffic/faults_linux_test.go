package traffic

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/faultserver"
	"github.com/drainproof/drainproof/internal/wire"
)

func TestEveryFaultHasItsName(t *testing.T) {
	type verdict struct {
		outcome   record.Outcome
		mechanism record.Mechanism
		end       EndKind
		errno     string
	}
	cases := map[faultserver.Fault]struct {
		promises string
		want     verdict
	}{
		faultserver.RST:           {wire.PromiseAnnounce, verdict{record.Severed, record.RST, EndReadError, "ECONNRESET"}},
		faultserver.RSTMidMessage: {wire.PromiseAnnounce, verdict{record.Severed, record.RST, EndReadError, "ECONNRESET"}},
		faultserver.FIN:           {wire.PromiseAnnounce, verdict{record.Severed, record.FINMidMessage, EndEOF, ""}},
		faultserver.HalfClose:     {"", verdict{record.Closed, record.FIN, EndEOF, ""}},
		faultserver.FINMidMessage: {"", verdict{record.Severed, record.FINMidMessage, EndEOF, ""}},
		faultserver.Stall:         {"", verdict{record.ReadTimeout, record.Silence, EndNoAnswer, ""}},
		faultserver.ByeThenFIN:    {wire.PromiseAnnounce, verdict{record.Drained, record.AnnouncedFIN, EndEOF, ""}},
		faultserver.ByeThenRST:    {wire.PromiseAnnounce, verdict{record.Drained, record.RST, EndReadError, "ECONNRESET"}},
		faultserver.Garbage:       {"", verdict{record.NotMeasured, record.ClientLimit, EndReadError, "EPROTO"}},
		faultserver.Oversize:      {"", verdict{record.NotMeasured, record.ClientLimit, EndReadError, "EPROTO"}},
		faultserver.OtherInstance: {"", verdict{record.Rehomed, record.OtherInstance, EndOtherInstance, ""}},
		faultserver.CloseListener: {"", verdict{record.Survived, record.None, EndWindowClosed, ""}},
	}
	for _, f := range faultserver.Faults() {
		c, ok := cases[f]
		if !ok {
			t.Errorf("%s: no case", f)
			continue
		}
		t.Run(string(f), func(t *testing.T) {
			server := faultserver.Start(t, f, c.promises)
			plan := planFor(record.TCP, server.Address(), 3)
			if f == faultserver.Stall {
				plan.ReadTimeoutNs = int64(300 * time.Millisecond)
			}
			s, l := openLocal(t, plan)
			server.Act()
			switch f {
			case faultserver.OtherInstance:
				for _, n := range l.await(t, NoteRehomed, 3) {
					if n.Instance != faultserver.Second || n.PodUID != faultserver.SecondUID {
						t.Errorf("rehomed to %s %s", n.Instance, n.PodUID)
					}
				}
			case faultserver.CloseListener:
				awaitRefusal(t, server.Address())
			default:
				l.await(t, NoteEnded, 3)
			}
			for _, r := range closeSession(t, s).Flows {
				end := r.End
				if f == faultserver.OtherInstance {
					if end.Kind != EndWindowClosed || r.RehomedMonoNs == 0 || r.LastInstance != faultserver.Second {
						t.Fatalf("a rehomed flow goes on, but: %+v", r)
					}
					end = *r.RehomeEnd
				}
				o, m := Classify(r.Protocol, end)
				if end.Kind == EndWriteError && end.Errno == "ECONNRESET" {
					end.Kind = EndReadError // a ping was due before the loop came to read: the same fact, seen by the other call
				}
				if got := (verdict{o, m, end.Kind, end.Errno}); got != c.want {
					t.Errorf("%s: got %+v, want %+v", r.ID, got, c.want)
				}
				if r.FirstInstance != faultserver.First || end.LastAnswerMonoNs < r.OpenedMonoNs || r.EndedMonoNs < end.LastAnswerMonoNs {
					t.Errorf("%s: times or names are wrong: %+v", r.ID, r)
				}
				if mid := f == faultserver.FINMidMessage || f == faultserver.RSTMidMessage || f == faultserver.Oversize; mid != (end.PartialBytes > 0) {
					t.Errorf("%s: %d partial bytes", r.ID, end.PartialBytes)
				}
				if f == faultserver.Stall && end.Unanswered == 0 {
					t.Errorf("%s: silent, but all is answered", r.ID)
				}
			}
		})
	}
}

func awaitRefusal(t *testing.T, address string) {
	t.Helper()
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the listener still accepts")
}

func TestDatagramFlows(t *testing.T) {
	for name, c := range map[string]struct {
		act       func(*faultserver.UDP)
		outcome   record.Outcome
		mechanism record.Mechanism
		note      NoteKind
	}{
		"port unreachable": {(*faultserver.UDP).Close, record.Severed, record.ICMPPort, NoteEnded},
		"silence":          {(*faultserver.UDP).Silence, record.Severed, record.Silence, NoteEnded},
		"another instance": {(*faultserver.UDP).Rename, record.Rehomed, record.OtherInstance, NoteRehomed},
	} {
		t.Run(name, func(t *testing.T) {
			server := faultserver.StartUDP(t)
			plan := planFor(record.UDP, server.Address(), 3)
			if name != "another instance" {
				plan.ReadTimeoutNs = int64(300 * time.Millisecond)
			}
			s, l := openLocal(t, plan)
			c.act(server)
			l.await(t, c.note, 3)
			for _, r := range closeSession(t, s).Flows {
				end := r.End
				if r.RehomeEnd != nil {
					end = *r.RehomeEnd
				}
				if o, m := Classify(r.Protocol, end); o != c.outcome || m != c.mechanism {
					t.Errorf("%s %s: %+v", o, m, r)
				}
				if c.mechanism == record.ICMPPort && (end.ICMP == nil || *end.ICMP != record.ICMP{From: "127.0.0.1", Type: 3, Code: 3}) {
					t.Errorf("ICMP %+v", end.ICMP)
				}
			}
		})
	}
}

// TestARefusedDatagramFlowIsHeld: a node that rejects for want of an endpoint
// may forward again a moment later, to the same instance or to another.
func TestARefusedDatagramFlowIsHeld(t *testing.T) {
	for name, same := range map[string]bool{"answered again": true, "taken over": false} {
		t.Run(name, func(t *testing.T) {
			server := faultserver.StartUDP(t)
			s, l := openLocal(t, planFor(record.UDP, server.Address(), 3))
			server.Close()
			refused := l.await(t, NoteRefused, 3)
			if refused[0].End == nil || refused[0].End.ICMP == nil {
				t.Errorf("the refusal does not say who sent it: %+v", refused[0])
			}
			server.Reopen(t, same)
			if !same {
				l.await(t, NoteRehomed, 3)
			} else {
				time.Sleep(200 * time.Millisecond) // ten heartbeats
			}
			for _, r := range closeSession(t, s).Flows {
				if r.End.Kind != EndWindowClosed {
					t.Errorf("the flow ended: %+v", r)
				}
				if (r.RehomeEnd == nil) != same {
					t.Errorf("rehomed: %+v", r.RehomeEnd)
				}
				if !same && (r.RehomeEnd.ICMP == nil || r.RehomedMonoNs <= refused[0].MonoNs) {
					t.Errorf("the refusal before the rehome is not kept: %+v", r.RehomeEnd)
				}
			}
		})
	}
}

// closedPort is an address of loopback at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestFlowsThatDoNotOpenAreNamed(t *testing.T) {
	silent := faultserver.StartUDP(t)
	silent.Silence()
	for name, c := range map[string]struct {
		plan Plan
		want string
	}{
		"refused stream":   {planFor(record.TCP, closedPort(t), 2), "tcp-1 to 127.0.0.1:"},
		"refused datagram": {planFor(record.UDP, closedPort(t), 1), "ECONNREFUSED"},
		"silent":           {planFor(record.UDP, silent.Address(), 12), "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			c.plan.ConnectTimeoutNs = int64(200 * time.Millisecond)
			s, err := StartLocal()
			if err != nil {
				t.Fatal(err)
			}
			l := listen(s)
			err = s.Open(t.Context(), c.plan)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "got no first answer") {
				t.Errorf("error %v", err)
			}
			r := closeSession(t, s)
			<-l.done
			for _, f := range r.Flows {
				if o, _ := Classify(f.Protocol, f.End); o != record.NotMeasured || f.End.Kind != EndNotOpened || f.OpenedMonoNs != 0 {
					t.Errorf("%s: %+v", o, f)
				}
			}
		})
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	silent := faultserver.StartUDP(t)
	silent.Silence()
	s, err := StartLocal()
	if err != nil {
		t.Fatal(err)
	}
	l := listen(s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Open(ctx, planFor(record.UDP, silent.Address(), 1)); err == nil || ctx.Err() == nil {
		t.Errorf("opened: %v", err)
	}
	for _, f := range closeSession(t, s).Flows {
		if o, m := Classify(f.Protocol, f.End); o != record.NotMeasured || m != record.WindowClosed {
			t.Errorf("%s %s: %+v", o, m, f)
		}
	}
	<-l.done
}
