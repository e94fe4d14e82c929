package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
)

func TestExits(t *testing.T) {
	r := record.Record{
		Events: []record.Event{
			{ID: 1, Kind: record.ProcessExited, Subject: "container/a/web", PodUID: "u1"}, // a hook's
			{ID: 2, Kind: record.ProcessExited, Subject: "container/a/web", PodUID: "u1"},
			{ID: 3, Kind: record.ContainerExited, Subject: "container/a/web", PodUID: "u1"},
			{ID: 4, Kind: record.ContainerExited, Subject: "container/a/web", PodUID: "u2"}, // its namesake
			{ID: 5, Kind: record.ContainerExited, Subject: "container/b/web", PodUID: "u3"},
			{ID: 6, Kind: record.ContainerExited, Subject: "container/c/web"},
		},
		Terminations: []record.Termination{
			{Pod: "a", UID: "u1", Containers: []record.ContainerEnd{{Exit: record.ProcessExit{Instant: record.Instant{TNs: new(int64(1)), Event: 2}}}}},
			{Pod: "b", UID: "u3", Containers: []record.ContainerEnd{{Exit: record.ProcessExit{Instant: record.Instant{Why: "it was not seen"}}}}},
			{Pod: "c", Containers: []record.ContainerEnd{{Exit: record.ProcessExit{Instant: record.Instant{TNs: new(int64(1)), Event: 6}}}}},
		},
	}
	var got []int
	for _, e := range r.Exits() {
		got = append(got, e.ID)
	}
	if d := cmp.Diff([]int{2, 4, 5, 6}, got); d != "" {
		t.Error(d)
	}
}
