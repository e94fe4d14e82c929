package cli

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit"
	"github.com/drainproof/drainproof/internal/render/auditview"
	"github.com/drainproof/drainproof/internal/testkit"
)

var madeBy = regexp.MustCompile(`(?s)<!-- made by: drainproof ([^>]*?) -->\n(.*?)<!-- end -->`)

// TestAuditPages holds the output that the documentation shows to what the commands print.
func TestAuditPages(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("NO_COLOR", "1")
	for _, page := range []string{"docs/audit.md", "README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		want := madeBy.ReplaceAllFunc(text, func(block []byte) []byte {
			args := string(madeBy.FindSubmatch(block)[1])
			if !strings.HasPrefix(args, "audit ") {
				return block
			}
			shown++
			var out bytes.Buffer
			Run(context.Background(), append([]string{"drainproof", "--quiet"}, strings.Fields(args)...), Streams{
				In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" },
			})
			kind := "text"
			if strings.HasPrefix(args, "audit fix") {
				kind = "diff"
			}
			return []byte("<!-- made by: drainproof " + args + " -->\n```" + kind + "\n" + strings.TrimRight(out.String(), "\n") + "\n```\n<!-- end -->")
		})
		if page == "docs/audit.md" && shown == 0 {
			t.Errorf("%s shows no output: the test would prove nothing", page)
		}
		hold(t, page, text, want)
	}
}

// TestReadmeExcerpt: the part of the audit's output that README.md shows is what it prints.
func TestReadmeExcerpt(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```\nDeployment shop/web ")
	shown, _, _ := strings.Cut(rest, "\n```")
	if !found || strings.Count(shown, "\n") < 4 {
		t.Fatal("README.md shows no audit")
	}
	var out, errs bytes.Buffer
	code := Run(context.Background(), []string{"drainproof", "audit", "-f", "examples/shop.yaml"}, Streams{
		In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" },
	})
	if code != 1 || !strings.Contains(out.String(), "Deployment shop/web "+shown+"\n") {
		t.Errorf("exit code %d; README.md shows\n%s\nwhich is not in\n%s%s", code, shown, out.String(), errs.String())
	}
}

// TestRulesPage holds docs/rules.md to the rules.
func TestRulesPage(t *testing.T) {
	var want bytes.Buffer
	if err := auditview.RulesMarkdown(&want, audit.Docs()); err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/rules.md"
	have, err := os.ReadFile(page)
	if err != nil && !testkit.Updating() {
		t.Fatal(err)
	}
	hold(t, page, have, want.Bytes())
}

func hold(t *testing.T, page string, have, want []byte) {
	t.Helper()
	if bytes.Equal(have, want) {
		return
	}
	if !testkit.Updating() {
		t.Errorf("%s is not what the program says: go test ./internal/cli -run Page -update", page)
		return
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Fatal(err)
	}
}
