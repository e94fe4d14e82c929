package manifest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// fast and whole read one document in the two ways.
func fast(s string) (node, bool) {
	var b builder
	p := plain{builder: &b}
	return p.document(s, 1)
}

func whole(s string) (node, error) {
	var b builder
	roots, err := b.readYAML(s, 0)
	if err != nil {
		return node{}, err
	}
	if len(roots) != 1 {
		return node{}, fmt.Errorf("%d documents", len(roots))
	}
	return roots[0], nil
}

// difference says where two trees differ, or "".
func difference(path string, a, b *node) string {
	switch {
	case a.kind != b.kind || a.text != b.text:
		return fmt.Sprintf("%s: %d %q, but %d %q", path, a.kind, a.text, b.kind, b.text)
	case a.line != b.line || a.column != b.column || a.above != b.above:
		return fmt.Sprintf("%s: at %d:%d-%d, but at %d:%d-%d", path, a.line, a.column, a.above, b.line, b.column, b.above)
	case a.key != b.key:
		return fmt.Sprintf("%s: key %q, but %q", path, a.key, b.key)
	case len(a.items) != len(b.items):
		return fmt.Sprintf("%s: %d children, but %d", path, len(a.items), len(b.items))
	}
	for i := range a.items {
		if d := difference(fmt.Sprintf("%s[%d %s]", path, i, a.items[i].key), &a.items[i], &b.items[i]); d != "" {
			return d
		}
	}
	return ""
}

// agree holds the fast reader to its promise, document by document.
func agree(t *testing.T, text string) (read int) {
	t.Helper()
	s := string(plainBytes([]byte(text)))
	for s != "" {
		end := nextMarker(s, 0)
		doc := s[:end]
		if got, ok := fast(doc); ok {
			read++
			want, err := whole(doc)
			if err != nil {
				t.Fatalf("the fast reader accepts what the whole parser refuses: %v\n%q", err, doc)
			}
			if d := difference("", &got, &want); d != "" {
				t.Fatalf("the readers differ (fast first): %s\n%q", d, doc)
			}
		}
		_, s, _ = strings.Cut(s[end:], "\n")
	}
	return read
}

func TestPlainReadsManifests(t *testing.T) {
	if agree(t, web) != 1 {
		t.Error("the fast reader gives up on a common manifest")
	}
	if n := agree(t, benchText(200)); n != 200 {
		t.Errorf("the fast reader gives up on %d of 200 common manifests", 200-n)
	}
}

// odd are texts at the border of what the fast reader knows. They also seed the fuzzers.
var odd = []string{
	"a: b", "a:", "a:\n", "a: \n", "a:   # c\n", "a: b # c\n", "a: b#c\n", "a: 'b' # c\n", "a: 'b'#c\n", "a: \"b\" c\n", "a : b\n", "a:b\n", "a:\tb\n", "a: b\t\n",
	"a:\n- b\n", "a:\n- b\n-c\n", "a:\n  - b\n  - c\nd: e\n", "a:\n  - b\n d: e\n", "a:\n- - b\n  - c\n- d\n", "a:\n-\n- b\n", "a:\n- # x\n  b: c\n", "- a: b\n  c: d\n- e\n",
	"a:\n- b: c\n  d:\n  - e\n  -  f: g\n     h: i\n", "a:\n- b: c\n d: e\n", "- a\n b: c\n", "- - - a\n", "-   a:\n    - b\n", "- a:\n  - b\n", "- a:\n  b\n", "-\n  a: b\n", "- \n\n  # x\n  - a\n",
	"a: b\n  c\n", "a: b\n  c: d\n", "a: b\n  c # d\n", "a: b\n  # c\n  d\n", "a: b\n\n  c\n", "a: b # x\n  c\n", "a: b\n  - c\n", "a:\n  b\n", "a:\n  b\n  c: d\n", "- a\n  b\n", "- a\n b\n", "- a\nb\n", "a: b\n c\nd: e\n",
	"a: |\n  b\n", "a: |\n  b", "a: |-\n  b\n\n\n", "a: |+\n  b\n\n\n", "a: |+\n  b\n\n\nc: d\n", "a: |\n\n  b\n   c\n d: e\n", "a: |\n    b\n  c\n", "a: |\n", "a: |\nb: c\n", "a: | # x\n  b\n", "a: |2\n    b\n",
	"a: |\n  b\n \n  c\n", "a: |\n  b\n   \n  c\n", "a: |\n  \tb\n", "a: |\n\tb\n", "a: |\n   \n  b\n", "a: |\n  # b\n# c\nd: e\n", "- |\n  a\n- b\n", "- |\n a\n- b\n", "a:\n- |\n  b\n", "a:\n- |\n b\n- c: |\n   d\n",
	"a: |\n  b\n  \nc: d\n", "a: |-\n  b\n   \nc: d\n", "a: >\n  b\n  c\n", "a: >-\n  b\n", "a: |\n  ---\n", "a: |\n  b\n\t\n  c\n", "a: |\n  b\n  \t\n  c\n",
	"a: [b, c]\n", "a: []\n", "a: [ ]\n", "a: {}\n", "a: [b, 'c', \"d\", 5, -1, --x, -]\n", "a: [b,]\n", "a: [b: c]\n", "a: {b: c, d: {e: [f]}}\n", "a: {b:c}\n", "a: {b}\n", "a: {b: }\n", "a: {\"b\":c}\n", "a: {\"b\": c}\n",
	"a: [b\n  c]\n", "a: [b] # c\n", "a: [b] c\n", "a: [b]: c\n", "[a]: b\n", "{a: b}: c\n", "a: [a b, c  d, e ]\n", "a: [http://x:80/y, nginx:1.2]\n", "a: [a:, b]\n", "a: {a: b, a: c}\n", "a: {b: c d: e}\n", "a: {b : c}\n", "a: [a#b, c #d]\n",
	"a: [x?y]\n", "a: [a@b, @c]\n", "a: {b: -}\n", "a: [-, -x]\n", "a: [---]\n", "a: [[[a]]]\n", "- [a]\n- {b: c}\n", "- {a: b}\n  c: d\n", "a: {ü: b}\n", "ü: b\n", "a: ü\n", "a: 'ü' # ü\nb: {c: ü}\n", "a: ü\u2028b\n", "a: \ufeffb\n",
	"a: &x b\nc: *x\n", "a: !!str 5\n", "a: *x\n", "? a\n: b\n", "a: ? b\n", "a: @b\n", "a: `b`\n", "a: %b\n", "%a: b\n", "a: !b\n", "<<: {a: b}\n", "a: <<\n", "a: =\n", "=: a\n", "a: , b\n", "a: ]\n", "a: :b\n", "a: - b\n", "a: -b\n", "a: -\n", "a: --- b\n", "a: ...\n", "... : a\n", "...: a\n",
	"a: \"b\\n\\t\\\"\\\\\"\n", "a: \"\\x41\"\n", "a: \"\\/\"\n", "a: \"\\\n  b\"\n", "a: \"b\n  c\"\n", "a: 'b''c'\n", "a: ''\n", "a: ''''\n", "a: '\n", "a: \"\\\"\n", "'a': b\n", "\"a\": b\n", "\"a\":b\n", "\"a\" : b\n", "'a''b': c\n", "- 'a': b\n", "- 'a'\n", "- \"a\": b\n  c: d\n",
	"a: b\na: c\n", "a:\n  b: c\n    d: e\n", "a:\n    b: c\n  d: e\n", " a: b\n", " a: b\nc: d\n", "a: b\n c: d\n", "a: null\nb: ~\nc: yes\nd: 0x1f\ne: 010\nf: 1_0\ng: .5\nh: 2024-01-01\n", "a: b: c\n", "a: b:\n", "a::\n", "a:: b\n", ": a\n", "a\n", "a b\nc: d\n", "# x\n", "\n\n", "a: b\n   # c\nd: e\n#f", "a: b\r\nc: d\r\n", "a: b\rc: d\n", "a: b\x00\n", "a: b\x7f\n",
	"a.b/c: d\n.x: y\n/z: w\n$v: u\n", "a: $(x) b\n", "a: (b)\n", "a: ~b\n", "a: ^b\n", "a: ;b\n", "a: \\b\n", "a: b\\\n", "a: \"b\" \n", "a:  b  \n", "a: b - c\n", "a: b ? c\n", "a: b, c]}\n", "a b: c\n", "a#b: c\n", "a #b: c\n", "a\"b: c\n", "a[0]: b\n", "a: b #\n", "a: #\n", "- #\n", "a: '#'\n", "a: x'y\n", "a: x\"y: z\n",
}

func TestPlainAgreesOnOddTexts(t *testing.T) {
	read := 0
	for _, text := range odd {
		read += agree(t, text)
		read += agree(t, "x:\n  "+strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")+"y: z\n")
		read += agree(t, "- "+strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")+"- z\n")
	}
	if read < len(odd) {
		t.Errorf("the fast reader read only %d of %d", read, 3*len(odd))
	}
}

// TestPlainAgreesOnBrokenTexts changes good texts here and there, the same way each time.
func TestPlainAgreesOnBrokenTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := append(strings.Split("a:|b: |- |  |    |\n|\n\n|\n  |\n- |\t|#| #|: |:|-|- - |'|\"|[|]|{|}|,|, |\\|\\n|&x |*x|<<: |!!str |>\n|~|null|0|.|---|...|ü|?|%|@", "|"), "|\n", "|-\n  ", "|+\n", "\r\n", "? ", "a: b\n")
	seeds := append([]string{web}, odd...)
	const tries = 30_000
	read := 0
	for range tries {
		text := seeds[rng.IntN(len(seeds))]
		if rng.IntN(3) == 0 {
			text += seeds[1+rng.IntN(len(odd))]
		}
		if len(text) > 300 {
			from := rng.IntN(len(text) - 200)
			text = text[from : from+200]
			if _, rest, ok := strings.Cut(text, "\n"); ok {
				text = rest
			}
		}
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(text) + 1)
			to := min(len(text), at+rng.IntN(3))
			text = text[:at] + pieces[rng.IntN(len(pieces))] + text[to:]
		}
		read += agree(t, text)
	}
	if read < tries/20 {
		t.Errorf("the fast reader read only %d of %d: the test proves little", read, tries)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add(web)
	for _, s := range odd {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}
