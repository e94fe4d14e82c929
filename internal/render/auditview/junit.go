package auditview

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Timestamp string      `xml:"timestamp,attr,omitempty"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Line    int           `xml:"line,attr,omitempty"`
		Failure *junitFailure `xml:"failure"`
		Skipped *junitSkipped `xml:"skipped"`
		Out     *junitText    `xml:"system-out"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		junitText
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	// junitText is escaped by us: encoding/xml would write every line end as a reference.
	junitText struct {
		Body string `xml:",innerxml"`
	}
)

// JUnit writes the report as test results: a suite for each workload, a case for each rule
// that found something on it, and one that passes for a clean workload. Errors and warnings fail;
// info, which the application decides, and what is suppressed are skipped with their words, so is
// a workload of which everything is suppressed.
func JUnit(w io.Writer, r *finding.Report) error {
	r = cleaned(r)
	doc := junitSuites{Name: "drainproof audit"}
	all := groups(r)
	if len(r.Workloads) == 0 {
		// No data is no pass.
		all = append(all, group{title: "audit"})
	}
	for _, g := range all {
		s := g.suite()
		if s.Name == "audit" && len(s.Cases) == 0 {
			s.Cases, s.Tests, s.Skipped = []junitCase{{Name: "workloads", Class: "audit", Skipped: &junitSkipped{nothingJudged(r)}}}, 1, 1
		}
		if !r.At.IsZero() {
			s.Timestamp = r.At.UTC().Format(time.RFC3339)
		}
		doc.Tests += s.Tests
		doc.Failures += s.Failures
		doc.Skipped += s.Skipped
		doc.Suites = append(doc.Suites, s)
	}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	return err
}

func (g group) suite() junitSuite {
	s := junitSuite{Name: g.title}
	add := func(c junitCase) {
		c.Class = g.title
		s.Cases = append(s.Cases, c)
		s.Tests++
		if c.Failure != nil {
			s.Failures++
		}
		if c.Skipped != nil {
			s.Skipped++
		}
	}
	if len(g.findings) == 0 && g.workload != nil {
		c := junitCase{Name: "no findings", File: g.workload.File, Line: g.workload.Line, Out: xmlText([]string{g.workload.Verdict})}
		if n := len(g.suppressed); n > 0 {
			// It does not fail, and it is no pass.
			c.Name, c.Skipped = fmt.Sprintf("%d suppressed", n), &junitSkipped{g.workload.Verdict}
		}
		add(c)
	}
	found := map[string][]finding.Finding{}
	var rules []string
	for _, f := range g.findings {
		if found[f.Rule] == nil {
			rules = append(rules, f.Rule)
		}
		found[f.Rule] = append(found[f.Rule], f)
	}
	for _, rule := range rules {
		add(g.ruleCase(found[rule]))
	}
	quiet := map[string]bool{}
	for _, x := range g.suppressed {
		// A rule that also found something else has its case already.
		if found[x.Rule] != nil || quiet[x.Rule] {
			continue
		}
		quiet[x.Rule] = true
		why := "suppressed by " + x.By
		if x.Reason != "" {
			why += ": " + x.Reason
		}
		add(junitCase{Name: x.Rule + " " + string(x.Topic), File: x.File, Line: x.Line, Skipped: &junitSkipped{why}, Out: xmlText(g.story(x.Finding))})
	}
	return s
}

// ruleCase takes what one rule found, the worst first.
func (g group) ruleCase(fs []finding.Finding) junitCase {
	worst := fs[0]
	c := junitCase{Name: worst.Rule + " " + string(worst.Topic), File: worst.File, Line: worst.Line}
	var lines []string
	for i, f := range fs {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, g.story(f)...)
	}
	text := xmlText(lines)
	if worst.Severity == finding.Error || worst.Severity == finding.Warning {
		c.Failure = &junitFailure{Message: worst.Message, Type: string(worst.Severity), junitText: *text}
		return c
	}
	c.Skipped, c.Out = &junitSkipped{worst.Message}, text
	return c
}

// story tells a finding in lines.
func (g group) story(f finding.Finding) []string {
	lines := []string{string(f.Severity) + " " + g.place(f) + f.Message}
	if f.Remedy != "" {
		lines = append(lines, "fix: "+f.Remedy)
	}
	if f.Ask != "" {
		lines = append(lines, "ask: "+f.Ask)
	}
	return append(lines, each(f.Facts, factText)...)
}

func xmlText(lines []string) *junitText {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("\n")
		// A Builder takes all that is written to it.
		_ = xml.EscapeText(&b, []byte(line))
	}
	b.WriteString("\n")
	return &junitText{b.String()}
}
