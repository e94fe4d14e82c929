package auditview

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
)

// junitRead is a test report as a CI system reads it.
type junitRead struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Suites   []struct {
		Name      string `xml:"name,attr"`
		Tests     int    `xml:"tests,attr"`
		Failures  int    `xml:"failures,attr"`
		Skipped   int    `xml:"skipped,attr"`
		Timestamp string `xml:"timestamp,attr"`
		Cases     []struct {
			Name    string `xml:"name,attr"`
			Class   string `xml:"classname,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Type    string `xml:"type,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
			Out string `xml:"system-out"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func junit(t *testing.T, r *finding.Report) ([]byte, junitRead) {
	t.Helper()
	var b bytes.Buffer
	if err := JUnit(&b, r); err != nil {
		t.Fatal(err)
	}
	var doc junitRead
	if err := xml.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	tests, failures, skipped := 0, 0, 0
	for _, s := range doc.Suites {
		f, k := 0, 0
		for _, c := range s.Cases {
			if c.Failure != nil {
				f++
			}
			if c.Skipped != nil {
				k++
			}
		}
		if s.Tests != len(s.Cases) || s.Failures != f || s.Skipped != k {
			t.Errorf("%s counts %d, %d, %d and holds %d, %d, %d", s.Name, s.Tests, s.Failures, s.Skipped, len(s.Cases), f, k)
		}
		tests, failures, skipped = tests+s.Tests, failures+f, skipped+k
	}
	if doc.Tests != tests || doc.Failures != failures || doc.Skipped != skipped {
		t.Errorf("the document counts %d, %d, %d, its suites %d, %d, %d", doc.Tests, doc.Failures, doc.Skipped, tests, failures, skipped)
	}
	return b.Bytes(), doc
}

func TestJUnit(t *testing.T) {
	data, doc := junit(t, sample())
	testkit.Golden(t, "audit.junit.xml", data)
	var got []string
	for _, s := range doc.Suites {
		for _, c := range s.Cases {
			how := "passes"
			switch {
			case c.Failure != nil:
				how = c.Failure.Type
			case c.Skipped != nil:
				how = "skipped"
			}
			got = append(got, fmt.Sprintf("%s: %s %s", s.Name, c.Name, how))
		}
	}
	want := []string{
		"Deployment shop/quiet: 1 suppressed skipped", "Deployment shop/quiet: DP451 replicas skipped", "Deployment shop/worker: DP301 listener skipped",
		"Deployment shop/web: DP101 grace error", "Deployment shop/web: DP401 rollout warning", "Deployment shop/web: DP301 listener skipped",
		"Deployment shop/edge: DP601 loadbalancer warning", "Objects of no workload: DP501 pdb warning",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := doc.Suites[0].Cases[0].Skipped.Message; got != "can lose traffic when it is terminated; 1 finding suppressed" {
		t.Errorf("the quiet workload says %q", got)
	}
	if _, clean := junit(t, fits()); clean.Suites[0].Cases[0].Name != "no findings" || clean.Skipped != 0 {
		t.Errorf("the clean workload: %+v", clean.Suites[0].Cases)
	}
	text := doc.Suites[2].Cases[0].Failure.Text
	for _, want := range []string{"\nerror web.yaml:31 new connections", "\nfix: add lifecycle", "\ngrace period 30 s (default)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

func TestJUnitOfNothing(t *testing.T) {
	_, doc := junit(t, &finding.Report{})
	if doc.Tests != 1 || doc.Skipped != 1 || !strings.HasPrefix(doc.Suites[0].Cases[0].Skipped.Message, "Nothing was judged") {
		t.Errorf("no data passes: %+v", doc)
	}
}

func TestJUnitTime(t *testing.T) {
	r := sample()
	r.At = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
	_, doc := junit(t, r)
	if got := doc.Suites[0].Timestamp; got != "2026-11-29T20:00:00Z" {
		t.Errorf("timestamp %q", got)
	}
}

// What one rule found twice is one case, as bad as the worst of both.
func TestJUnitOneCaseARule(t *testing.T) {
	r := bare()
	r.Suppressed = nil
	milder := r.Findings[0]
	milder.Severity, milder.Message = finding.Info, "milder"
	r.Findings = append([]finding.Finding{milder}, r.Findings...)
	_, doc := junit(t, r)
	if c := doc.Suites[0].Cases; len(c) != 1 || c[0].Failure == nil || c[0].Failure.Type != "error" || !strings.Contains(c[0].Failure.Text, "info milder") {
		t.Errorf("cases %+v", c)
	}
}
