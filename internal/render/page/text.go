// Package page holds what every view of records is written with: clean text,
// line breaks, colours, tables and a time axis.
//
// Whatever comes in, no control character leaves it. It must not know what a view is about;
// of the project it imports record, for the meaning of a bound, and figure.
package page

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/figure"
)

// Clean makes s safe to print: what is no plain, visible character (escape sequences,
// line ends, direction marks, invalid bytes) is shown as its escape.
func Clean(s string) string {
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

// Markdown makes s safe inside a cell of a table.
func Markdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "&", "&amp;", "[", `\[`, "]", `\]`).Replace(Clean(s))
}

// Pad fills s with blanks on the right up to width characters.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// PadLeft fills s with blanks on the left up to width characters.
func PadLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// Cut shortens s to width characters, in the middle, where names differ least.
func Cut(s string, width int) string {
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

// Wrap breaks a sentence into lines of at most width characters; longer words stay whole, and a number stays with its unit.
func Wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range figure.Words(s) {
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

// WrapParts joins parts by sep into lines of at most width characters; no part is broken.
func WrapParts(parts []string, sep string, width int) []string {
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

// Bullet writes a sentence as an item, wrapped and hanging.
func Bullet(b *strings.Builder, s string, width int) {
	for i, line := range Wrap(s, width-4) {
		mark := "  - "
		if i > 0 {
			mark = "    "
		}
		b.WriteString(mark + line + "\n")
	}
}

// Ink colours text with the sixteen colours that every terminal theme defines; its zero value does not.
type Ink struct{ On bool }

func (k Ink) sgr(code, s string) string {
	s = Clean(s)
	if !k.On || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Plain and its like give clean text in one colour or none.
func (k Ink) Plain(s string) string  { return Clean(s) }
func (k Ink) Bold(s string) string   { return k.sgr("1", s) }
func (k Ink) Dim(s string) string    { return k.sgr("2", s) }
func (k Ink) Red(s string) string    { return k.sgr("31", s) }
func (k Ink) Green(s string) string  { return k.sgr("32", s) }
func (k Ink) Yellow(s string) string { return k.sgr("33", s) }
func (k Ink) Cyan(s string) string   { return k.sgr("36", s) }
