package auditview

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
)

func table(t *testing.T, r *finding.Report, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTableGoldens(t *testing.T) {
	for _, c := range []struct {
		name string
		r    *finding.Report
		o    Options
	}{
		{"table.txt", sample(), Options{}},
		{"table-narrow.txt", sample(), Options{Width: 60}},
		{"table-color.txt", sample(), Options{Color: true}},
		{"table-ascii.txt", sample(), Options{ASCII: true}},
		{"table-fits.txt", fits(), Options{}},
		{"table-settled.txt", settled(), Options{}},
		{"table-empty.txt", &finding.Report{Objects: 4}, Options{}},
		{"table-200.txt", crowd(200), Options{}},
	} {
		testkit.Golden(t, c.name, []byte(table(t, c.r, c.o)))
	}
}

func TestTableFitsItsWidth(t *testing.T) {
	for _, width := range []int{72, 80, 96, 120} {
		for name, r := range map[string]*finding.Report{"sample": sample(), "200 workloads": crowd(200), "pictures": allPictures()} {
			for line := range strings.Lines(table(t, r, Options{Width: width})) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
					t.Errorf("%s at %d: %d columns: %s", name, width, n, line)
				}
			}
		}
	}
}

// allPictures is a report with a finding on every budget.
func allPictures() *finding.Report {
	r := &finding.Report{}
	for i, b := range budgets {
		o := deployment(fmt.Sprintf("w%d", i))
		r.Workloads = append(r.Workloads, finding.Workload{Object: o, Budget: b.Budget, Verdict: b.name})
		f := sample().Findings[1]
		f.Object = o
		r.Findings = append(r.Findings, f)
	}
	return r
}

// Colours add escape sequences and nothing else.
func TestColorChangesNoText(t *testing.T) {
	for _, r := range []*finding.Report{sample(), allPictures(), {}} {
		strip := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[36m", "")
		var lines []string
		for line := range strings.Lines(strip.Replace(table(t, r, Options{Color: true}))) {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
		if got := strings.Join(lines, "\n") + "\n"; got != table(t, r, Options{}) {
			t.Errorf("the table differs without its colours:\n%s", got)
		}
	}
}

func TestASCIIDrawsNoBlocks(t *testing.T) {
	for i, r := range table(t, allPictures(), Options{ASCII: true}) {
		if r > 0x7e {
			t.Fatalf("%q at %d", r, i)
		}
	}
}

// A crowd stays readable: the worst first, the clean in one line, and no line for each of them.
func TestCleanWorkloadsAreFolded(t *testing.T) {
	r := crowd(200)
	out := table(t, r, Options{})
	if !strings.Contains(out, "180 workloads without findings: shop/service-000, shop/service-001, ") || !strings.Contains(out, " more\n") {
		t.Errorf("the clean workloads are not folded:\n%.2000s", out)
	}
	if n := strings.Count(out, "SIGKILL\n"); n != 20 {
		t.Errorf("%d pictures for 20 workloads with findings", n)
	}
	if !strings.HasSuffix(out, "200 workloads, 400 objects, for Kubernetes v1.37.2: 20 errors, 0 warnings, 0 info; 0 suppressed\n") {
		t.Errorf("the totals are not last:\n%s", out[len(out)-300:])
	}
}

func TestGroups(t *testing.T) {
	r := sample()
	r.Workloads = append(r.Workloads, finding.Workload{Object: deployment("calm")})
	dirty, quiet, good := worstFirst(groups(r))
	var got []string
	for _, g := range dirty {
		got = append(got, fmt.Sprintf("%s: %s, %d suppressed", g.title, g.counts(), len(g.suppressed)))
	}
	for _, g := range quiet {
		got = append(got, fmt.Sprintf("quiet %s: %s", g.title, g.summary()))
	}
	for _, g := range good {
		got = append(got, fmt.Sprintf("clean %s, %d suppressed", g.title, len(g.suppressed)))
	}
	want := []string{
		"Deployment shop/web: 1 error, 1 warning, 1 info, 1 suppressed", "Deployment shop/edge: 1 warning, 0 suppressed", "Deployment shop/worker: 1 info, 0 suppressed",
		"Objects of no workload: 1 warning, 1 suppressed", "quiet Deployment shop/quiet: 1 suppressed (1 by annotation)", "clean Deployment shop/calm, 0 suppressed",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is suppressed is not clean: it has a line of its own, and the clean ones do not name it.
func TestSuppressedIsNotClean(t *testing.T) {
	many := &finding.Report{}
	for i := range 8 {
		o := deployment(fmt.Sprintf("w%d", i))
		many.Workloads = append(many.Workloads, finding.Workload{Object: o})
		if i < 5 {
			many.Suppressed = append(many.Suppressed, finding.Suppressed{Finding: finding.Finding{Rule: "DP501", Object: o}, By: "baseline"})
		}
	}
	out := table(t, many, Options{Width: 120})
	for _, want := range []string{"5 workloads with suppressed findings only: shop/w0 (1 suppressed), ", "3 workloads without findings: shop/w5, shop/w6, shop/w7\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out = table(t, settled(), Options{})
	if !strings.Contains(out, "Deployment shop/quiet   1 suppressed (1 by annotation)\n  can lose traffic when it is terminated; 1 finding suppressed\n") || strings.Contains(out, "no findings") {
		t.Errorf("the heading of shop/quiet:\n%s", out)
	}
	out = comment(t, settled())
	if !strings.Contains(out, "### drainproof audit: 1 suppressed, nothing else in 1 workload\n") || strings.Contains(out, "no findings") || strings.Contains(out, "without findings") {
		t.Errorf("the comment:\n%s", out)
	}
}

// Overlays hold the same object in several files: each finding goes to the one that it stands in.
func TestSameNameInTwoFiles(t *testing.T) {
	o := deployment("web")
	r := &finding.Report{
		Workloads: []finding.Workload{{Object: o, File: "a.yaml", Line: 1}, {Object: o, File: "b.yaml", Line: 1}, {Object: o, File: "b.yaml", Line: 50}},
		Findings: []finding.Finding{
			{Rule: "DP101", Severity: finding.Error, Object: o, File: "b.yaml", Line: 20}, {Rule: "DP102", Severity: finding.Error, Object: o, File: "b.yaml", Line: 60},
			{Rule: "DP103", Severity: finding.Error, Object: o, File: "a.yaml", Line: 60},
		},
	}
	var got []string
	for _, g := range groups(r) {
		for _, f := range g.findings {
			got = append(got, g.title+" "+f.Rule)
		}
	}
	want := "Deployment shop/web (a.yaml:1) DP103\nDeployment shop/web (b.yaml:1) DP101\nDeployment shop/web (b.yaml:50) DP102"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestSeconds(t *testing.T) {
	for v, want := range map[int64]string{0: "0 s", 5e8: "500 ms", 3e10: "30 s", 15e8: "1.5 s", 36e11: "3600 s", -5e9: "-5 s", 1359999999: "1.36 s", 2e9 + 1234567: "2.001 s", 1234567: "1.235 ms"} {
		if got := seconds(v); got != want {
			t.Errorf("%d is %q, not %q", v, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "one": "one", "up to 30 s, or 500 ms of it": "up to\n30 s,\nor\n500 ms\nof it", "as short as s is": "as\nshort\nas s is",
		"averylongword is whole": "averylongword\nis\nwhole",
	} {
		if got := strings.Join(wrap(in, 7), "\n"); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}
