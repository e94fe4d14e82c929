package testview

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/verdict"
)

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
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
		Out       junitText   `xml:"system-out"`
	}
	junitCase struct {
		Name    string       `xml:"name,attr"`
		Class   string       `xml:"classname,attr"`
		Failure *junitReason `xml:"failure"`
		Error   *junitReason `xml:"error"`
	}
	junitReason struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Body    string `xml:",chardata"`
	}
	// junitText is escaped by us: encoding/xml would write every line end as a reference.
	junitText struct {
		Body string `xml:",innerxml"`
	}
)

// JUnit writes tests as test results, a suite each: a case "measured", and one for each line of the budget. A budget that was broken is a
// failure; where nothing could be concluded, every case is an error, for what was not judged has not passed. Names do
// not change from run to run. The summary is the suite's output. Without a test the error is *render.NoRecordsError; others are those of w.
func JUnit(w io.Writer, inputs ...render.Input) error {
	if len(inputs) == 0 {
		return &render.NoRecordsError{}
	}
	doc := junitSuites{Name: "drainproof"}
	for _, in := range inputs {
		s := suiteOf(in)
		doc.Tests, doc.Failures, doc.Errors = doc.Tests+s.Tests, doc.Failures+s.Failures, doc.Errors+s.Errors
		doc.Suites = append(doc.Suites, s)
	}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the test results: %w", err)
	}
	_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	return err
}

func suiteOf(in render.Input) junitSuite {
	r := in.Record
	suite := junitSuite{Name: "drainproof"}
	if s := r.Set; s != nil {
		suite.Name = page.Clean(fmt.Sprintf("drainproof %s repeat %d", s.Arm, s.Repeat))
	}
	if !r.StartedAt.IsZero() {
		suite.Timestamp = r.StartedAt.UTC().Format(time.RFC3339)
	}
	class := suite.Name
	if w := r.Workload; w != nil {
		class += page.Clean(fmt.Sprintf(" %s %s/%s %s", w.Kind, w.Namespace, w.Name, r.Config.Trigger))
	}
	for _, c := range cases(r) {
		c.Class = class
		suite.Cases = append(suite.Cases, c)
		suite.Tests++
		if c.Failure != nil {
			suite.Failures++
		}
		if c.Error != nil {
			suite.Errors++
		}
	}
	var text bytes.Buffer
	// A Buffer and a Builder take all that is written to them, so neither has an error.
	_ = Summary(&text, in, render.Opts{})
	var out strings.Builder
	_ = xml.EscapeText(&out, text.Bytes())
	suite.Out.Body = "\n" + strings.ReplaceAll(out.String(), "&#xA;", "\n")
	return suite
}

func cases(r record.Record) []junitCase {
	result, _, reason := verdictOf(r)
	measured := junitCase{Name: "measured"}
	var unjudged *junitReason
	if result != record.Pass && result != record.Fail {
		unjudged = &junitReason{Message: page.Clean(reason), Type: "inconclusive"}
		measured.Error = unjudged
	}
	list := []junitCase{measured}
	if r.Verdict == nil {
		return list
	}
	for _, c := range r.Verdict.Checks {
		x := junitCase{Name: page.Clean("budget " + c.Name)}
		switch {
		case unjudged != nil:
			x.Error = unjudged
		case c.Seen == nil:
			x.Error = &junitReason{Message: page.Clean(c.Name) + " was not measured", Type: "inconclusive"}
		case !c.OK:
			x.Failure = &junitReason{Message: page.Clean(checkText(c)), Type: "budget", Body: page.Clean(reason)}
		}
		list = append(list, x)
	}
	return list
}

// checkText says what was seen against what was allowed.
func checkText(c record.Check) string {
	return fmt.Sprintf("%s is %s, allowed is %s", c.Name, verdict.Text(c.Name, *c.Seen), verdict.Text(c.Name, c.Limit))
}
