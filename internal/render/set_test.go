package render

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// inputs gives records a path each.
func inputs(rs ...record.Record) []Input {
	list := make([]Input, len(rs))
	for i, r := range rs {
		list[i] = Input{Path: fmt.Sprintf("set/%02d/record.json", i+1), Record: r}
	}
	return list
}

func TestSetGoldens(t *testing.T) {
	both := inputs(append(records.Matrix("iptables", 5), records.Matrix("nftables", 5)...)...)
	for _, c := range []struct {
		name  string
		write func(*bytes.Buffer, []Input) error
	}{
		{"set.txt", func(b *bytes.Buffer, in []Input) error { return Set(b, in, Opts{}) }},
		{"set-color.txt", func(b *bytes.Buffer, in []Input) error { return Set(b, in, Opts{Color: true}) }},
		{"set.md", func(b *bytes.Buffer, in []Input) error { return Markdown(b, in) }},
		{"set.json", func(b *bytes.Buffer, in []Input) error { return JSON(b, in) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.write(&b, both); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, c.name, b.Bytes())
		})
	}
}
