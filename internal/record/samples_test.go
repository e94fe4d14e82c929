package record_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// TestTestSamples: the samples of tests are sound, and say what their names and comments promise.
func TestTestSamples(t *testing.T) {
	for _, s := range records.Tests() {
		for _, p := range record.Validate(s.Record) {
			t.Errorf("%s: %v", s.Name, p)
		}
		again := readBack(t, s.Record)
		for _, p := range record.Validate(again) {
			t.Errorf("%s, read back: %v", s.Name, p)
		}
		if diff := cmp.Diff(encoded(t, s.Record), encoded(t, again)); diff != "" {
			t.Errorf("%s (-written +read):\n%s", s.Name, diff)
		}
	}
	lossy := records.RolloutLossy()
	want := map[record.RequestOutcome]int64{record.OK: 1191, record.Refused: 7, record.ResetBeforeResponse: 2}
	if diff := cmp.Diff(want, lossy.Requests.Outcomes); diff != "" || lossy.Users.Hurt != 5 || lossy.Users.Total != 20 || len(lossy.FailuresFrom()) != 9 {
		t.Errorf("users %+v, outcomes (-want +got):\n%s", lossy.Users, diff)
	}
	for _, r := range []record.Record{records.RolloutClean(), records.Baseline()} {
		if r.Failures == nil || len(r.Failures) > 0 || r.Users.Hurt != 0 || r.Requests.Total != 1200 {
			t.Errorf("%s lost something: %+v", r.ID, r.Failures)
		}
	}
}

// TestOldRecordsStayAsTheyAre: every published record is sound, and is written again byte for byte.
func TestOldRecordsStayAsTheyAre(t *testing.T) {
	paths, err := record.Find("../../results")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 86 {
		t.Errorf("only %d records were found", len(paths))
	}
	for _, path := range paths {
		r, err := record.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range record.Validate(r) {
			t.Errorf("%s: %v", path, p)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".gz") {
			data = gunzipped(t, data)
		}
		if string(data) != encoded(t, r) {
			t.Errorf("%s is written otherwise than it was read", path)
		}
	}
}

func encoded(t *testing.T, r record.Record) string {
	t.Helper()
	data, err := record.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func readBack(t *testing.T, r record.Record) record.Record {
	t.Helper()
	got, err := record.Read(write(t, t.TempDir(), r, false))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func gunzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestSamples(t *testing.T) {
	for _, s := range records.Named() {
		t.Run(s.Name, func(t *testing.T) {
			for _, p := range record.Validate(s.Record) {
				t.Error(p)
			}
			data, err := record.Encode(s.Record)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, s.Name+".json", data)
		})
	}
}
