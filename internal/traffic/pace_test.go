package traffic

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPaceSpreadsFlowsEvenly(t *testing.T) {
	p := pace{startNs: 1000, heartbeatNs: 400, n: 4}
	for slot, want := range []int64{1000, 1100, 1200, 1300, 1400, 1500} {
		if got := p.at(int64(slot)); got != want {
			t.Errorf("slot %d at %d, want %d", slot, got, want)
		}
		if got := p.flow(int64(slot)); got != slot%4 {
			t.Errorf("slot %d belongs to flow %d", slot, got)
		}
	}
	if p.stale(0, 1399) || !p.stale(0, 1400) {
		t.Error("a slot is stale from the time of its flow's next one on")
	}
}

func TestPaceKeepsOrderAndPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pace{
			startNs:     rapid.Int64Range(0, 1e15).Draw(t, "start"),
			heartbeatNs: rapid.Int64Range(1e6, 60e9).Draw(t, "heartbeat"),
			n:           rapid.Int64Range(1, maxFlows).Draw(t, "n"),
		}
		slot := rapid.Int64Range(0, 1e6).Draw(t, "slot")
		if p.at(slot+1) < p.at(slot) {
			t.Fatalf("slot %d is due after its successor", slot)
		}
		if got := p.at(slot+p.n) - p.at(slot); got != p.heartbeatNs {
			t.Fatalf("the flow of slot %d is due again after %d", slot, got)
		}
		if gap := p.at(slot+1) - p.at(slot); gap > p.heartbeatNs/p.n+1 {
			t.Fatalf("a gap of %d between neighbours", gap)
		}
	})
}

func TestPaceBeginsEveryFlowOnce(t *testing.T) {
	for _, n := range []int64{1, 7, crowd, crowd + 1, 1024, 15000, maxFlows} {
		p := pace{heartbeatNs: 1, n: n}
		seen := make([]bool, n)
		for k := range int(n) {
			i := p.beginning(k)
			if seen[i] {
				t.Fatalf("%d flows: %d is begun twice", n, i)
			}
			if n <= crowd && i != k {
				t.Fatalf("%d flows: %d is begun as number %d", n, i, k)
			}
			seen[i] = true
		}
	}
}
