package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinksInDocsResolve: a page that points to nothing is a promise that is not kept.
func TestLinksInDocsResolve(t *testing.T) {
	pages := []string{"README.md"}
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, strings.TrimPrefix(path, "../../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 8 {
		t.Fatalf("only %d pages found", len(pages))
	}
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			to := filepath.Join("../..", filepath.Dir(page), m[1])
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}

// TestReadmeCommandsExist: what the README tells a newcomer to type is there.
func TestReadmeCommandsExist(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^make ([a-z-]+)`).FindAllStringSubmatch(string(b), -1)
	if len(shown) < 3 {
		t.Fatalf("the README shows %d make commands", len(shown))
	}
	for _, m := range shown {
		if !strings.Contains(string(makefile), "\n"+m[1]+":") {
			t.Errorf("the README shows make %s, and the Makefile has no such target", m[1])
		}
	}
}
