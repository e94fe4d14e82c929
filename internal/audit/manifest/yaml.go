package manifest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxAliased is how many nodes the aliases of a document may stand for. A text that
// needs more is an attack on its readers.
const maxAliased = 100_000

// yamlReader reads a document with a whole YAML parser and turns its nodes into ours.
type yamlReader struct {
	*builder
	// lines are the document's, needed where columns must be counted in bytes; nil if it is all ASCII.
	lines []string
	// offset is the number of lines before the document, last the number of its last line.
	offset, last int
	anchored     map[*yaml.Node]*anchored
	aliased      int
	depth        int
}

// anchored is a node that aliases may stand for.
type anchored struct {
	node node
	size int
	done bool
}

// placed is an error with its line in the file.
type placed struct {
	line int
	text string
}

func (p *placed) Error() string { return p.text }

// errKeyNotText is a map or a list in the place of a key, as an unquoted {{ gives.
var errKeyNotText = errors.New("a map or a list stands where a key is expected")

// decode reads all documents of a text with the whole parser, as its nodes.
func decode(r io.Reader) (docs []*yaml.Node, err error) {
	defer func() {
		// The parser panics on some broken texts.
		if recover() != nil {
			err = errors.New("yaml: the parser gave up")
		}
	}()
	for dec := yaml.NewDecoder(r); ; {
		doc := new(yaml.Node)
		switch err := dec.Decode(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, doc)
	}
}

// readYAML reads the document s, before which the file has offset lines. An error is a *placed where its line is known.
func (b *builder) readYAML(s string, offset int) ([]node, error) {
	docs, err := decode(strings.NewReader(s))
	if err != nil {
		return nil, err
	}
	r := yamlReader{builder: b, offset: offset, last: offset + strings.Count(strings.TrimSuffix(s, "\n"), "\n") + 1}
	if strings.IndexFunc(s, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
		r.lines = strings.Split(s, "\n")
	}
	roots := make([]node, len(docs))
	for i, d := range docs {
		if d.Kind != yaml.DocumentNode || len(d.Content) == 0 {
			continue
		}
		if _, err := r.convert(&roots[i], d.Content[0]); err != nil {
			return nil, err
		}
	}
	return roots, nil
}

// convert gives the number of nodes that n stands for, aliases written out.
func (r *yamlReader) convert(to *node, n *yaml.Node) (size int, err error) {
	if r.depth++; r.depth > maxDepth {
		return 0, r.wrong(n, "more than %d collections are nested", maxDepth)
	}
	defer func() { r.depth-- }()
	if n.Kind == yaml.AliasNode {
		return r.alias(to, n)
	}
	to.place(r.line(n), r.column(n))
	var mark *anchored
	if n.Anchor != "" {
		if r.anchored == nil {
			r.anchored = make(map[*yaml.Node]*anchored)
		}
		mark = new(anchored)
		r.anchored[n] = mark
	}
	switch n.Kind {
	case yaml.MappingNode:
		size, err = r.fields(to, n)
	case yaml.SequenceNode:
		size, err = r.list(to, n)
	default:
		size = 1
		scalarOf(to, n)
	}
	if mark != nil && err == nil {
		*mark = anchored{node: *to, size: size, done: true}
	}
	return size, err
}

func (r *yamlReader) alias(to *node, n *yaml.Node) (int, error) {
	mark := r.anchored[n.Alias]
	if mark == nil || !mark.done {
		return 0, r.wrong(n, "the alias *%s stands inside what it stands for", n.Value)
	}
	if r.aliased += mark.size; r.aliased > maxAliased {
		return 0, r.wrong(n, "its aliases stand for more than %d fields", maxAliased)
	}
	*to = mark.node
	to.place(r.line(n), r.column(n))
	return mark.size, nil
}

func scalarOf(to *node, n *yaml.Node) {
	to.kind, to.text = String, n.Value
	quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case n.Style&yaml.TaggedStyle == 0:
		if !quoted {
			to.kind, to.text = resolve(n.Value)
		}
	case n.Tag == "!!null", n.Tag == "!!bool", n.Tag == "!!int", n.Tag == "!!float":
		to.kind, to.text = resolve(n.Value)
	}
}

func (r *yamlReader) list(to *node, n *yaml.Node) (int, error) {
	to.kind = List
	from, size := len(r.stack), 1
	for _, c := range n.Content {
		var child node
		s, err := r.convert(&child, c)
		if err != nil {
			return 0, err
		}
		size += s
		r.push(child)
	}
	to.items = r.take(from)
	return size, nil
}

func (r *yamlReader) fields(to *node, n *yaml.Node) (int, error) {
	to.kind = Map
	from, size := len(r.stack), 1
	var merges []node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		line := r.line(k)
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return 0, &keyNotText{placed{int(line), errKeyNotText.Error()}}
		}
		var child node
		s, err := r.convert(&child, n.Content[i+1])
		if err != nil {
			return 0, err
		}
		size += s
		if k.Value == "<<" && (k.Tag == "!!merge" || k.Tag == "!") {
			merges = append(merges, child)
			continue
		}
		child.under(k.Value, line)
		r.push(child)
	}
	if first, second := r.twice(from); second != nil {
		return 0, &placed{int(second.line) - int(second.above), givenTwice(first, second)}
	}
	for i := range merges {
		if err := r.merge(from, &merges[i]); err != nil {
			return 0, err
		}
	}
	to.items = r.take(from)
	return size, nil
}

// merge adds the fields of a map, or of a list of maps, that are not there yet. Convert
// has counted them already.
func (r *yamlReader) merge(from int, n *node) error {
	switch n.kind {
	case List:
		for i := range n.items {
			if n.items[i].kind == List {
				return &placed{int(n.line), errMerge}
			}
			if err := r.merge(from, &n.items[i]); err != nil {
				return err
			}
		}
		return nil
	case Map:
	default:
		return &placed{int(n.line), errMerge}
	}
	have := make(map[string]bool, len(r.stack)-from)
	for _, f := range r.stack[from:] {
		have[f.key] = true
	}
	for _, f := range n.items {
		if !have[f.key] {
			r.push(f)
		}
	}
	return nil
}

const errMerge = "<< takes a map or a list of maps"

// keyNotText is errKeyNotText with its place.
type keyNotText struct{ placed }

func (*keyNotText) Unwrap() error { return errKeyNotText }

func (r *yamlReader) line(n *yaml.Node) int32 {
	// A few characters are line breaks to the parser and to nobody else.
	return int32(min(n.Line+r.offset, r.last))
}

// column counts bytes; the parser counts characters.
func (r *yamlReader) column(n *yaml.Node) int {
	if r.lines == nil || n.Line > len(r.lines) {
		return n.Column
	}
	left := n.Column - 1
	for i := range r.lines[n.Line-1] {
		if left == 0 {
			return i + 1
		}
		left--
	}
	return len(r.lines[n.Line-1]) + 1
}

func (r *yamlReader) wrong(n *yaml.Node, format string, args ...any) error {
	return &placed{int(r.line(n)), fmt.Sprintf(format, args...)}
}
