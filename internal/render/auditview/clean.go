package auditview

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// clean makes s safe to print on one line: blanks and line ends become single blanks,
// everything else that is no visible character is shown as its escape.
func clean(s string) string {
	var b strings.Builder
	s = strings.Join(strings.Fields(s), " ")
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteString(s[:n])
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// cleaned is a copy of the report in which every string is clean: the views take
// their text from it and need not think of it again.
func cleaned(r *finding.Report) *finding.Report {
	c := *r
	c.Schema, c.Tool.Version, c.Kubernetes = clean(r.Schema), clean(r.Tool.Version), clean(r.Kubernetes)
	c.Workloads = each(r.Workloads, func(w finding.Workload) finding.Workload {
		w.Object, w.File, w.Verdict, w.Paths = cleanObject(w.Object), clean(w.File), clean(w.Verdict), each(w.Paths, clean)
		b := &w.Budget
		b.GraceFrom, b.PropagationPath, b.PropagationFrom, b.DrainFrom = clean(b.GraceFrom), clean(b.PropagationPath), clean(b.PropagationFrom), clean(b.DrainFrom)
		return w
	})
	c.Findings = each(r.Findings, cleanFinding)
	c.Suppressed = each(r.Suppressed, func(s finding.Suppressed) finding.Suppressed {
		return finding.Suppressed{Finding: cleanFinding(s.Finding), By: clean(s.By), Reason: clean(s.Reason)}
	})
	c.Notes = each(r.Notes, clean)
	return &c
}

func cleanFinding(f finding.Finding) finding.Finding {
	f.Rule, f.Topic, f.Severity = clean(f.Rule), finding.Topic(clean(string(f.Topic))), finding.Severity(clean(string(f.Severity)))
	f.Object, f.Path, f.File = cleanObject(f.Object), clean(f.Path), clean(f.File)
	f.Message, f.Remedy, f.Ask = clean(f.Message), clean(f.Remedy), clean(f.Ask)
	if f.Workload != nil {
		w := cleanObject(*f.Workload)
		f.Workload = &w
	}
	f.Facts = each(f.Facts, func(x finding.Fact) finding.Fact {
		return finding.Fact{Name: clean(x.Name), Value: clean(x.Value), From: clean(x.From)}
	})
	return f
}

func cleanObject(o finding.Object) finding.Object {
	return finding.Object{APIVersion: clean(o.APIVersion), Kind: clean(o.Kind), Namespace: clean(o.Namespace), Name: clean(o.Name)}
}

func cleanDoc(d finding.RuleDoc) finding.RuleDoc {
	return finding.RuleDoc{
		ID: clean(d.ID), Topic: finding.Topic(clean(string(d.Topic))), Severity: finding.Severity(clean(string(d.Severity))),
		Title: clean(d.Title), Physics: clean(d.Physics), Sources: each(d.Sources, clean), Remedy: clean(d.Remedy),
	}
}
