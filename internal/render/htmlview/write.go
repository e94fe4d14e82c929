package htmlview

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
)

// Options of a page.
type Options struct {
	// Title of the page; empty for one made from the records.
	Title string
}

var (
	//go:embed assets/view.css
	ownStyle string
	//go:embed assets/theme.js
	themeScript string
	// scripts are one program in several files, joined in the order of their names.
	//go:embed assets/js/*.js
	scripts embed.FS
	//go:embed assets/page.html
	pageText string
	// uPlot's files are those of its release, unchanged; assets/uplot/VERSION names it, and LICENSE goes into every page.

	//go:embed assets/uplot/uPlot.iife.min.js
	chartScript string
	//go:embed assets/uplot/uPlot.min.css
	chartStyle string
	//go:embed assets/uplot/LICENSE
	chartLicense string
)

var body = template.Must(template.New("page").Funcs(template.FuncMap{"clean": func(s string) string { return figure.Unbroken(page.Clean(s)) }, "notMeasured": func() string { return page.NotMeasured }}).Parse(pageText))

// ownScript joins the files of the program.
var ownScript = sync.OnceValue(func() string {
	var b strings.Builder
	names, err := fs.Glob(scripts, "assets/js/*.js")
	if err != nil || len(names) == 0 {
		panic("the page's program is not in this binary")
	}
	for _, name := range names {
		text, err := scripts.ReadFile(name)
		if err != nil {
			panic(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
})

// Write writes one HTML file over the records: one trial in full, or a set with its summary first. Incomplete records are
// written too, and say what they lack. Without records the error is a *render.NoRecordsError; other errors are those of w.
func Write(w io.Writer, inputs []render.Input, o Options) error {
	if len(inputs) == 0 {
		return &render.NoRecordsError{}
	}
	v, err := viewOf(inputs)
	if err != nil {
		return err
	}
	v.Title = cmp.Or(o.Title, v.Title)
	b := bufio.NewWriterSize(w, 1<<16)
	if err := write(b, v); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// partSize is how much of a trial's data stands in one element: Chromium takes half the time for parts of up to 64 KiB as for the whole in one.
const partSize = 60_000

// write puts the page together. Scripts and styles are not the template's business: their digests are of every byte.
func write(b *bufio.Writer, v view) error {
	style := chartStyle + "\n" + ownStyle
	script := "/*\n" + chartLicense + "*/\n" + chartScript + "\n" + ownScript()
	fmt.Fprintf(b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	fmt.Fprintf(b, "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n", policy(themeScript, script, style))
	fmt.Fprintf(b, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	fmt.Fprintf(b, "<meta name=\"generator\" content=\"drainproof\">\n<title>%s</title>\n", html.EscapeString(page.Clean(v.Title)))
	fmt.Fprintf(b, "<style>%s</style>\n<script>%s</script>\n</head>\n", style, themeScript)
	if err := body.Execute(b, v); err != nil {
		return err
	}
	for i, t := range v.Trials {
		for part := range slices.Chunk([]byte(t.island), partSize) {
			fmt.Fprintf(b, "<script type=\"text/plain\" data-of=\"%d\">%s</script>\n", i, part)
		}
	}
	fmt.Fprintf(b, "<script>%s</script>\n</body>\n</html>\n", script)
	return nil
}

// policy allows these two scripts and this style, and nothing else: no network, no frame, no form, no code made of text.
func policy(early, script, style string) string {
	return fmt.Sprintf("default-src 'none'; script-src '%s' '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		digest(early), digest(script), digest(style))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
