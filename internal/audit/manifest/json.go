package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxDepth is how deep the collections of a document may be nested.
const maxDepth = 500

// jsonScanner reads JSON, one value after the other. It is strict: what it
// refuses may still be YAML in flow style.
type jsonScanner struct {
	*builder
	s     string
	i     int
	line  int32
	start int // of the current line
	depth int
	// wrong says what is wrong at the current place.
	wrong string
	// again is set where a key is given twice: no YAML either.
	again bool
}

// more says whether another value follows.
func (j *jsonScanner) more() bool {
	j.space()
	return j.i < len(j.s)
}

func (j *jsonScanner) space() {
	for ; j.i < len(j.s); j.i++ {
		switch j.s[j.i] {
		case ' ', '\t', '\r':
		case '\n':
			j.line++
			j.start = j.i + 1
		default:
			return
		}
	}
}

func (j *jsonScanner) fail(format string, args ...any) bool {
	if j.wrong == "" {
		j.wrong = fmt.Sprintf(format, args...)
	}
	return false
}

func (j *jsonScanner) expected(what string) bool {
	if j.i >= len(j.s) {
		return j.fail("the text ends where %s is expected", what)
	}
	return j.fail("%s is expected in column %d", what, j.i-j.start+1)
}

// next skips space and takes the byte c.
func (j *jsonScanner) next(c byte) bool {
	j.space()
	if j.i < len(j.s) && j.s[j.i] == c {
		j.i++
		return true
	}
	return false
}

func (j *jsonScanner) value() (n node, ok bool) {
	j.space()
	line, at := j.line, j.i-j.start+1
	if j.i >= len(j.s) {
		return n, j.expected("a value")
	}
	switch c := j.s[j.i]; {
	case c == '{':
		n, ok = j.object()
	case c == '[':
		n, ok = j.array()
	case c == '"':
		n.kind = String
		n.text, ok = j.text()
	case c == '-' || c >= '0' && c <= '9':
		n.kind = Number
		n.text, ok = j.number()
	case j.word("true"):
		n.kind, n.text, ok = Bool, "true", true
	case j.word("false"):
		n.kind, n.text, ok = Bool, "false", true
	case j.word("null"):
		n.kind, ok = Null, true
	default:
		j.expected("a value")
	}
	n.place(line, at)
	return n, ok
}

func (j *jsonScanner) word(w string) bool {
	if !strings.HasPrefix(j.s[j.i:], w) {
		return false
	}
	j.i += len(w)
	return true
}

// deeper counts the collections that are open.
func (j *jsonScanner) deeper() bool {
	j.i++
	if j.depth++; j.depth > maxDepth {
		return j.fail("more than %d collections are nested", maxDepth)
	}
	return true
}

func (j *jsonScanner) object() (n node, ok bool) {
	n.kind = Map
	from := len(j.stack)
	if !j.deeper() {
		return n, false
	}
	for more := !j.next('}'); more; {
		j.space()
		if j.i >= len(j.s) || j.s[j.i] != '"' {
			return n, j.expected("a field's name in double quotes")
		}
		line := j.line
		key, ok := j.text()
		if !ok {
			return n, false
		}
		if !j.next(':') {
			return n, j.expected("a colon")
		}
		child, ok := j.value()
		if !ok {
			return n, false
		}
		child.under(key, line)
		j.push(child)
		if more = j.next(','); !more && !j.next('}') {
			return n, j.expected("a comma or }")
		}
	}
	if first, second := j.twice(from); second != nil {
		j.again = true
		j.line = second.line - int32(second.above)
		return n, j.fail("%s", givenTwice(first, second))
	}
	j.depth--
	n.items = j.take(from)
	return n, true
}

func (j *jsonScanner) array() (n node, ok bool) {
	n.kind = List
	from := len(j.stack)
	if !j.deeper() {
		return n, false
	}
	for more := !j.next(']'); more; {
		child, ok := j.value()
		if !ok {
			return n, false
		}
		j.push(child)
		if more = j.next(','); !more && !j.next(']') {
			return n, j.expected("a comma or ]")
		}
	}
	j.depth--
	n.items = j.take(from)
	return n, true
}

// text reads a text in double quotes.
func (j *jsonScanner) text() (text string, ok bool) {
	from, escaped := j.i, false
	for i := from + 1; i < len(j.s); i++ {
		switch c := j.s[i]; {
		case c == '"':
			j.i = i + 1
			if !escaped {
				return j.s[from+1 : i], true
			}
			if text, ok = unquote(j.s[from:j.i]); !ok {
				j.i = from
				return "", j.fail("the text in column %d holds an escape that JSON does not know", from-j.start+1)
			}
			return text, true
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return "", j.fail("the text in column %d does not end on its line", from-j.start+1)
		}
	}
	return "", j.fail("the text in column %d does not end", from-j.start+1)
}

func unquote(s string) (text string, ok bool) {
	err := json.Unmarshal([]byte(s), &text)
	return text, err == nil
}

func (j *jsonScanner) number() (text string, ok bool) {
	rest := strings.TrimPrefix(j.s[j.i:], "-")
	whole := skipDigits(rest)
	ok = whole == 1 || whole > 1 && rest[0] != '0'
	rest = rest[whole:]
	if part, point := strings.CutPrefix(rest, "."); point {
		n := skipDigits(part)
		ok = ok && n > 0
		rest = part[n:]
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '-' || rest[0] == '+') {
			rest = rest[1:]
		}
		n := skipDigits(rest)
		ok = ok && n > 0
		rest = rest[n:]
	}
	if !ok {
		return "", j.expected("a number")
	}
	end := len(j.s) - len(rest)
	text = j.s[j.i:end]
	j.i = end
	return text, true
}
