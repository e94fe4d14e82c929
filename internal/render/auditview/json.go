package auditview

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// JSON writes the report's document, which follows schema/audit-v1.json. Strings are
// given as they are: what a terminal or a page could take for a command is escaped on the way.
func JSON(w io.Writer, r *finding.Report) error {
	doc := *r
	doc.Schema = cmp.Or(r.Schema, finding.Schema)
	// A list is a list, also where it is empty.
	doc.Workloads = each(r.Workloads, func(x finding.Workload) finding.Workload {
		x.Paths = append([]string{}, x.Paths...)
		return x
	})
	doc.Findings = each(r.Findings, withFacts)
	doc.Suppressed = each(r.Suppressed, func(s finding.Suppressed) finding.Suppressed {
		s.Finding = withFacts(s.Finding)
		return s
	})
	doc.Notes = append([]string{}, r.Notes...)
	return writeJSON(w, doc)
}

func withFacts(f finding.Finding) finding.Finding {
	f.Facts = append([]finding.Fact{}, f.Facts...)
	return f
}

// writeJSON indents v and writes it with every character escaped that is not plainly
// visible. encoding/json escapes HTML and the C0 controls by itself, not the C1
// controls, direction marks and their like.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	var out bytes.Buffer
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
