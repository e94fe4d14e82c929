package record_test

import (
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

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
