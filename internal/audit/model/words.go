package model

import "strings"

// word is one word of a shell's text with its quotes taken off.
type word struct {
	text string
	// fixed: the program gets exactly this text. Otherwise the shell puts something in when it runs.
	fixed bool
	// runs: the shell runs other commands to find out what to put in.
	runs bool
	// quoted: a part of it was in quotes, so that it is no reserved word.
	quoted bool
	// assigns: it gives a variable a value, NAME=value.
	assigns bool
}

// isName says whether a text can be a variable's name.
func isName(text string) bool {
	for i := range len(text) {
		if !inName(text[i]) || i == 0 && text[i] <= '9' {
			return false
		}
	}
	return text != ""
}

func inName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// token is a word, or an operator: ; & | && || newline ( ) ;; and > for every redirection to or from a file,
// whose word then is the redirection as it is written, with its descriptor but without its target.
type token struct {
	op   string
	word word
}

// split cuts a shell's text into tokens. It gives up on texts that are not closed and on what
// hooks hardly ever use: here-documents, process substitution, ANSI-C quotes, &>.
func split(text string) (tokens []token, ok bool) {
	s := splitter{text: text}
	descriptor := "" // of the redirection that follows at once
	for !s.failed && s.i < len(text) {
		switch c := text[s.i]; c {
		case ' ', '\t':
			s.i++
		case '#':
			if end := strings.IndexByte(text[s.i:], '\n'); end >= 0 {
				s.i += end
			} else {
				s.i = len(text)
			}
		case '\n', '(', ')':
			s.i++
			tokens = append(tokens, token{op: string(c)})
		case ';', '&', '|':
			op := string(c)
			if s.i++; s.peek() == c {
				op += op
				s.i++
			} else if c == '&' && s.peek() == '>' || c == '|' && s.peek() == '&' {
				s.failed = true
			}
			tokens = append(tokens, token{op: op})
		case '<', '>':
			from := s.i
			s.redirection()
			tokens = append(tokens, token{op: ">", word: word{text: descriptor + text[from:s.i]}})
			descriptor = ""
		case '\\':
			if strings.HasPrefix(text[s.i:], "\\\n") {
				s.i += 2 // a line that goes on
				continue
			}
			fallthrough
		default:
			w := s.word()
			if next := s.peek(); (next == '<' || next == '>') && w.fixed && !w.quoted && strings.Trim(w.text, "0123456789") == "" {
				descriptor = w.text
				continue
			}
			tokens = append(tokens, token{word: w})
		}
	}
	return tokens, !s.failed
}

// splitter stands at byte i of a text.
type splitter struct {
	text   string
	i      int
	failed bool
}

// peek gives the byte at hand, 0 at the end.
func (s *splitter) peek() byte {
	if s.i < len(s.text) {
		return s.text[s.i]
	}
	return 0
}

func (s *splitter) redirection() {
	rest := s.text[s.i:]
	op := len(rest) - len(strings.TrimLeft(rest, "<>"))
	s.i += op
	if strings.HasPrefix(rest, "<<") || s.peek() == '(' {
		s.failed = true
	}
	if c := s.peek(); c == '&' || c == '|' {
		s.i++
	}
}

// word reads a word; the byte at hand belongs to it.
func (s *splitter) word() word {
	w := word{fixed: true}
	pattern := false
	var b strings.Builder
word:
	for !s.failed && s.i < len(s.text) {
		switch c := s.text[s.i]; c {
		case ' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>':
			break word
		case '\'':
			end := strings.IndexByte(s.text[s.i+1:], '\'')
			if end < 0 {
				s.failed = true
				break
			}
			b.WriteString(s.text[s.i+1 : s.i+1+end])
			s.i += end + 2
			w.quoted = true
		case '"':
			s.i++
			s.quotes(&b, &w)
			w.quoted = true
		case '\\':
			s.escape(&b, "")
			w.quoted = true
		case '$', '`':
			if c == '$' && s.i+1 < len(s.text) && (s.text[s.i+1] == '\'' || s.text[s.i+1] == '"') {
				s.failed = true
				break
			}
			s.expansion(&b, &w)
		case '*', '?', '{', '~':
			pattern = true
			fallthrough
		default:
			if c == '=' && !w.quoted && !w.assigns {
				w.assigns = isName(b.String())
			}
			b.WriteByte(c)
			s.i++
		}
	}
	w.text = b.String()
	w.fixed = w.fixed && (!pattern || w.text == "{")
	return w
}

// escape reads a backslash and what it protects. In double quotes it protects only some
// bytes and stands for itself before the others.
func (s *splitter) escape(b *strings.Builder, only string) {
	s.i++
	if s.i == len(s.text) {
		b.WriteByte('\\')
		return
	}
	c := s.text[s.i]
	s.i++
	if c == '\n' {
		return
	}
	if only != "" && strings.IndexByte(only, c) < 0 {
		b.WriteByte('\\')
	}
	b.WriteByte(c)
}

// quotes reads the rest of a text in double quotes.
func (s *splitter) quotes(b *strings.Builder, w *word) {
	for !s.failed && s.i < len(s.text) {
		switch c := s.text[s.i]; c {
		case '"':
			s.i++
			return
		case '\\':
			s.escape(b, "$`\"\\")
		case '$', '`':
			s.expansion(b, w)
		default:
			b.WriteByte(c)
			s.i++
		}
	}
	s.failed = true
}

// expansion reads what begins with $ or a backquote.
func (s *splitter) expansion(b *strings.Builder, w *word) {
	from := s.i
	if s.text[s.i] == '`' {
		s.i++
		for s.i < len(s.text) && s.text[s.i] != '`' {
			if s.text[s.i] == '\\' {
				s.i++
			}
			s.i++
		}
		if s.i >= len(s.text) {
			s.i, s.failed = len(s.text), true
			return
		}
		s.i++
		w.fixed, w.runs = false, true
		return
	}
	s.i++
	switch c := s.peek(); {
	case c == '(':
		s.i++
		s.closing(')', w)
		w.fixed, w.runs = false, true
	case c == '{':
		s.i++
		s.closing('}', w)
		w.fixed = false
	case inName(c):
		for inName(s.peek()) {
			s.i++
		}
		w.fixed = false
	case c != 0 && strings.IndexByte("@*#?-$!", c) >= 0:
		s.i++
		w.fixed = false
	}
	b.WriteString(s.text[from:s.i])
}

// closing goes to the end of $( or ${.
func (s *splitter) closing(end byte, w *word) {
	var nothing strings.Builder
	open := map[byte]byte{')': '(', '}': '{'}[end]
	for depth := 1; !s.failed && s.i < len(s.text); {
		switch c := s.text[s.i]; c {
		case end:
			s.i++
			if depth--; depth == 0 {
				return
			}
		case open:
			s.i++
			depth++
		case '\\':
			s.escape(&nothing, "")
		case '"':
			s.i++
			s.quotes(&nothing, w)
		case '\'':
			close := strings.IndexByte(s.text[s.i+1:], '\'')
			if close < 0 {
				s.failed = true
				return
			}
			s.i += close + 2
		case '$', '`':
			s.expansion(&nothing, w)
		default:
			s.i++
		}
	}
	s.failed = true
}
