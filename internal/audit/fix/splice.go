package fix

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// edit is one value of an object that shall be different.
type edit struct {
	// path names the field; what is missing on the way to it is made.
	path  string
	value tree
	// rename gives the field another name along with its value.
	rename string
}

// splice is a piece of text in the place of another.
type splice struct {
	at, end int
	text    string
	// indent orders what is inserted at one place: the deeper belongs to what
	// stands before it, so it comes first.
	indent int
}

// Reasons why a text is left alone.
var (
	errNoPlace = errors.New("its place in the file is not known")
	errAnchor  = errors.New("it stands behind an anchor, an alias or a tag: other places may share it")
	errTaken   = errors.New("something else is written there")
	errUnusual = errors.New("it is written in a way that cannot be edited safely")
	errSeveral = errors.New("its value spans several lines")
	errSpecial = errors.New("its value holds characters that need other quotes")
	errNoKey   = errors.New("its field was not found in the text")
	errComment = errors.New("a comment stands in what has to go")
)

// splice turns an edit of an object into one of its file's text. It trusts no
// more than positions; that the result means what it should is checked afterwards.
func (p *page) splice(root manifest.Value, e edit) (splice, error) {
	way, err := stepsOf(e.path)
	if err != nil {
		return splice{}, err
	}
	v := root
	for i, s := range way {
		next := s.in(v)
		if at, ok := p.offset(next.Position()); ok && next.Exists() && bytes.IndexByte([]byte("&*!"), p.text[at]) >= 0 {
			return splice{}, errAnchor
		}
		if next.Exists() {
			if i == len(way)-1 {
				return p.replace(root, v, next, s, e)
			}
			v = next
			continue
		}
		if v.Kind() != manifest.Map || s.key == "" {
			return splice{}, errTaken
		}
		value := e.value
		for j := len(way) - 1; j > i; j-- {
			if way[j].key == "" {
				return splice{}, errTaken
			}
			value = nested(value, way[j].key)
		}
		if next.Kind() == manifest.Null {
			return p.fill(root, v, next, field{s.key, value})
		}
		return p.insert(root, v, field{s.key, value})
	}
	return splice{}, errTaken
}

// start finds a Map in the text, and says whether it is in flow style.
func (p *page) start(v manifest.Value) (at, line int, flow bool, err error) {
	line, column := v.Position()
	at, ok := p.offset(line, column)
	if !ok {
		return 0, 0, false, errNoPlace
	}
	switch p.text[at] {
	case '{':
		return at, line, true, nil
	case '&', '*', '!':
		return 0, 0, false, errAnchor
	}
	for key := range v.Fields() {
		if _, ok := afterKey(p.text[at:p.after(line)], key); ok {
			return at, line, false, nil
		}
		break
	}
	if _, ok := afterKey(p.text[at:p.after(line)], "<<"); ok {
		return at, line, false, nil
	}
	return 0, 0, false, errUnusual
}

// afterKey gives where the value of a key starts: right behind its colon.
func afterKey(text []byte, key string) (int, bool) {
	for _, written := range []string{key, quote(key), "'" + key + "'"} {
		rest, ok := bytes.CutPrefix(text, []byte(written))
		if !ok {
			continue
		}
		spaces := len(rest) - len(bytes.TrimLeft(rest, " \t"))
		if rest = rest[spaces:]; len(rest) > 0 && rest[0] == ':' && (len(rest) == 1 || strings.IndexByte(" \t\r\n", rest[1]) >= 0 || written != key) {
			return len(written) + spaces + 1, true
		}
	}
	return 0, false
}

// insert adds a field to a Map: at the end of a block, at the start of a flow, where
// nothing needs to be known about what the other fields hold.
func (p *page) insert(root, v manifest.Value, f field) (splice, error) {
	at, line, flow, err := p.start(v)
	if err != nil {
		return splice{}, err
	}
	if flow {
		return p.insertFlow(root, at, f), nil
	}
	indent := at - p.starts[line-1]
	last := p.end(line, indent)
	newline := p.newline(last)
	text := mapping(f).block(indent, p.step(root), newline)
	if !p.ended(last) {
		text = newline + strings.TrimSuffix(text, newline)
	}
	return splice{p.after(last), p.after(last), text, indent}, nil
}

func (p *page) insertFlow(root manifest.Value, brace int, f field) splice {
	at := brace + 1
	for at < len(p.text) && strings.IndexByte(" \t\r\n#", p.text[at]) >= 0 {
		if p.text[at] == '#' {
			for at < len(p.text) && p.text[at] != '\n' {
				at++
			}
			continue
		}
		at++
	}
	if at == len(p.text) || p.text[at] == '}' {
		text := mapping(f).flow(p.isJSON(root))
		return splice{brace + 1, brace + 1, text[1 : len(text)-1], 0}
	}
	text := mapping(f).flow(p.text[at] == '"')
	text = text[1:len(text)-1] + ","
	// A Map that has its fields on lines of their own gets one more such line.
	before := p.text[brace+1 : at]
	if n := bytes.LastIndexByte(before, '\n'); n >= 0 {
		newline := "\n"
		if n > 0 && before[n-1] == '\r' {
			newline = "\r\n"
		}
		text += newline + string(before[n+1:])
	} else {
		text += " "
	}
	return splice{at, at, text, 0}
}

// isJSON says whether an object is written as JSON, keys in quotes.
func (p *page) isJSON(root manifest.Value) bool {
	at, ok := p.offset(root.Position())
	if !ok || p.text[at] != '{' {
		return false
	}
	rest := bytes.TrimLeft(p.text[at+1:], " \t\r\n")
	return len(rest) > 0 && rest[0] == '"'
}

// step is how much deeper an object's text indents the fields of a field.
func (p *page) step(root manifest.Value) int {
	_, outer := root.Position()
	for _, v := range root.Fields() {
		if v.Kind() != manifest.Map {
			continue
		}
		if _, _, flow, err := p.start(v); err == nil && !flow {
			if _, inner := v.Position(); inner > outer {
				return inner - outer
			}
		}
	}
	return 2
}

// fill gives a value to a field that is written without one.
func (p *page) fill(root, parent, null manifest.Value, f field) (splice, error) {
	if at, ok := p.offset(null.Position()); ok {
		for _, written := range []string{"null", "~", "Null", "NULL"} {
			if bytes.HasPrefix(p.text[at:], []byte(written)) {
				return splice{at, at + len(written), f.value.flow(p.isJSON(root)), 0}, nil
			}
		}
	}
	n, indent, behind, err := p.keyRow(parent, f.key)
	if err != nil {
		return splice{}, err
	}
	if rest := bytes.TrimLeft(p.row(n)[behind:], " \t"); len(rest) > 0 && rest[0] != '#' {
		return splice{}, errUnusual
	}
	if f.value.kind != manifest.Map {
		at := p.starts[n-1] + behind
		return splice{at, at, " " + f.value.flow(false), 0}, nil
	}
	newline, step := p.newline(n), p.step(root)
	text := f.value.block(indent+step, step, newline)
	if !p.ended(n) {
		text = newline + strings.TrimSuffix(text, newline)
	}
	return splice{p.after(n), p.after(n), text, indent + step}, nil
}

// keyRow finds the row of a field in a block Map, how far its key is indented, and what
// is behind the colon.
func (p *page) keyRow(parent manifest.Value, key string) (n, indent, behind int, err error) {
	at, line, flow, err := p.start(parent)
	if err != nil {
		return 0, 0, 0, err
	}
	if flow {
		return 0, 0, 0, errNoKey
	}
	indent = at - p.starts[line-1]
	for n := line; n <= p.end(line, indent); n++ {
		row := p.row(n)
		if in, _, _ := depth(row); n > line && in != indent {
			continue
		}
		if behind, ok := afterKey(row[min(indent, len(row)):], key); ok {
			return n, indent, indent + behind, nil
		}
	}
	return 0, 0, 0, errNoKey
}

// swap puts another field in the place of one that holds a Map.
func (p *page) swap(root, parent, v manifest.Value, key string, e edit) (splice, error) {
	line, column := v.Position()
	at, ok := p.offset(line, column)
	if !ok {
		return splice{}, errNoPlace
	}
	if p.text[at] == '{' {
		end := p.brace(at)
		if end < 0 {
			return splice{}, errUnusual
		}
		e.value = word(e.value.flow(p.isJSON(root) || bytes.HasPrefix(bytes.TrimLeft(p.text[at+1:], " "), []byte(`"`))))
		return p.rename(at, end, key, e)
	}
	n, indent, _, err := p.keyRow(parent, key)
	if err != nil {
		return splice{}, err
	}
	last := p.end(line, column-1)
	for i := n; i <= last; i++ {
		if bytes.IndexByte(p.row(i), '#') >= 0 {
			return splice{}, errComment
		}
	}
	newline := p.newline(n)
	text := mapping(field{e.rename, e.value}).block(indent, p.step(root), newline)[indent:]
	if !p.ended(last) {
		text = strings.TrimSuffix(text, newline)
	}
	return splice{p.starts[n-1] + indent, p.after(last), text, indent}, nil
}

// brace finds the end of a flow Map that starts at an offset; -1 where it is not plain to see.
func (p *page) brace(at int) int {
	open := 0
	for i := at; i < len(p.text); i++ {
		switch c := p.text[i]; c {
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return i + 1
			}
		case '"', '\'':
			end, _, err := p.token(i, "")
			if err != nil {
				return -1
			}
			i = end - 1
		case '#':
			return -1
		}
	}
	return -1
}

// replace gives another value to what is written; a scalar keeps its quotes.
func (p *page) replace(root, parent, v manifest.Value, s step, e edit) (splice, error) {
	if v.Kind() == manifest.Map && e.rename != "" {
		return p.swap(root, parent, v, s.key, e)
	}
	if v.Text() == "" || e.value.text == "" {
		return splice{}, errTaken
	}
	line, column := v.Position()
	at, ok := p.offset(line, column)
	if !ok {
		return splice{}, errNoPlace
	}
	if before, ok := strings.CutSuffix(e.value.text, v.Text()); ok && e.rename == "" && v.Kind() == manifest.String && simple.MatchString(before) {
		at, err := p.content(at)
		return splice{at, at, before, 0}, err
	}
	end, quotes, err := p.token(at, v.Text())
	if err != nil {
		return splice{}, err
	}
	if e.rename != "" {
		return p.rename(at, end, s.key, e)
	}
	if e.value.kind == manifest.String {
		if !simple.MatchString(e.value.text) {
			return splice{}, errSpecial
		}
		if quotes == "" && scalar(e.value) != e.value.text {
			quotes = `"`
		}
		return splice{at, end, quotes + e.value.text + quotes, 0}, nil
	}
	return splice{at, end, e.value.text, 0}, nil
}

// content finds the first character of a scalar: behind its quote, or on the line below a block scalar's head.
func (p *page) content(at int) (int, error) {
	switch p.text[at] {
	case '&', '*', '!':
		return 0, errAnchor
	case '"', '\'':
		return at + 1, nil
	case '|', '>':
		n := bytes.IndexByte(p.text[at:], '\n')
		if n < 0 {
			return 0, errUnusual
		}
		at += n + 1
		for at < len(p.text) && p.text[at] == ' ' {
			at++
		}
	}
	return at, nil
}

// simple is what is written the same in any quotes.
var simple = regexp.MustCompile(`^[A-Za-z0-9_./ -]+$`)

// token finds the end of a scalar that starts at an offset, and its quotes.
func (p *page) token(at int, text string) (end int, quotes string, err error) {
	rest := p.text[at:]
	switch rest[0] {
	case '|', '>':
		return 0, "", errSeveral
	case '&', '*', '!':
		return 0, "", errAnchor
	case '"', '\'':
		for i := 1; i < len(rest); i++ {
			switch {
			case rest[i] == '\n':
				return 0, "", errSeveral
			case rest[i] == '\\' && rest[0] == '"':
				i++
			case rest[i] == '\'' && rest[0] == '\'' && i+1 < len(rest) && rest[i+1] == '\'':
				i++
			case rest[i] == rest[0]:
				return at + i + 1, string(rest[:1]), nil
			}
		}
		return 0, "", errUnusual
	}
	if !bytes.HasPrefix(rest, []byte(text)) {
		return 0, "", errSeveral
	}
	return at + len(text), "", nil
}

// rename finds the key before a scalar on its line and replaces both.
func (p *page) rename(at, end int, key string, e edit) (splice, error) {
	before := p.text[:at]
	between := regexp.MustCompile(`(["']?)` + regexp.QuoteMeta(key) + `(["']?[ \t]*:[ \t]*)$`)
	start := bytes.LastIndexByte(before, '\n') + 1
	m := between.FindSubmatchIndex(before[start:])
	if m == nil {
		return splice{}, errUnusual
	}
	from := start + m[3] // behind the opening quote
	text := e.rename + string(before[start+m[4]:start+m[5]]) + e.value.text
	return splice{from, end, text, 0}, nil
}

// spliced does splices that do not overlap.
func (p *page) spliced(all []splice) ([]byte, error) {
	var b bytes.Buffer
	at := 0
	for _, s := range all {
		if s.at < at {
			return nil, fmt.Errorf("two changes meet in line %d", bytes.Count(p.text[:s.at], []byte("\n"))+1)
		}
		b.Write(p.text[at:s.at])
		b.WriteString(s.text)
		at = s.end
	}
	b.Write(p.text[at:])
	return b.Bytes(), nil
}
