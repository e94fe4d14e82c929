package agent

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
)

// session runs Serve at the other end of two pipes.
func session(t *testing.T, version string, heard Heard) (*Session, chan error, error) {
	t.Helper()
	ordersOut, ordersIn := io.Pipe()
	wordsOut, wordsIn := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), ordersOut, wordsIn, Options{Version: version})
		wordsIn.CloseWithError(err)
		ordersOut.Close()
		served <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Dial(ctx, wordsOut, ordersIn, ordersIn.Close, "v1", heard)
	return s, served, err
}

var nothing = Heard{Facts: func([]Fact) {}, Gap: func(Gap) {}}

// Whatever this machine lets be seen, a session begins, says so, answers and ends.
func TestSessionFromHelloToEnd(t *testing.T) {
	s, served, err := session(t, "v1", nothing)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if offset, reading := s.Clock(); offset != (clock.Offset{}) || reading.MonoNs == 0 {
		t.Errorf("clock %+v, reading %+v: it is this very process", offset, reading)
	}
	if err := s.Watch(ctx, Watch{Pods: []string{"no-such-pod"}, Ports: []Port{{TCP, 1}}}); err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, x := range s.Sights() {
		told[x.Name]++
		if x.Seen == (x.How == "") {
			t.Errorf("%s: seen %v, how %q", x.Name, x.Seen, x.How)
		}
		if !x.Seen && x.Why == "" {
			t.Errorf("%s is not seen, and nothing says why", x.Name)
		}
	}
	for _, name := range []string{SightSignals, SightExits, SightListeners, SightSockets, SightResets, SightICMP, SightConntrack, SightDeleters, SightRules} {
		if told[name] != 1 {
			t.Errorf("%s is told %d times", name, told[name])
		}
	}
	if err := s.Watch(ctx, Watch{}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second watch: %v", err)
	}
	if err := s.Add(ctx, []string{"another"}); err != nil {
		t.Error(err)
	}
	if facts, forgotten, err := s.Find(ctx, []Pair{{TCP, ap("192.0.2.1:1"), ap("192.0.2.2:2")}}); err != nil || len(facts) != 0 || forgotten != 0 {
		t.Errorf("found %v, forgotten %d, %v", facts, forgotten, err)
	}
	lost, cost, err := s.End(ctx)
	if err != nil || len(lost) != 0 || cost.CPUNs <= 0 {
		t.Errorf("lost %v, cost %+v, %v", lost, cost, err)
	}
	if unfound := s.Unfound(); !slices.Equal(unfound, []string{"another", "no-such-pod"}) {
		t.Errorf("Pods that were never found: %v", unfound)
	}
	if err := <-served; err != nil {
		t.Errorf("the agent: %v", err)
	}
}

// An agent whose harness is gone ends.
func TestSessionEndsWithItsInput(t *testing.T) {
	s, served, err := session(t, "v1", nothing)
	if err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("the agent: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	_, served, err := session(t, "v0", nothing)
	if err == nil || !strings.Contains(err.Error(), "v0") {
		t.Errorf("error %v", err)
	}
	<-served
}

// What is said survives being said: an unspecified address with a port, above all.
func TestFrontsSurviveTheWire(t *testing.T) {
	for _, text := range []string{"10.96.0.1:80", "0.0.0.0:30080", "[::]:30080", "[fd00::1]:53"} {
		sent := order{Do: "watch", Watch: &Watch{Fronts: []Front{{TCP, ap(text)}}}}
		b, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var got order
		if err := json.Unmarshal(b, &got); err != nil || got.Watch.Fronts[0] != sent.Watch.Fronts[0] {
			t.Errorf("%s came as %v, %v", text, got.Watch.Fronts, err)
		}
	}
}
