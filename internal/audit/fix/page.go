package fix

import (
	"bytes"
	"regexp"
)

// page is the text of one file with the starts of its lines. Lines count from 1.
type page struct {
	text   []byte
	starts []int
}

func newPage(text []byte) *page {
	p := &page{text: text}
	for at := 0; at < len(text); {
		p.starts = append(p.starts, at)
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
	}
	return p
}

// full is a line with its ending.
func (p *page) full(n int) []byte { return p.text[p.starts[n-1]:p.after(n)] }

// row is a line without its ending.
func (p *page) row(n int) []byte { return bytes.TrimRight(p.full(n), "\r\n") }

// after is where the next line starts, or would start.
func (p *page) after(n int) int {
	if n >= len(p.starts) {
		return len(p.text)
	}
	return p.starts[n]
}

// ended says whether a line has its newline; only the last one may lack it.
func (p *page) ended(n int) bool { return bytes.HasSuffix(p.full(n), []byte("\n")) }

// newline is the line ending in use at a line.
func (p *page) newline(n int) string {
	for ; n >= 1; n-- {
		if p.ended(n) {
			if bytes.HasSuffix(p.full(n), []byte("\r\n")) {
				return "\r\n"
			}
			break
		}
	}
	return "\n"
}

// offset finds a position as package manifest counts it.
func (p *page) offset(line, column int) (int, bool) {
	if line < 1 || line > len(p.starts) || column < 1 || column > len(p.row(line)) {
		return 0, false
	}
	return p.starts[line-1] + column - 1, true
}

var (
	// marker starts or ends a document.
	marker = regexp.MustCompile(`^(---|\.\.\.)(\s|$)`)
	// opens is the head of a block scalar: what follows, deeper in, is text, not YAML.
	opens = regexp.MustCompile(`(:|^ *(- +)*-)[ \t]+[|>][-+1-9]{0,2}[ \t]*(#.*)?$`)
	// dashes are the list items that start on a line, before the first key.
	dashes = regexp.MustCompile(`^ *(- +)*`)
)

// depth is how far a row is indented, and what is on it.
func depth(row []byte) (indent int, blank, comment bool) {
	rest := bytes.TrimLeft(row, " ")
	indent = len(row) - len(rest)
	rest = bytes.TrimLeft(rest, "\t")
	return indent, len(rest) == 0, len(rest) > 0 && rest[0] == '#'
}

// end gives the last line of the block Map that starts on a line and whose keys
// are indented so far. Comments right below belong to it as long as they are
// indented like it; what follows an empty line does not.
func (p *page) end(first, indent int) int {
	last := first
	literal := literalBelow(p.row(first))
	for n := first + 1; n <= len(p.starts); n++ {
		row := p.row(n)
		in, blank, comment := depth(row)
		switch {
		case blank:
		case marker.Match(row):
			return last
		case literal >= 0 && in > literal:
			last = n
		case comment:
			if in >= indent && n == last+1 {
				last = n
			}
		case in < indent:
			return last
		default:
			last, literal = n, literalBelow(row)
		}
	}
	return last
}

// literalBelow gives the indentation beyond which the lines below a row are the
// text of a block scalar that it opens; -1 where it opens none.
func literalBelow(row []byte) int {
	if !opens.Match(row) {
		return -1
	}
	before := dashes.Find(row)
	if c := row[len(before)]; c == '|' || c == '>' {
		// "- |": the text is deeper than the dash.
		return bytes.LastIndexByte(before, '-')
	}
	return len(before)
}
