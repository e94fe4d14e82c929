package manifest

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

// What an error of Parse is, for errors.Is.
var (
	// ErrSyntax: a document is neither YAML nor JSON, or gives a key twice.
	ErrSyntax = errors.New("a document cannot be read")
	// ErrTemplate: a document has to be rendered first.
	ErrTemplate = errors.New("a document is a template")
	// ErrNoObject: a document is something else than a Kubernetes object.
	ErrNoObject = errors.New("a document holds no Kubernetes object")
)

// trouble says in its own words what its reason says in general.
type trouble struct {
	reason error
	text   string
}

func (t *trouble) Error() string { return t.text }
func (t *trouble) Unwrap() error { return t.reason }

func (p *parser) fault(reason error, line int, next, text string) error {
	where := "the API server's answer"
	if p.file != "" {
		where = fmt.Sprintf("%s:%d", p.file, line)
	}
	return &fault.Error{Code: fault.Usage, What: where, Next: next, Cause: &trouble{reason, text}}
}

func (p *parser) syntax(line int, next, format string, args ...any) error {
	return p.fault(ErrSyntax, line, next, fmt.Sprintf(format, args...))
}

func (p *parser) template(line int) error {
	return p.fault(ErrTemplate, line, "or let drainproof render it: drainproof audit --helm CHART",
		"this is a template, not a manifest; render it first (helm template ... | drainproof audit -f -)")
}

// skip notes that a document holds no object.
func (p *parser) skip(n *node, next, format string, args ...any) {
	if p.noObject == nil {
		p.noObject = p.fault(ErrNoObject, int(n.line), next, fmt.Sprintf(format, args...))
	}
}

var shapes = [...]string{Absent: "nothing", Null: "null", Bool: "truth value", Number: "number", String: "text", List: "list", Map: "map"}

func givenTwice(first, second *node) string {
	return fmt.Sprintf("the key %q is given twice, first on line %d", second.key, int(first.line)-int(first.above))
}

// incomplete says what a map without kind or apiVersion is.
func (p *parser) incomplete(root *node, apiVersion, kind string) error {
	has := func(keys ...string) bool {
		for _, k := range keys {
			if root.child(k) != nil {
				return true
			}
		}
		return false
	}
	const advice = "give files of Kubernetes objects, each with apiVersion and kind"
	switch {
	case keptKinds[kind] && has("metadata", "spec"):
		return p.syntax(int(root.line), "write which API version it is of", "this %s has no apiVersion", kind)
	case kind != "" && has("metadata", "spec"):
		p.skip(root, advice, "this %s has no apiVersion", kind)
	case has("apiVersion") && has("name") && has("version"):
		p.skip(root, "audit what it renders: drainproof audit --helm CHART", "this is a Helm chart's Chart.yaml, not a Kubernetes object")
	case apiVersion != "" && has("spec", "metadata"):
		return p.syntax(int(root.line), "write which kind it is", "this object of %s has no kind", apiVersion)
	case has("resources", "bases", "components", "patches", "patchesStrategicMerge", "patchesJson6902") && !has("image", "replicaCount", "service"):
		p.skip(root, "audit what it builds: drainproof audit -k DIR", "this is a kustomization without kind, not a Kubernetes object")
	case has("services") && has("version", "networks", "volumes", "name"):
		p.skip(root, advice, "this is a Compose file, not a Kubernetes object")
	case has("replicaCount", "image", "images", "global", "nameOverride", "fullnameOverride", "service", "ingress", "podAnnotations", "serviceAccount", "nodeSelector"):
		p.skip(root, "audit the chart that it belongs to: drainproof audit --helm CHART --values FILE", "this looks like a Helm values file: it has neither apiVersion nor kind")
	case len(root.items) > 0:
		p.skip(root, advice, "this map has neither apiVersion nor kind; it starts with %q", root.items[0].key)
	default:
		p.skip(root, advice, "this map is empty")
	}
	return nil
}

// templateLine finds the first line, from 1, that only a template can hold; 0 without one.
func templateLine(s string) int {
	n := 0
	for row := range strings.Lines(s) {
		n++
		if isTemplate(row) {
			return n
		}
	}
	return 0
}

func isTemplate(row string) bool {
	start := strings.TrimLeft(row, " \t-")
	return strings.HasPrefix(start, "{{") || strings.HasPrefix(start, "{%") || strings.Contains(row, ": {{")
}

// advices say what the parser's words mean to a person.
var advices = []struct{ words, next string }{
	{"tab", "YAML is indented with spaces: replace the tab"},
	{"cannot start any token", "put the text in quotes, and replace tabs by spaces"},
	{"did not find expected key", "check the indentation of this line against the lines above it"},
	{"did not find expected '-' indicator", "check the indentation of this line against the list above it"},
	{"mapping values are not allowed", "put the text in quotes if it holds a colon, or check the indentation"},
	{"could not find expected ':'", "a colon and a space part a key from its value"},
	{"block sequence entries are not allowed", "start the list on a line of its own"},
	{"unexpected end of stream", "close the quotes"},
	{"did not find expected ',' or", "close the bracket, or put a comma before the next value"},
	{"unknown anchor", "name the anchor with & before it is used"},
}

// explain turns an error of the whole parser into one with a line.
func (p *parser) explain(s string, line int, err error) error {
	if errors.Is(err, errKeyNotText) && strings.Contains(s, "{{") {
		return p.template(line + strings.Count(s[:strings.Index(s, "{{")], "\n"))
	}
	if at, ok := errors.AsType[*placed](err); ok {
		return p.syntax(at.line, "", "%s", at.text)
	}
	if at, ok := errors.AsType[*keyNotText](err); ok {
		return p.syntax(at.line, "", "%s", at.text)
	}
	at := failingLine(s)
	if rows := strings.Split(s, "\n"); at <= len(rows) && strings.Contains(rows[at-1], "{{") {
		return p.template(line + at - 1)
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if _, after, ok := strings.Cut(rest, ": "); ok {
			text = after
		}
	}
	next := "mend that line, or what is open before it"
	for _, a := range advices {
		if strings.Contains(text, a.words) {
			next = a.next
			break
		}
	}
	if strings.Contains(s, "{{") {
		next += "; if this is a template, render it first: helm template ... | drainproof audit -f -"
	}
	return p.syntax(line+at-1, next, "not valid YAML: %s", text)
}

// failingLine gives the line, from 1, that spoils a document: the one behind its longest
// beginning that can be read. The parser's own lines name the start of the collection, or are off by one.
func failingLine(s string) int {
	r := &rowReader{s: s}
	if _, err := decode(r); err == nil {
		return 1
	}
	bad := max(1, r.rows)
	if len(s) > 1<<20 {
		return bad
	}
	ends := make([]int, 1, bad+1)
	for row := range strings.Lines(s) {
		ends = append(ends, ends[len(ends)-1]+len(row))
	}
	bad = min(bad, len(ends)-1)
	good := 0
	for tries := 0; bad-good > 1; tries++ {
		k := (good + bad) / 2
		if tries < 8 {
			k = bad - 1
		}
		if _, err := decode(strings.NewReader(s[:ends[k]])); err != nil {
			bad = k
		} else {
			good = k
		}
	}
	return bad
}

// rowReader gives a line at a time, and counts them: the parser reads no further than it must.
type rowReader struct {
	s    string
	at   int
	rows int
}

func (r *rowReader) Read(b []byte) (int, error) {
	if r.at == len(r.s) {
		return 0, io.EOF
	}
	if r.at == 0 || r.s[r.at-1] == '\n' {
		r.rows++
	}
	row, _, _ := strings.Cut(r.s[r.at:], "\n")
	n := copy(b, r.s[r.at:min(r.at+len(row)+1, len(r.s))])
	r.at += n
	return n, nil
}
