package testview

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/testkit/records"
	"github.com/drainproof/drainproof/internal/verdict"
)

// The summary is one screen: of a tall terminal at 80 columns, of a usual one at 120.
func TestSummaryIsOneScreen(t *testing.T) {
	samples := map[string]record.Record{"lossy": judged(t, lossy(), "failed=0,users=0"), "clean": judged(t, clean(), ""), "broken": broken(t), "huge": huge(t)}
	for name, r := range samples {
		for width, most := range map[int]int{80: 60, 120: 54} {
			if name == "huge" {
				most += 16 // long names break lines
			}
			out := string(written(t, func(w io.Writer) error { return Summary(w, in(r), render.Opts{Width: width}) }))
			if n := strings.Count(out, "\n"); n > most {
				t.Errorf("%s at %d columns has %d lines, more than %d:\n%s", name, width, n, most, out)
			}
		}
	}
}

func TestTerminalFitsItsWidth(t *testing.T) {
	for _, width := range []int{72, 80, 96, 120} {
		o := render.Opts{Width: width}
		for name, write := range map[string]func(io.Writer) error{
			"lossy":      func(w io.Writer) error { return Summary(w, in(judged(t, lossy(), "")), o) },
			"watched":    func(w io.Writer) error { return Summary(w, in(judged(t, records.RolloutWatched(), "")), o) },
			"verbose":    func(w io.Writer) error { return Summary(w, in(broken(t)), render.Opts{Width: width, Verbose: true}) },
			"comparison": func(w io.Writer) error { return Comparison(w, comparison(t), o) },
			"matrix":     func(w io.Writer) error { return Matrix(w, set(t), o) },
		} {
			if name == "matrix" && width < 80 {
				continue // a table is as wide as its cells
			}
			for line := range strings.Lines(string(written(t, write))) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s at %d: %d columns: %s", name, width, n, line)
				}
			}
		}
	}
}

// Colours add escape sequences and nothing else.
func TestColorChangesNoText(t *testing.T) {
	strip := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[36m", "")
	for name, write := range map[string]func(render.Opts) func(io.Writer) error{
		"summary": func(o render.Opts) func(io.Writer) error {
			return func(w io.Writer) error { return Summary(w, in(broken(t)), o) }
		},
		"comparison": func(o render.Opts) func(io.Writer) error {
			return func(w io.Writer) error { return Comparison(w, comparison(t), o) }
		},
		"matrix": func(o render.Opts) func(io.Writer) error {
			return func(w io.Writer) error { return Matrix(w, set(t), o) }
		},
	} {
		plain, color := string(written(t, write(render.Opts{}))), string(written(t, write(render.Opts{Color: true})))
		var lines []string
		for line := range strings.Lines(strip.Replace(color)) {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
		if got := strings.Join(lines, "\n") + "\n"; got != plain || color == plain {
			t.Errorf("%s differs without its colours:\n%s", name, got)
		}
	}
}

const attack = "\x1b]0;owned\x07\x1b[2J\u202e\r\n| # <b> `x` ]]> &amp; \"quoted\" \x00"

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
			if key == "started_at" || key == "at" || key == "bound" || key == "histogram" || key == "kind" && strings.HasPrefix(v, "pod-") {
				return v
			}
			return v + attack
		case []any:
			for i := range v {
				v[i] = poison(key, v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = poison(k, v[k])
			}
			if key == "outcomes" {
				v["ok"+attack] = 5.0
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
	r := hostile(t, broken(t))
	whole := hostile(t, judged(t, records.RolloutWatched(), ""))
	whole.Completeness = record.Complete
	path := render.Input{Path: "out" + attack, Record: r}
	c, err := verdict.Compare([]record.Record{whole}, []record.Record{whole})
	if err != nil {
		t.Fatal(err)
	}
	c.Changed = []verdict.Difference{{What: attack, Before: attack, After: attack}}
	outputs := map[string]string{}
	for name, write := range map[string]func(io.Writer) error{
		"summary":  func(w io.Writer) error { return Summary(w, path, render.Opts{}) },
		"verbose":  func(w io.Writer) error { return Summary(w, path, render.Opts{Verbose: true, Width: 72}) },
		"markdown": func(w io.Writer) error { return Markdown(w, path) },
		"junit":    func(w io.Writer) error { return JUnit(w, path) },
		"junit of a set": func(w io.Writer) error {
			x := in(whole)
			x.Record.Set = &record.Set{Arm: attack, Repeat: 1, Repeats: 1}
			return JUnit(w, x, x)
		},
		"junit, failing": func(w io.Writer) error {
			x := whole
			x.Verdict = &record.Verdict{Result: record.Fail, Reason: attack, Checks: []record.Check{{Name: attack, Seen: new(5.0)}}}
			return JUnit(w, in(x))
		},
		"comparison":          func(w io.Writer) error { return Comparison(w, c, render.Opts{}) },
		"comparison markdown": func(w io.Writer) error { return ComparisonMarkdown(w, c) },
		"matrix":              func(w io.Writer) error { return Matrix(w, []render.Input{in(whole)}, render.Opts{}) },
		"matrix markdown":     func(w io.Writer) error { return MatrixMarkdown(w, []render.Input{in(whole)}) },
	} {
		outputs[name] = string(written(t, write))
	}
	for name, out := range outputs {
		for _, r := range out {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%s: %q reaches the output:\n%s", name, r, out)
			}
		}
		if !strings.Contains(out, "owned") {
			t.Errorf("%s shows nothing of the record: the test would prove nothing", name)
		}
		if strings.Contains(name, "markdown") && (strings.Contains(out, "<b>") || strings.Contains(out, " `x`") || strings.Contains(out, " | #")) {
			t.Errorf("%s holds markup of a record:\n%s", name, out)
		}
		if strings.Contains(name, "junit") {
			if strings.Contains(out, "<b>") || strings.Contains(out, "]]>") {
				t.Errorf("%s holds markup of a record:\n%s", name, out)
			}
			if err := xml.Unmarshal([]byte(out), new(struct{})); err != nil {
				t.Errorf("%s is no XML: %v", name, err)
			}
		}
	}
}

// A record that a test left when it could do almost nothing still renders, and says so.
func TestBareRecordRenders(t *testing.T) {
	bare := record.Record{Schema: record.Schema, ID: "x", Completeness: record.Incomplete, Missing: []string{"everything"}}
	sent := bare
	sent.Requests = &record.Requests{Total: 3, Outcomes: map[record.RequestOutcome]int64{record.OK: 3}}
	odd := sent
	odd.Requests = &record.Requests{Series: &record.Series{BucketNs: 1e9, Sent: []int64{1, 2}, Failed: []int64{0}}}
	short := sent
	short.Requests = &record.Requests{Series: &record.Series{FromTNs: -2e9, BucketNs: 1e9, Sent: []int64{1}, Failed: []int64{1}, P50Ns: []*int64{nil}, P99Ns: []*int64{nil}}}
	for _, r := range []record.Record{bare, sent, odd, short} {
		for name, write := range map[string]func(io.Writer) error{
			"summary":  func(w io.Writer) error { return Summary(w, render.Input{Record: r}, render.Opts{}) },
			"verbose":  func(w io.Writer) error { return Summary(w, render.Input{Record: r}, render.Opts{Verbose: true}) },
			"markdown": func(w io.Writer) error { return Markdown(w, render.Input{Record: r}) },
			"junit":    func(w io.Writer) error { return JUnit(w, render.Input{Record: r}) },
		} {
			out := string(written(t, write))
			for _, want := range []string{"NOT JUDGED", "the record holds no verdict", "everything"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s does not say %q:\n%s", name, want, out)
				}
			}
		}
	}
}

// results counts what a reader of JUnit counts.
func results(t *testing.T, r record.Record) (passed, failed, erred []string) {
	t.Helper()
	var doc struct {
		Tests, Failures, Errors int `xml:",attr"`
		Suite                   struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
			Out string `xml:"system-out"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(written(t, func(w io.Writer) error { return JUnit(w, in(r)) }), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range doc.Suite.Cases {
		switch {
		case c.Skipped != nil:
			t.Errorf("%s is skipped", c.Name)
		case c.Failure != nil:
			failed = append(failed, c.Name)
		case c.Error != nil:
			erred = append(erred, c.Name)
		default:
			passed = append(passed, c.Name)
		}
	}
	if doc.Suite.Name != "drainproof" || !strings.Contains(doc.Suite.Out, "record  out/") {
		t.Errorf("suite %q with output %q", doc.Suite.Name, doc.Suite.Out)
	}
	return passed, failed, erred
}

func TestJUnitCases(t *testing.T) {
	unmeasured := judged(t, lossy(), "failed=0,p99=500ms")
	unmeasured.Verdict.Checks[1].Seen = nil
	for _, c := range []struct {
		name                  string
		r                     record.Record
		passed, failed, erred string
	}{
		{"pass", judged(t, clean(), "failed=0,users=0"), "measured,budget failed,budget users", "", ""},
		{"fail", judged(t, lossy(), "failed=0,users=9"), "measured,budget users", "budget failed", ""},
		{"a limit that was not measured", unmeasured, "measured", "budget failed", "budget p99"},
		{"inconclusive", broken(t), "", "", "measured,budget failed,budget p99"},
		{"no verdict", func() record.Record { r := clean(); r.Verdict = nil; return r }(), "", "", "measured"},
	} {
		passed, failed, erred := results(t, c.r)
		if got := strings.Join(passed, ","); got != c.passed {
			t.Errorf("%s: passed %q, want %q", c.name, got, c.passed)
		}
		if got := strings.Join(failed, ","); got != c.failed {
			t.Errorf("%s: failed %q, want %q", c.name, got, c.failed)
		}
		if got := strings.Join(erred, ","); got != c.erred {
			t.Errorf("%s: erred %q, want %q", c.name, got, c.erred)
		}
	}
}

// A suite for each trial, under a name of its own; no trial is no pass.
func TestJUnitOfASet(t *testing.T) {
	var doc struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name string `xml:"name,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(written(t, func(w io.Writer) error { return JUnit(w, set(t)...) }), &doc); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range doc.Suites {
		names[s.Name] = true
	}
	if len(names) != 9 || !names["drainproof preStop 5 s repeat 2"] || doc.Tests != 18 || doc.Failures != 3 {
		t.Errorf("%d tests, %d failures, suites %v", doc.Tests, doc.Failures, names)
	}
	if _, ok := errors.AsType[*render.NoRecordsError](JUnit(io.Discard)); !ok {
		t.Error("no trial gives test results")
	}
}

func TestMatrixRefuses(t *testing.T) {
	hole := set(t)[1:]
	_, isHole := errors.AsType[*render.HoleError](Matrix(io.Discard, hole, render.Opts{}))
	_, isHoleToo := errors.AsType[*render.HoleError](MatrixMarkdown(io.Discard, hole))
	if !isHole || !isHoleToo {
		t.Error("a set with a hole is drawn")
	}
	for want, edit := range map[string]func(*record.Record){
		"config.traffic.rate":            func(r *record.Record) { r.Config.Traffic.Rate = 7 },
		"config.probe":                   func(r *record.Record) { r.Config.Probe = &record.ProbeConfig{} },
		"environment.proxy_mode":         func(r *record.Record) { r.Environment.ProxyMode = nil },
		"config.traffic.expect":          func(r *record.Record) { r.Config.Traffic.Expect = "200" },
		"config.traffic.whole_timeout_n": func(r *record.Record) { r.Config.Traffic.WholeNs = 1 },
	} {
		mixed := set(t)
		edit(&mixed[1].Record)
		err := Matrix(io.Discard, mixed, render.Opts{})
		if e, ok := errors.AsType[*render.MixedError](err); !ok || !strings.HasPrefix(e.What, want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
	if err := Matrix(io.Discard, append(set(t), in(records.Exit())), render.Opts{}); fault.CodeOf(err) != fault.Usage {
		t.Errorf("a trial of flows among tests: %v", err)
	}
	if _, ok := errors.AsType[*render.NoRecordsError](Matrix(io.Discard, nil, render.Opts{})); !ok {
		t.Error("nothing is drawn")
	}
}

func TestMatrixTellsOfDoubts(t *testing.T) {
	in := set(t)
	in[0].Record.Verdict = &record.Verdict{Result: record.Inconclusive, Reason: "the client fell behind"}
	in[4].Record.Latency = new(*in[4].Record.Latency)
	in[4].Record.Latency.During = nil
	out := string(written(t, func(w io.Writer) error { return MatrixMarkdown(w, in) }))
	for _, want := range []string{"3 (1 inconclusive)", "| 0 of 20 | none | not measured |"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestVerboseTellsEveryFailure(t *testing.T) {
	r := judged(t, lossy(), "")
	out := string(written(t, func(w io.Writer) error { return Summary(w, in(r), render.Opts{Verbose: true}) }))
	if n := strings.Count(out, "unattributed: "); n != len(r.Failures) {
		t.Errorf("%d causes of %d are told", n, len(r.Failures))
	}
}
