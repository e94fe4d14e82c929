package htmlview

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func inputs(list ...record.Record) []render.Input {
	var in []render.Input
	for _, r := range list {
		in = append(in, render.Input{Path: "out/" + r.ID + "/record.json", Record: r})
	}
	return in
}

func pageOf(t testing.TB, list ...record.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, inputs(list...), Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// plainOf is the page's own HTML, without scripts, styles and data, with plain spaces between numbers and units.
func plainOf(t testing.TB, list ...record.Record) string {
	t.Helper()
	v, err := viewOf(inputs(list...))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := body.Execute(&b, v); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(b.String(), "\u00a0", " ")
}

// A browser breaks no line between a number and its unit.
func TestUnitsStayWithTheirNumbers(t *testing.T) {
	r := records.RolloutLossy()
	r.Verdict.Reason = "p99 was 512 ms (budget 500ms)"
	if page := pageOf(t, r); !strings.Contains(page, "512\u00a0ms") || strings.Contains(page, "512 ms (") {
		t.Error("the verdict's reason has a plain space in it")
	}
}

func samples() []records.Sample { return append(records.Tests(), records.Named()...) }

// What is seen without a script: verdict, numbers, doubts, drawings, tables.
func TestPlainPages(t *testing.T) {
	for _, s := range samples() {
		if slices.Contains([]string{"rollout-lossy", "drain", "incomplete"}, s.Name) {
			testkit.Golden(t, s.Name+".html", []byte(plainOf(t, s.Record)))
		}
	}
	testkit.Golden(t, "set.html", []byte(regexp.MustCompile(`(?s)<details class="one".*</details>`).ReplaceAllString(plainOf(t, records.Matrix("iptables", 2)...), "(the trials)")))
}

func TestSamePagesForSameRecords(t *testing.T) {
	for _, s := range samples() {
		if first, second := pageOf(t, s.Record), pageOf(t, s.Record); first != second {
			t.Errorf("%s: two pages of one record differ", s.Name)
		}
	}
	forward := records.Matrix("iptables", 2)
	back := slices.Clone(forward)
	slices.Reverse(back)
	if pageOf(t, forward...) != pageOf(t, back...) {
		t.Error("the order of the inputs shows in the page")
	}
}

// The policy names every script and style of the page by its digest, and nothing else is allowed.
func TestPolicyNamesWhatIsThere(t *testing.T) {
	page := pageOf(t, records.RolloutLossy())
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)[1]
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("policy %q allows more than the page's own", policy)
	}
	seen := 0
	for _, m := range regexp.MustCompile(`(?s)<(script|style)>(.*?)</(?:script|style)>`).FindAllStringSubmatch(page, -1) {
		seen++
		if !strings.Contains(policy, m[1]+"-src") || !strings.Contains(policy, digest(m[2])) {
			t.Errorf("a %s of %d bytes is not named", m[1], len(m[2]))
		}
	}
	if seen != 3 {
		t.Errorf("%d scripts and styles, not 3", seen)
	}
	if m := regexp.MustCompile(`(?i)(?:src|href)="(?:https?:)?//`).FindString(page); m != "" {
		t.Errorf("the page loads %q", m)
	}
	if !strings.Contains(page, strings.TrimSpace(chartLicense)) {
		t.Error("the chart library's licence is not in the page")
	}
}

// skeleton lists the elements of a page with their attributes' names, whatever the texts are.
func skeleton(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return list
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			names := []string{tok.Data}
			for _, a := range tok.Attr {
				names = append(names, a.Key)
			}
			list = append(list, strings.Join(names, " "))
		}
	}
}

// replaceTexts gives a copy of a record in which every text that no closed list holds is another.
func replaceTexts(t *testing.T, r record.Record, with func(string) string) record.Record {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out record.Record
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	walk(reflect.ValueOf(&out).Elem(), with)
	return out
}

func walk(v reflect.Value, with func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() && v.CanSet() && v.String() != "" {
			v.SetString(with(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), with)
		}
	case reflect.Interface:
		if s, ok := v.Interface().(string); ok && v.CanSet() {
			v.Set(reflect.ValueOf(with(s)))
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), with)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if s, ok := v.MapIndex(k).Interface().(string); ok {
				v.SetMapIndex(k, reflect.ValueOf(with(s)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				walk(v.Field(i), with)
			}
		}
	}
}

// hostile adds a payload to every text.
func hostile(payload string) func(string) string {
	return func(s string) string { return s + payload }
}

// No text of a record becomes markup, a script or a control character.
func TestTextsStayTexts(t *testing.T) {
	benign := hostile("xx")
	for _, payload := range []string{
		`</script><script>pwned()</script>`, `"><img src=x onerror=pwned()>`, `<!--<script>`, `{{.}}`, "' onmouseover='pwned()", "\x1b[31m\x00\u202e\u2028", `]]></svg><b id=pwned>`, `</title></style>`,
	} {
		for _, s := range []record.Record{records.RolloutLossy(), records.Drain(), records.Incomplete()} {
			page := pageOf(t, replaceTexts(t, s, hostile(payload)))
			want := skeleton(t, pageOf(t, replaceTexts(t, s, benign)))
			if got := skeleton(t, page); !slices.Equal(got, want) {
				t.Errorf("%q in %s: the page has other elements", payload, s.ID)
			}
			if i := strings.IndexFunc(page, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == '\u202e' || r == '\u2028' }); i >= 0 {
				t.Errorf("%q in %s: control character %q", payload, s.ID, page[i:i+3])
			}
			if head, _ := islandOf(t, page); !json.Valid(head) {
				t.Errorf("%q in %s: the data is no JSON", payload, s.ID)
			}
		}
	}
}

// islandOf unpacks the data of a page's first trial: its JSON, and the bytes of its vectors.
func islandOf(t *testing.T, page string) (head, vectors []byte) {
	t.Helper()
	var text strings.Builder
	for _, m := range regexp.MustCompile(`<script type="text/plain" data-of="0">([^<]*)</script>`).FindAllStringSubmatch(page, -1) {
		if len(m[1]) > 1<<16 {
			t.Errorf("a part of the data has %d characters: Chromium is slow with more than 64 KiB", len(m[1]))
		}
		text.WriteString(m[1])
	}
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text.String())))
	if err != nil {
		t.Fatalf("the data of the page: %v", err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("the data of the page: %v", err)
	}
	n := binary.LittleEndian.Uint64(all)
	return all[8 : 8+n], all[8+(n+7)/8*8:]
}

// Vectors come back as they were, nulls apart from zeros, in the narrowest form.
func TestVectorsKeepEveryNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{0, 1, 254, 255, 256, 65534, 65535, 65536, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1 << 52}).Draw(t, "most")
		least := rapid.SampledFrom([]int64{0, 0, -1, -1 << 40}).Draw(t, "least")
		value := rapid.OneOf(rapid.Int64Range(least, most), rapid.SampledFrom([]int64{least, most}))
		var list []*int64
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			if rapid.Bool().Draw(t, "known") {
				list = append(list, new(value.Draw(t, "value")))
			} else {
				list = append(list, nil)
			}
		}
		v := &vectors{}
		number(v, 3, func(i int) int { return i }) // something before it
		x := optional(v, len(list), func(i int) *int64 { return list[i] })
		for i, want := range list {
			got := read(v.data, x, i)
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Fatalf("%d of %+v is not what it was", i, x)
			}
		}
	})
}

// read does what the script does.
func read(data []byte, x vector, i int) *int64 {
	if x.All {
		return x.One
	}
	at := data[x.At:]
	var n int64
	switch x.Type {
	case "u8":
		n = int64(at[i])
	case "u16":
		n = int64(binary.LittleEndian.Uint16(at[2*i:]))
	case "u32":
		n = int64(binary.LittleEndian.Uint32(at[4*i:]))
	default:
		f := math.Float64frombits(binary.LittleEndian.Uint64(at[8*i:]))
		if math.IsNaN(f) {
			return nil
		}
		return new(int64(f))
	}
	if x.Null {
		if n == 0 {
			return nil
		}
		n--
	}
	return &n
}

// A number that was not measured is nowhere: each of these has digits that nothing else in the record has.
func TestNullsAreNotMeasured(t *testing.T) {
	base := func() record.Record {
		r := replaceTexts(t, records.RolloutLossy(), func(s string) string { return s })
		for i, q := range []*record.Quantiles{r.Latency.Before, r.Latency.During, r.Latency.After} {
			n := int64(i+1) * 111
			*q = record.Quantiles{Count: n, MinNs: (n + 40000) * 1e6, P50Ns: (n + 50000) * 1e6, P90Ns: (n + 60000) * 1e6, P99Ns: (n + 70000) * 1e6, P999Ns: (n + 80000) * 1e6, MaxNs: (n + 90000) * 1e6, Histogram: q.Histogram}
		}
		r.Latency.DuringToTNs = new(int64(77_777e6))
		r.Users.Hurt, r.Requests.Failed = 4711, 8642
		r.Verdict.Checks[0].Seen = new(98765.0)
		r.Windows[0].Ns = new(int64(66_666e6))
		return r
	}
	for _, c := range []struct {
		name   string
		drop   func(*record.Record)
		digits []string
	}{
		{"latency before", func(r *record.Record) { r.Latency.Before = nil }, []string{"40.11 s", "70.11 s", "90.11 s"}},
		{"latency during", func(r *record.Record) { r.Latency.During = nil }, []string{"50.22 s", "70.22 s"}},
		{"latency after", func(r *record.Record) { r.Latency.After = nil }, []string{"60.33 s", "80.33 s"}},
		{"latency", func(r *record.Record) { r.Latency = nil }, []string{"70.11 s", "70.22 s", "70.33 s", "77.78 s"}},
		{"end of the disruption", func(r *record.Record) { r.Latency.DuringToTNs = nil }, []string{"77.78 s", "77.777 s"}},
		{"users", func(r *record.Record) { r.Users = nil }, []string{"4,711"}},
		{"requests", func(r *record.Record) { r.Requests = nil }, []string{"8,642"}},
		{"what a check saw", func(r *record.Record) { r.Verdict.Checks[0].Seen = nil }, []string{"98765"}},
		{"a window", func(r *record.Record) { r.Windows[0].Ns = nil }, []string{"66.67 s"}},
	} {
		full, r := base(), base()
		c.drop(&r)
		with, without := plainOf(t, full), plainOf(t, r)
		for _, d := range c.digits {
			if !strings.Contains(with, d) {
				t.Errorf("%s: %q is not shown where it was measured", c.name, d)
			}
			if strings.Contains(without, d) {
				t.Errorf("%s: %q is shown, and was not measured", c.name, d)
			}
		}
		if strings.Count(without, "not measured") <= strings.Count(with, "not measured") && c.name != "requests" {
			t.Errorf("%s: nothing says that it was not measured", c.name)
		}
	}
}

// A record with nothing in it opens and has no number but its own zeros.
func TestAnEmptyRecordOpens(t *testing.T) {
	for name, r := range map[string]record.Record{
		"empty":           {Schema: record.Schema},
		"empty test":      {Schema: record.Schema, Config: record.Config{Traffic: &record.Traffic{}}},
		"without a count": {Schema: record.Schema, Requests: &record.Requests{Series: &record.Series{BucketNs: 1}}},
		"unsound series":  {Schema: record.Schema, Requests: &record.Requests{Series: &record.Series{BucketNs: 1e8, Sent: []int64{1, 2}, Failed: []int64{1}}}},
	} {
		page := pageOf(t, r)
		for _, want := range []string{"Not judged", "not measured", "The record is incomplete.", "The record holds no"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not say %q", name, want)
			}
		}
		if tiles := regexp.MustCompile(`(?s)<dl class="tiles">(.*?)</dl>`).FindStringSubmatch(page)[1]; name == "empty" && regexp.MustCompile(`<dd class="value">[^<]*\d`).MatchString(tiles) {
			t.Errorf("%s: a number in %s", name, tiles)
		}
	}
	if err := Write(&bytes.Buffer{}, nil, Options{}); err == nil {
		t.Error("a page is made of no record")
	} else if _, ok := errors.AsType[*render.NoRecordsError](err); !ok {
		t.Errorf("error is %v", err)
	}
}

// Records of earlier releases open, one by one and as a set.
func TestPublishedRecordsOpen(t *testing.T) {
	paths, err := filepath.Glob("../../../results/*/*/repeat-01")
	if err != nil || len(paths) < 10 {
		t.Fatalf("only %d published records (%v)", len(paths), err)
	}
	for _, p := range paths {
		r, err := record.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		page := pageOf(t, r)
		for _, want := range []string{"What to doubt", `<svg class="drawing lanes"`, r.ID} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q", p, want)
			}
		}
	}
}

func TestASetWithAHoleSaysSo(t *testing.T) {
	list := records.Matrix("iptables", 3)
	page := plainOf(t, list[1:]...)
	if !strings.Contains(page, "Nothing is averaged") || !strings.Contains(page, `repeat 1 of arm`) {
		t.Error("the hole is not told")
	}
	if whole := plainOf(t, list...); strings.Contains(whole, "Nothing is averaged") {
		t.Error("a whole set is doubted")
	}
	for i := range list {
		if want := fmt.Sprintf(`href="#trial-%d"`, i+1); i < len(list)-1 && (!strings.Contains(page, want) || !strings.Contains(page, fmt.Sprintf(`id="trial-%d"`, i+1))) {
			t.Errorf("no way to trial %d", i+1)
		}
	}
}

// What agents told over a set's arms is in its page; over one with a hole nothing is.
func TestASetTellsWhatAgentsTold(t *testing.T) {
	paths, err := record.Find("../../../results/evidence/dead-endpoint")
	if err != nil {
		t.Fatal(err)
	}
	var list []record.Record
	for _, p := range paths {
		r, err := record.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	tables := []string{"<h3>Causes</h3>", "572 dead-endpoint, 11 cut-by-exit, 3 stale-conntrack", "<h3>Order</h3>", "<h3>Dead endpoints</h3>"}
	whole, holed := setPart(t, plainOf(t, list...)), setPart(t, plainOf(t, list[1:]...))
	for _, want := range tables {
		if !strings.Contains(whole, want) {
			t.Errorf("no %q", want)
		}
		if strings.Contains(holed, want) {
			t.Errorf("%q of a set with a hole", want)
		}
	}
}

// setPart is what of a page is of all trials together.
func setPart(t *testing.T, page string) string {
	t.Helper()
	part, _, found := strings.Cut(page, `<details class="one"`)
	if !found {
		t.Fatal("the page has no trials")
	}
	return part
}

// A sentence comes back whole from its form and its numbers.
func TestSplitLosesNothing(t *testing.T) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"refused", "43", "(+150", "1,035)", "web-6d8f9", "ms;", "10.0.0.1:80", mark, "3.5", "", "-7", "+"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		sentence := strings.Join(rapid.SliceOf(word).Draw(t, "words"), " ")
		form, numbers := split(sentence)
		if len(numbers) == 0 {
			if form != sentence {
				t.Fatalf("%q became %q", sentence, form)
			}
			return
		}
		if strings.Count(form, mark) != len(numbers) {
			t.Fatalf("%q has %d numbers", form, len(numbers))
		}
		for _, n := range numbers {
			form = strings.Replace(form, mark, n, 1)
		}
		if form != sentence {
			t.Fatalf("%q came back as %q", sentence, form)
		}
	})
	form, numbers := split("refused 43 ms after web-6d8f9c7b5-2kxqp (+150 ms), 1 new Pod of v1.37.2")
	if want := "refused ␣ ms after web-6d8f9c7b5-2kxqp (+␣ ms), ␣ new Pod of v1.37.2"; form != want || !slices.Equal(numbers, []string{"43", "150", "1"}) {
		t.Errorf("%q with %q", form, numbers)
	}
}

// Wider buckets hold what the narrow ones held, and the trigger stays an edge.
func TestCoarsenKeepsCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "buckets")
		s := record.Series{BucketNs: 1e8, FromTNs: -int64(rapid.IntRange(0, 200).Draw(t, "before")) * 1e8}
		total := int64(0)
		for range n {
			v := int64(rapid.IntRange(0, 30).Draw(t, "sent"))
			s.Sent = append(s.Sent, v)
			total += v
		}
		c := coarsen(s, rapid.SampledFrom(widths).Draw(t, "width"), []string{"sent"}, [][]int64{s.Sent})
		sum := 0.0
		for k, rate := range c.Lines[0].Rates {
			sum += rate * float64(c.Edges[k+1]-c.Edges[k]) / 1e9
		}
		if sum < float64(total)-1e-6 || sum > float64(total)+1e-6 {
			t.Fatalf("%v of %d requests", sum, total)
		}
		if s.FromTNs < 0 && c.Edges[len(c.Edges)-1] > 0 && !slices.Contains(c.Edges, 0) {
			t.Fatalf("the trigger is no edge of %v", c.Edges)
		}
	})
}

// The lanes of a node's evidence, of a Pod that was replaced under its own name, and of rules that were there before.
func TestLanesOfNodesAndNamesakes(t *testing.T) {
	r := records.RolloutLossy()
	add := func(t int64, from record.EventFrom, kind record.EventKind, subject, uid, node string, detail map[string]any) {
		r.Events = append(r.Events, record.Event{ID: len(r.Events) + 1, TNs: t, Source: from, Kind: kind, Subject: subject, Bound: record.Exact, UncertaintyNs: new(int64(0)), PodUID: uid, Node: node, Detail: detail})
	}
	add(1e9, record.FromDataplane, record.RuleRemoved, "endpoint/web-0", "u1", "n1", map[string]any{"front": "f", "not_before_t_ns": json.Number("900000000")})
	add(2e9, record.FromDataplane, record.RuleAdded, "endpoint/web-0", "u2", "n1", map[string]any{"front": "f"})
	add(2e9, record.FromKernel, record.ResetSent, "pod/web-0", "u1", "n1", nil)
	add(2e9, record.FromConntrack, record.ConntrackDeleted, "node/n1", "", "n1", nil)
	add(2e9, record.FromKernel, record.SignalSent, "container/web-0/web", "u1", "n1", nil)
	add(3e9, record.FromKube, record.PodAdded, "pod/web-0", "u2", "n1", nil)
	m := modelOf(r)
	find := func(label, sub string) lane {
		t.Helper()
		i := slices.IndexFunc(m.lanes, func(l lane) bool { return l.Label == label && l.Sub == sub })
		if i < 0 {
			t.Fatalf("no lane %q %q", label, sub)
		}
		return m.lanes[i]
	}
	rules := find("n1", "rules")
	if len(rules.Bars) != 2 || rules.Bars[0].from != before || rules.Bars[0].to != 1e9 || rules.Bars[1].from != 2e9 || rules.Bars[1].to != beyond {
		t.Errorf("rules %+v", rules.Bars)
	}
	if k := find("n1", "kernel"); len(k.Marks) != 1 {
		t.Errorf("kernel %+v", k)
	}
	find("n1", "conntrack")
	if one, two := find("web-0 (u1)", "Pod"), find("web-0 (u2)", "Pod"); len(one.Marks) != 1 || len(two.Marks) != 1 {
		t.Errorf("namesakes %+v %+v", one, two)
	}
}

// A Pod is drawn as exited from when its last container was, as its termination says, and not from the news of it.
func TestExitIsTheTerminations(t *testing.T) {
	r := record.Record{
		Events: []record.Event{
			{ID: 1, TNs: 1e8, Source: record.FromKube, Kind: record.PodTerminating, Subject: "pod/a"},
			{ID: 2, TNs: 5e8, Source: record.FromKernel, Kind: record.ProcessExited, Subject: "container/a/web"},
			{ID: 3, TNs: 1e9, Source: record.FromKernel, Kind: record.ProcessExited, Subject: "container/a/side"},
			{ID: 4, TNs: 2e9, Source: record.FromKube, Kind: record.ContainerExited, Subject: "container/a/web"},
			{ID: 5, TNs: 3e9, Source: record.FromKube, Kind: record.PodRemoved, Subject: "pod/a"},
		},
		Terminations: []record.Termination{{Pod: "a", Containers: []record.ContainerEnd{
			{Name: "web", Exit: record.ProcessExit{Instant: record.Instant{TNs: new(int64(5e8)), Event: 2}}},
			{Name: "side", Exit: record.ProcessExit{Instant: record.Instant{TNs: new(int64(1e9)), Event: 3}}},
		}}},
	}
	exited := func() bar {
		bars := modelOf(r).podBars(&pod{pods: []int{0, 1, 2, 3, 4}})
		return bars[len(bars)-1]
	}
	if b := exited(); b.state != "exited" || b.from != 1e9 || b.to != 3e9 || b.event != 2 {
		t.Errorf("%+v", b)
	}
	r.Terminations = nil
	if b := exited(); b.state != "exited" || b.from != 2e9 {
		t.Errorf("without an agent: %+v", b)
	}
}

// A container's first process has its end and its signals written beside their marks; those of a probe's commands are only marked.
func TestWordsOfMarks(t *testing.T) {
	for _, c := range []struct {
		kind   record.EventKind
		detail map[string]any
		want   string
	}{
		{record.ProcessExited, map[string]any{"first_process": true, "exit_code": json.Number("137")}, "exit 137"},
		{record.ProcessExited, map[string]any{"first_process": false, "exit_code": json.Number("0")}, ""},
		{record.ProcessExited, nil, "exited"},
		{record.SignalSent, map[string]any{"signal_name": "SIGTERM"}, "SIGTERM"},
		{record.SignalSent, map[string]any{"signal_name": 15}, "signal"},
		{record.PodReady, nil, ""},
	} {
		if got := wordOf(record.Event{Kind: c.kind, Detail: c.detail}); got != c.want {
			t.Errorf("%s %v: %q, not %q", c.kind, c.detail, got, c.want)
		}
	}
}

// Every event of a record has one place on the timeline, so that a cause can point at it.
func TestEveryEventHasALane(t *testing.T) {
	for _, s := range samples() {
		m := modelOf(s.Record)
		places := make([]int, len(s.Record.Events))
		for _, l := range m.lanes {
			for _, i := range l.Marks {
				places[i]++
			}
		}
		for i, n := range places {
			if n != 1 {
				t.Errorf("%s: event %d (%s of %s) is in %d lanes", s.Name, s.Record.Events[i].ID, s.Record.Events[i].Kind, s.Record.Events[i].Subject, n)
			}
		}
	}
}

// A histogram that is none is no reason to fail, nor for a number.
func TestBrokenHistograms(t *testing.T) {
	for _, text := range []string{"", "x", "SElTVA", "HISTFAAAAAB4nGNgYA==", strings.Repeat("A", 4000)} {
		if p75, p95 := between(text); p75 != nil || p95 != nil {
			t.Errorf("%.20q has quantiles", text)
		}
	}
	if p75, p95 := between(records.RolloutLossy().Latency.During.Histogram); p75 == nil || p95 == nil || *p75 > *p95 {
		t.Errorf("p75 %v, p95 %v", p75, p95)
	}
}

// The chart library is what VERSION says, byte for byte.
func TestVendoredFilesAreUnchanged(t *testing.T) {
	version, err := os.ReadFile("assets/uplot/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"LICENSE": chartLicense, "uPlot.iife.min.js": chartScript, "uPlot.min.css": chartStyle} {
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name); !strings.Contains(string(version), want) {
			t.Errorf("%s has another digest than VERSION says", name)
		}
	}
	if !strings.Contains(pageText, "uPlot 1.6.32") || !strings.HasPrefix(string(version), "uPlot 1.6.32") {
		t.Error("the page and VERSION name different releases")
	}
}
