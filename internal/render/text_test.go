package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestUncertaintyIsPrinted(t *testing.T) {
	w := WindowReport{N: 1, MedianNs: new(int64(45e6)), MinNs: new(int64(45e6)), MaxNs: new(int64(45e6)), ValuesNs: make([]*int64, 1)}
	if got := w.String(); got != "45 ms ±?" {
		t.Errorf("an unknown bound gives %q", got)
	}
	w.UncertaintyNs = new(int64(300e3))
	if got := w.String(); got != "45 ms ±300 µs" {
		t.Errorf("a bound gives %q", got)
	}
	w.UncertaintyNs = new(int64(0))
	if got := w.String(); got != "45 ms" {
		t.Errorf("one kernel gives %q", got)
	}
}

// hostile puts an attack into every string of a record, names of enums included.
func hostile(t *testing.T, r record.Record) record.Record {
	t.Helper()
	data, err := record.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var poison func(key string, v any) any
	poison = func(key string, v any) any {
		switch v := v.(type) {
		case string:
			if key == "started_at" || key == "at" || key == "bound" || key == "protocol" {
				return v
			}
			return v + "\x1b]0;owned\x07\x1b[2J\u202e\r\n| # <b> `x`"
		case []any:
			for i := range v {
				v[i] = poison(key, v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = poison(k, v[k])
			}
		}
		return v
	}
	if data, err = json.Marshal(poison("", doc)); err != nil {
		t.Fatal(err)
	}
	var out record.Record
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHostileRecordsStayText(t *testing.T) {
	var outputs []string
	for _, s := range samples() {
		for _, o := range []Opts{{}, {Verbose: true}, {Width: 72}} {
			var b bytes.Buffer
			if err := Trial(&b, hostile(t, s.Record), o); err != nil {
				t.Fatal(err)
			}
			outputs = append(outputs, b.String())
		}
	}
	var set []Input
	for _, in := range inputs(records.Matrix("iptables", 2)...) {
		in.Record = hostile(t, in.Record)
		in.Record.Completeness = record.Complete
		set = append(set, in)
	}
	var text, md bytes.Buffer
	if err := Set(&text, set, Opts{}); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&md, set); err != nil {
		t.Fatal(err)
	}
	for _, out := range append(outputs, text.String(), md.String()) {
		for _, r := range out {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q reaches the output:\n%s", r, out)
			}
		}
	}
	if strings.Contains(md.String(), "<b>") || strings.Contains(md.String(), " `x`") {
		t.Errorf("Markdown holds markup of a record:\n%s", md.String())
	}
	_, err := New(set[:3])
	if err == nil || strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("error is %q", err)
	}
}

func TestTrialFitsItsWidth(t *testing.T) {
	for _, s := range samples() {
		for _, width := range []int{72, 80, 96, 120} {
			var b bytes.Buffer
			if err := Trial(&b, s.Record, Opts{Width: width}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s at %d: %d columns: %s", s.Name, width, n, line)
				}
			}
		}
	}
}

// Colours add escape sequences and nothing else.
func TestColorChangesNoText(t *testing.T) {
	for _, s := range samples() {
		var plain, color bytes.Buffer
		if err := Trial(&plain, s.Record, Opts{}); err != nil {
			t.Fatal(err)
		}
		if err := Trial(&color, s.Record, Opts{Color: true}); err != nil {
			t.Fatal(err)
		}
		strip := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[36m", "")
		var lines []string
		for line := range strings.Lines(strip.Replace(color.String())) {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
		if got := strings.Join(lines, "\n") + "\n"; got != plain.String() {
			t.Errorf("%s differs without its colours:\n%s", s.Name, got)
		}
	}
}

// A record that a trial left when it could do almost nothing still renders.
func TestBareRecordRenders(t *testing.T) {
	var b bytes.Buffer
	if err := Trial(&b, record.Record{Schema: record.Schema, ID: "x", Completeness: record.Incomplete, Missing: []string{"everything"}}, Opts{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"INCOMPLETE  everything", "none recorded"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
