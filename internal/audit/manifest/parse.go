package manifest

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
	"unicode/utf16"
	"unsafe"
)

// Parse gives all objects of a YAML or JSON text, of one document or many, in their
// order; Lists are taken apart, empty documents skipped. The file's name goes into
// objects and errors; without one the objects are a cluster's and have no lines.
//
// Every error is a *fault.Error of the usage kind that starts with FILE:LINE. The first document that
// cannot be read ends the reading. One that is read and holds no object does not: then the objects of
// the others come together with an error that is ErrNoObject.
func Parse(file string, text []byte) ([]*Object, error) {
	p := parsers.Get().(*parser)
	defer p.release()
	p.file = file
	text = plainBytes(text)
	// The text is only looked at until Parse returns: what is kept is copied.
	if err := p.documents(unsafe.String(unsafe.SliceData(text), len(text))); err != nil {
		return nil, err
	}
	return p.objects, p.noObject
}

// parser is the state of one Parse.
type parser struct {
	builder
	plain    plain
	file     string
	objects  []*Object
	noObject error
	// names holds the keys of kept objects, each once.
	names map[string]string
}

// parsers saves the working memory from one text to the next: a folder holds thousands.
var parsers = sync.Pool{New: func() any { return &parser{names: make(map[string]string)} }}

func (p *parser) release() {
	p.forget()
	*p = parser{builder: p.builder, plain: plain{buf: p.plain.buf}, names: p.names}
	parsers.Put(p)
}

// plainBytes gives UTF-8 with LF at the ends of lines, whatever an editor or a shell made of it.
func plainBytes(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	}
	if order != nil {
		units := make([]uint16, 0, len(text)/2)
		for rest := text[2:]; len(rest) >= 2; rest = rest[2:] {
			units = append(units, order.Uint16(rest))
		}
		text = []byte(string(utf16.Decode(units)))
	}
	if bytes.Contains(text, []byte("\r\n")) {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	return text
}

// documents splits a text at the lines that part documents. A reader of a stream would do it too, but
// counts the lines of its errors from where it likes.
func (p *parser) documents(s string) error {
	for line, from := 1, 0; s != ""; {
		end := nextMarker(s, from)
		if err := p.document(s[:end], line); err != nil {
			return err
		}
		p.forget()
		line += strings.Count(s[:end], "\n")
		s, from = s[end:], 0
		if s == "" {
			break
		}
		row, rest, _ := strings.Cut(s, "\n")
		content := strings.TrimLeft(row[3:], " \t\r")
		if content == "" || content[0] == '#' || row[0] == '.' {
			s = rest
			line++
		} else {
			from = len(row) // the document starts on its marker's line
		}
	}
	return nil
}

// nextMarker finds the first line that starts with --- or ..., at from (a line's start or end) or later.
func nextMarker(s string, from int) int {
	if from == 0 && isMarker(s) {
		return 0
	}
	end := len(s)
	for _, m := range []string{"\n---", "\n..."} {
		for at := from; ; {
			i := strings.Index(s[at:end], m)
			if i < 0 {
				break
			}
			if at += i + 1; isMarker(s[at:]) {
				end = at
				break
			}
		}
	}
	return end
}

func isMarker(s string) bool {
	return (strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...")) && (len(s) == 3 || strings.IndexByte(" \t\r\n", s[3]) >= 0)
}

// contentOf gives the place of the first byte that is neither space nor comment nor directive; len(s) without one.
func contentOf(s string) int {
	for at := 0; at < len(s); {
		row, _, _ := strings.Cut(s[at:], "\n")
		content := strings.TrimLeft(row, " \t\r")
		if content != "" && content[0] != '#' && row[0] != '%' {
			return at + len(row) - len(content)
		}
		at += len(row) + 1
	}
	return len(s)
}

// document reads one document, whose first line has the given number.
func (p *parser) document(s string, line int) error {
	s = strings.TrimPrefix(s, "\ufeff")
	at := contentOf(s)
	if at == len(s) {
		return nil
	}
	var wrong error
	if s[at] == '{' || s[at] == '[' {
		j := jsonScanner{builder: &p.builder, s: s, i: at, line: int32(line + strings.Count(s[:at], "\n")), start: strings.LastIndexByte(s[:at], '\n') + 1}
		var roots []node
		for j.wrong == "" && j.more() {
			if root, ok := j.value(); ok {
				roots = append(roots, root)
			}
		}
		if j.wrong == "" {
			return p.roots(roots)
		}
		p.stack = p.stack[:0]
		if j.again {
			return p.syntax(int(j.line), "", "%s", j.wrong)
		}
		if inside := strings.TrimLeft(s[at+1:], " \t\r\n"); inside != "" && strings.IndexByte(`"}`, inside[0]) >= 0 {
			wrong = p.syntax(int(j.line), "", "not valid JSON: %s", j.wrong)
		}
	} else {
		p.plain.builder = &p.builder
		if root, ok := p.plain.document(s, int32(line)); ok {
			return p.add(&root)
		}
		p.stack = p.stack[:0]
	}
	roots, err := p.readYAML(s, line-1)
	if err == nil {
		return p.roots(roots)
	}
	p.stack = p.stack[:0]
	if at := templateLine(s); at > 0 {
		return p.template(line + at - 1)
	}
	if wrong != nil {
		return wrong
	}
	return p.explain(s, line, err)
}

func (p *parser) roots(roots []node) error {
	for i := range roots {
		if err := p.add(&roots[i]); err != nil {
			return err
		}
	}
	return nil
}
