package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes s safe to print: what is no plain, visible character (escape sequences,
// line ends, direction marks, invalid bytes) is shown as its escape.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// markdown makes s safe inside a cell of a table.
func markdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "&", "&amp;", "[", `\[`, "]", `\]`).Replace(clean(s))
}

// pad fills s with blanks on the right up to width characters.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// cut shortens s to width characters, in the middle, where names differ least.
func cut(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	if width < 3 {
		return string(r[:max(0, width)])
	}
	head := (width - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(width-1-head):])
}

// wrap breaks a sentence into lines of at most width characters; longer words stay whole.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// wrapParts joins parts by sep into lines of at most width characters; no part is broken.
func wrapParts(parts []string, sep string, width int) []string {
	var lines []string
	line := ""
	for i, p := range parts {
		if i < len(parts)-1 {
			p += strings.TrimRight(sep, " ")
		}
		gap := sep[len(strings.TrimRight(sep, " ")):]
		if line != "" && utf8.RuneCountInString(line)+len(gap)+utf8.RuneCountInString(p) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += gap
		}
		line += p
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// plural prints a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ink colours text with the sixteen colours that every terminal theme defines; its zero value does not.
type ink struct{ on bool }

func (k ink) sgr(code, s string) string {
	s = clean(s)
	if !k.on || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (k ink) plain(s string) string  { return clean(s) }
func (k ink) bold(s string) string   { return k.sgr("1", s) }
func (k ink) dim(s string) string    { return k.sgr("2", s) }
func (k ink) red(s string) string    { return k.sgr("31", s) }
func (k ink) green(s string) string  { return k.sgr("32", s) }
func (k ink) yellow(s string) string { return k.sgr("33", s) }
func (k ink) cyan(s string) string   { return k.sgr("36", s) }
