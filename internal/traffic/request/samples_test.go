package request

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/record"
)

func drawSample(t *rapid.T) Sample {
	return Sample{
		PlannedNs: rapid.Int64().Draw(t, "planned"), LatencyNs: rapid.Int64().Draw(t, "latency"), LateNs: rapid.Int64().Draw(t, "late"),
		User: rapid.Int32().Draw(t, "user"), Instance: rapid.Int32().Draw(t, "instance"),
		Outcome: uint8(rapid.IntRange(0, len(record.RequestOutcomes())-1).Draw(t, "outcome")), Reused: rapid.Bool().Draw(t, "reused"),
	}
}

func TestSamplesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(drawSample)).Draw(t, "samples")
		ahead := rapid.SliceOfN(rapid.Custom(drawSample), 0, 2).Draw(t, "ahead")
		data := EncodeSamples(want)
		got, err := DecodeSamples(data, len(want), slices.Clone(ahead))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, append(slices.Clone(ahead), want...)) {
			t.Fatalf("%v came back as %v", want, got)
		}
		if len(want) == 0 {
			return
		}
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if _, err := DecodeSamples(data[:cut], len(want), nil); err == nil {
			t.Fatalf("%d of %d bytes were accepted", cut, len(data))
		}
		if _, err := DecodeSamples(data, len(want)-1, nil); err == nil {
			t.Fatal("bytes were left over, and accepted")
		}
		if _, err := DecodeSamples(data, len(want)+1, nil); err == nil {
			t.Fatal("one sample more was read than was written")
		}
	})
}

// TestSamplesAreCompact: a million requests must fit into a record's making; this is what they cost on the way there.
func TestSamplesAreCompact(t *testing.T) {
	var samples []Sample
	for i := range int64(10_000) {
		samples = append(samples, Sample{PlannedNs: 3_600e9 + i*200_000, LatencyNs: 1_900_000 + i, LateNs: 60_000, User: int32(i % 500), Instance: int32(i % 3)})
	}
	if perSample := len(EncodeSamples(samples)) / len(samples); perSample > 14 {
		t.Errorf("a sample takes %d bytes", perSample)
	}
}

// FuzzDecodeSamples: what a worker sends is not trusted: junk is an error, and never more samples than it could hold.
func FuzzDecodeSamples(f *testing.F) {
	f.Add(EncodeSamples([]Sample{{PlannedNs: -5, LatencyNs: 7, User: 3, Instance: -1, Outcome: 3, Reused: true}, {PlannedNs: 9}}), 2)
	f.Add([]byte{}, 1)
	f.Add([]byte{0, 0, 0, 0, 0, 0}, 1)
	f.Add([]byte{0, 0, 0, 0, 0, 0xff}, 1)
	f.Add(bytes.Repeat([]byte{0x80}, 64), math.MaxInt)
	f.Add(bytes.Repeat([]byte{0xff}, 11), -1)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		got, err := DecodeSamples(data, count, nil)
		// Five varints and the flags take at least a byte each.
		if len(got) > len(data)/6 {
			t.Fatalf("%d samples out of %d bytes", len(got), len(data))
		}
		if err != nil {
			return
		}
		if len(got) != max(count, 0) {
			t.Fatalf("%d samples were asked for, %d came", count, len(got))
		}
		for _, s := range got {
			if !slices.Contains(record.RequestOutcomes(), s.RequestOutcome()) {
				t.Fatalf("%q is no outcome", s.RequestOutcome())
			}
		}
		again, err := DecodeSamples(EncodeSamples(got), len(got), nil)
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("%v came back as %v, %v", got, again, err)
		}
	})
}
