package manifest

import (
	"strings"
	"unicode/utf8"
)

// plain reads the part of YAML in which nearly all manifests are written: block maps
// and lists, scalars without tags, anchors or foldings, flow collections on one line. It is
// many times faster than a whole YAML parser. Whatever it does not know for certain it gives
// up on, and the whole parser reads the document again: every method's last result is false then.
//
// It never accepts what the whole parser refuses, and reads nothing differently: FuzzPlain holds it to that.
type plain struct {
	*builder
	s string
	// line is the number of the current line, s[start:end]; the next one begins at next.
	line             int32
	start, end, next int
	// at is the first byte of the line's content, indent its column from 0; -1 after the last line.
	at, indent int
	// gap says that blank lines or comments stand before the current line.
	gap   bool
	depth int
	buf   []byte
}

// plainDepth is how deep collections may be nested here.
const plainDepth = 100

// document reads the one document of s, whose first line has the given number.
func (p *plain) document(s string, line int32) (root node, ok bool) {
	if !simpleText(s) {
		return node{}, false
	}
	*p = plain{builder: p.builder, buf: p.buf, s: s, line: line - 1}
	if !p.advance() || p.indent < 0 {
		return node{}, false
	}
	root, ok = p.block()
	return root, ok && p.indent < 0
}

// simpleText refuses what a YAML reader refuses, treats as a line break, or counts in another way.
func simpleText(s string) bool {
	ascii := true
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		} else if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	if ascii {
		return true
	}
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf:
		case r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff:
			return false
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
	}
	return true
}

// advance goes to the next line that has content.
func (p *plain) advance() bool {
	for p.gap = false; ; p.gap = true {
		if p.next >= len(p.s) {
			p.indent = -1
			return true
		}
		p.line++
		p.start = p.next
		if n := strings.IndexByte(p.s[p.start:], '\n'); n < 0 {
			p.end, p.next = len(p.s), len(p.s)
		} else {
			p.end = p.start + n
			p.next = p.end + 1
		}
		i := p.skip(p.start)
		switch {
		case i == p.end || p.s[i] == '#':
			continue
		case p.s[i] == '\t':
			return false
		}
		p.at, p.indent = i, i-p.start
		return true
	}
}

func (p *plain) skip(i int) int {
	for i < p.end && p.s[i] == ' ' {
		i++
	}
	return i
}

// over says whether nothing but a comment stands at i and behind.
func (p *plain) over(i int) bool {
	j := p.skip(i)
	return j == p.end || p.s[j] == '#' && j > i
}

// spaced says whether a space or the end of the line stands at i.
func (p *plain) spaced(i int) bool { return i == p.end || p.s[i] == ' ' }

func (p *plain) isDash(i int) bool { return i < p.end && p.s[i] == '-' && p.spaced(i+1) }

// block reads the collection that starts at the current place.
func (p *plain) block() (n node, ok bool) {
	if p.depth++; p.depth > plainDepth {
		return n, false
	}
	if p.isDash(p.at) {
		n, ok = p.list()
	} else {
		n, ok = p.fields()
	}
	p.depth--
	return n, ok
}

func (p *plain) fields() (n node, ok bool) {
	column, from := p.indent, len(p.stack)
	n.kind = Map
	n.place(p.line, column+1)
	for p.indent == column {
		line := p.line
		key, i, ok := p.key(p.at)
		if !ok {
			return n, false
		}
		child, ok := p.value(i, column, true)
		if !ok {
			return n, false
		}
		child.under(key, line)
		p.push(child)
	}
	if p.indent > column {
		return n, false
	}
	if _, second := p.twice(from); second != nil {
		return n, false
	}
	n.items = p.take(from)
	return n, true
}

func (p *plain) list() (n node, ok bool) {
	column, from := p.indent, len(p.stack)
	n.kind = List
	n.place(p.line, column+1)
	for p.indent == column && p.isDash(p.at) {
		i := p.skip(p.at + 1)
		inner := p.isDash(i)
		if !inner && i < p.end {
			_, _, inner = p.key(i)
		}
		var child node
		if inner {
			p.at, p.indent = i, i-p.start
			child, ok = p.block()
		} else {
			child, ok = p.value(p.at+1, column, false)
		}
		if !ok {
			return n, false
		}
		p.push(child)
	}
	if p.indent > column {
		return n, false
	}
	n.items = p.take(from)
	return n, true
}

// key reads a field's name at i and gives the place behind its colon.
func (p *plain) key(i int) (key string, after int, ok bool) {
	if c := p.s[i]; c == '"' || c == '\'' {
		key, j, ok := p.quoted(i)
		if !ok || j == p.end || p.s[j] != ':' || !p.spaced(j+1) || j-i > 512 {
			return "", 0, false
		}
		return key, j + 1, true
	} else if !isWord(c) && c != '.' && c != '/' && c != '$' {
		return "", 0, false
	}
	for j := i + 1; j < p.end && j-i < 512; j++ {
		switch p.s[j] {
		case ':':
			if p.spaced(j + 1) {
				return strings.TrimRight(p.s[i:j], " "), j + 1, true
			}
		case '\t':
			return "", 0, false
		case '#':
			if p.s[j-1] == ' ' {
				return "", 0, false
			}
		}
	}
	return "", 0, false
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// value reads what stands at i, behind a colon or a dash, or on the lines below that are
// indented deeper than column.
func (p *plain) value(i, column int, field bool) (n node, ok bool) {
	line, behind := p.line, i-p.start+1
	i = p.skip(i)
	if i == p.end || p.s[i] == '#' {
		if !p.advance() {
			return n, false
		}
		switch {
		case p.indent > column, field && p.indent == column && p.isDash(p.at):
			return p.block()
		case field:
			n.kind = Null
			n.place(line, behind)
			return n, true
		}
		return n, false
	}
	at := i - p.start + 1
	switch p.s[i] {
	case '"', '\'':
		n.kind = String
		n.text, i, ok = p.quoted(i)
		ok = ok && p.over(i) && p.advance()
	case '[', '{':
		n, i, ok = p.flow(i)
		ok = ok && p.over(i) && p.advance()
	case '|':
		n.kind = String
		n.text, ok = p.literal(i, column)
	default:
		n.kind, n.text, ok = p.scalar(i, column)
	}
	n.place(line, at)
	return n, ok
}

// scalar reads a scalar without quotes, which may go on on deeper lines.
func (p *plain) scalar(i, column int) (kind Kind, text string, ok bool) {
	switch c := p.s[i]; {
	case isWord(c), c >= utf8.RuneSelf, strings.IndexByte("./$(~<=+^;\\", c) >= 0:
	case c == '-' && !p.spaced(i+1):
	default:
		return Absent, "", false
	}
	end, comment, ok := p.words(i)
	if !ok {
		return Absent, "", false
	}
	text = p.s[i:end]
	if !p.advance() {
		return Absent, "", false
	}
	if p.indent > column {
		if comment || p.gap {
			return Absent, "", false
		}
		p.buf = append(p.buf[:0], text...)
		for p.indent > column && !p.gap {
			end, comment, ok := p.words(p.at)
			if !ok || comment {
				return Absent, "", false
			}
			p.buf = append(append(p.buf, ' '), p.s[p.at:end]...)
			if !p.advance() {
				return Absent, "", false
			}
		}
		if p.indent > column {
			return Absent, "", false
		}
		text = string(p.buf)
	}
	kind, text = resolve(text)
	return kind, text, true
}

// words gives the end of the plain text that starts at i, and whether a comment follows it.
func (p *plain) words(i int) (end int, comment, ok bool) {
	j := i
scan:
	for ; j < p.end; j++ {
		switch p.s[j] {
		case '\t':
			return 0, false, false
		case ':':
			if p.spaced(j + 1) {
				return 0, false, false
			}
		case '#':
			if j > i && p.s[j-1] == ' ' {
				comment = true
				break scan
			}
		}
	}
	for j > i && p.s[j-1] == ' ' {
		j--
	}
	return j, comment, true
}

// quoted reads a scalar in quotes that ends on its line, and gives the place behind it.
func (p *plain) quoted(i int) (text string, after int, ok bool) {
	quote, special := p.s[i], false
	j := i + 1
	for ; ; j++ {
		if j >= p.end {
			return "", 0, false
		}
		c := p.s[j]
		if c == quote {
			if quote == '"' || j+1 == p.end || p.s[j+1] != '\'' {
				break
			}
			special = true
			j++
		} else if c == '\\' && quote == '"' {
			special = true
			j++
		}
	}
	text = p.s[i+1 : j]
	if !special {
		return text, j + 1, true
	}
	if quote == '\'' {
		return strings.ReplaceAll(text, "''", "'"), j + 1, true
	}
	text, ok = unescape(text)
	return text, j + 1, ok
}

func unescape(s string) (string, bool) {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(s, `\`)
		b.WriteString(before)
		if !more {
			return b.String(), true
		}
		switch rest[0] {
		case '"', '\\':
			b.WriteByte(rest[0])
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		default:
			return "", false
		}
		s = rest[1:]
	}
}

// literal reads a block of text behind a bar.
func (p *plain) literal(i, column int) (text string, ok bool) {
	var chomp byte
	j := i + 1
	if j < p.end && (p.s[j] == '-' || p.s[j] == '+') {
		chomp = p.s[j]
		j++
	}
	if p.skip(j) != p.end {
		return "", false
	}
	buf, content, indent := p.buf[:0], 0, -1
	for p.next < len(p.s) {
		length := strings.IndexByte(p.s[p.next:], '\n')
		if length < 0 {
			return "", false
		}
		end := p.next + length
		from := p.next
		for from < end && p.s[from] == ' ' {
			from++
		}
		deep := from - p.next
		switch {
		case from < end && p.s[from] == '\t' && (indent < 0 || deep < indent):
			return "", false
		case from == end && indent < 0 && deep > 0:
			return "", false
		case from == end && deep <= indent || indent < 0 && from == end:
			buf = append(buf, '\n')
		case indent < 0 && deep > column:
			indent = deep
			fallthrough
		case indent >= 0 && deep >= indent:
			buf = append(buf, p.s[p.next+indent:end+1]...)
			content = len(buf)
		default:
			end = -1
		}
		if end < 0 {
			break
		}
		p.line++
		p.next = end + 1
	}
	p.buf = buf
	if indent < 0 {
		return "", false
	}
	switch chomp {
	case '-':
		buf = buf[:content-1]
	case 0:
		buf = buf[:content]
	}
	return string(buf), p.advance()
}

// flow reads a collection in brackets that ends on its line, and gives the place behind it.
func (p *plain) flow(i int) (n node, after int, ok bool) {
	if p.depth++; p.depth > plainDepth {
		return n, 0, false
	}
	defer func() { p.depth-- }()
	n.kind = List
	closing := byte(']')
	if p.s[i] == '{' {
		n.kind, closing = Map, '}'
	}
	from := len(p.stack)
	i = p.skip(i + 1)
	if i < p.end && p.s[i] == closing {
		return n, i + 1, true
	}
	for {
		var child node
		key := ""
		if n.kind == Map {
			if key, i, ok = p.flowKey(i); !ok {
				return n, 0, false
			}
		}
		if i = p.skip(i); i == p.end {
			return n, 0, false
		}
		if child, i, ok = p.flowValue(i); !ok {
			return n, 0, false
		}
		child.key = key
		p.push(child)
		if i = p.skip(i); i == p.end {
			return n, 0, false
		}
		if p.s[i] == closing {
			break
		}
		if p.s[i] != ',' {
			return n, 0, false
		}
		i = p.skip(i + 1)
	}
	if n.kind == Map {
		if _, second := p.twice(from); second != nil {
			return n, 0, false
		}
	}
	n.items = p.take(from)
	return n, i + 1, true
}

func (p *plain) flowKey(i int) (key string, after int, ok bool) {
	if i == p.end {
		return "", 0, false
	}
	if c := p.s[i]; c == '"' || c == '\'' {
		key, after, ok = p.quoted(i)
	} else {
		after, ok = p.flowWords(i)
		if ok {
			key = p.s[i:after]
		}
	}
	if !ok || after-i > 512 || after+1 >= p.end || p.s[after] != ':' || p.s[after+1] != ' ' {
		return "", 0, false
	}
	return key, after + 1, true
}

func (p *plain) flowValue(i int) (n node, after int, ok bool) {
	at := i - p.start + 1
	switch p.s[i] {
	case '"', '\'':
		n.kind = String
		n.text, after, ok = p.quoted(i)
	case '[', '{':
		n, after, ok = p.flow(i)
	default:
		if after, ok = p.flowWords(i); ok {
			n.kind, n.text = resolve(p.s[i:after])
		}
	}
	n.place(p.line, at)
	return n, after, ok
}

// flowWords gives the end of the plain text at i in a flow collection: words with single
// spaces between them, of bytes that mean nothing to YAML.
func (p *plain) flowWords(i int) (end int, ok bool) {
	c := p.s[i]
	if !isWord(c) && c != '.' && c != '/' && c != '$' && (c != '-' || i+1 == p.end || !isWord(p.s[i+1]) && p.s[i+1] != '-') {
		return 0, false
	}
	for j := i; j < p.end; j++ {
		c := p.s[j]
		switch {
		case isWord(c), strings.IndexByte("./$-+=@", c) >= 0:
		case c == ':' && j+1 < p.end && (isWord(p.s[j+1]) || p.s[j+1] == '/'):
		case c == ' ' && j+1 < p.end && isWord(p.s[j+1]):
		default:
			return j, true
		}
	}
	return 0, false
}
