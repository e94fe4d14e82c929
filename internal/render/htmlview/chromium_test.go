//go:build e2e

package htmlview

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// browser is one headless Chromium for all tests: starting one takes longer than most of them.
var browser struct {
	sync.Once
	context.Context
	end func()
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.end != nil {
		browser.end()
	}
	os.Exit(code)
}

func chromium(t testing.TB) context.Context {
	t.Helper()
	testkit.Require(t, testkit.Program("chromium"))
	browser.Do(start)
	if browser.err != nil {
		t.Fatalf("starting Chromium: %v", browser.err)
	}
	return browser.Context
}

func start() {
	var dir string
	if dir, browser.err = os.MkdirTemp("", "drainproof-chromium-"); browser.err != nil {
		return
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.UserDataDir(dir), chromedp.WindowSize(1280, 1000),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	ctx, stop := chromedp.NewContext(ctx)
	browser.Context = ctx
	browser.end = func() {
		// It has ended before its folder is removed.
		_ = chromedp.Cancel(ctx)
		stop()
		cancel()
		_ = os.RemoveAll(dir)
	}
	browser.err = chromedp.Do(ctx)
}

// tab is one page in the browser, with what it complained of and asked for.
type tab struct {
	context.Context

	mu        sync.Mutex
	complaint []string
	asked     []string
}

// step is something done to a tab.
type step = chromedp.Action[chromedp.Void]

// command is a step of the protocol itself.
func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, in *chromedp.Target) error {
		_, err := cdp.Call(ctx, in, c, params)
		return err
	})
}

// open writes a page over records and opens it; before runs in the tab first.
func open(t testing.TB, browser context.Context, list []record.Record, before ...step) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(pageOf(t, list...)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &tab{}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithListener(b.hear))
	t.Cleanup(cancel)
	b.Context = ctx
	// The tab lives as long as the context of its first run.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	b.do(t, append(before, command(page.Navigate, page.NavigateParams{URL: "file://" + path}))...)
	// Without a script nothing becomes ready.
	b.until(t, `document.readyState === "complete" && location.protocol === "file:" && (document.documentElement.className !== "js" || document.documentElement.dataset.ready !== undefined)`)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaint {
			t.Errorf("the console says: %s", c)
		}
		for _, u := range b.asked {
			if !strings.HasPrefix(u, "file://"+path) && !strings.HasPrefix(u, "data:") {
				t.Errorf("the page asks for %s", u)
			}
		}
	})
	return b
}

// hear notes whatever the page says on its console, its exceptions, and every request.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			text += " " + o.Description
		}
		b.complaint = append(b.complaint, text)
	case *runtime.EventConsoleAPICalled:
		b.complaint = append(b.complaint, fmt.Sprintf("%s %v", e.Type, e.Args))
	case *log.EventEntryAdded:
		b.complaint = append(b.complaint, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

// patience is how long a test waits for a page; a machine with other work may need it.
const patience = time.Minute

func (b *tab) do(t testing.TB, steps ...step) {
	t.Helper()
	ctx, stop := context.WithTimeout(b, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// run runs an expression for what it does.
func (b *tab) run(t testing.TB, expression string) {
	t.Helper()
	b.do(t, chromedp.Evaluate[chromedp.Void](expression))
}

// eval gives what an expression is.
func eval[T any](t testing.TB, b *tab, expression string) T {
	t.Helper()
	return got(t, b, chromedp.Evaluate[T](expression))
}

func got[T any](t testing.TB, b *tab, a chromedp.Action[T]) T {
	t.Helper()
	ctx, stop := context.WithTimeout(b, patience)
	defer stop()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// until waits for an expression to hold. The library's own way makes code of text, which the page's policy forbids.
func (b *tab) until(t testing.TB, expression string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if eval[bool](t, b, "Boolean("+expression+")") {
			return
		}
	}
	t.Fatalf("%s never holds", expression)
}

// shot keeps a picture where DRAINPROOF_SHOTS names a folder for it.
func (b *tab) shot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("DRAINPROOF_SHOTS")
	if dir == "" {
		return
	}
	png := got(t, b, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// point is where an item stands in the window.
type point struct{ X, Y float64 }

func (b *tab) where(t *testing.T, item string) point {
	t.Helper()
	return eval[point](t, b, `(() => { const s = stages[0], i = `+item+`; s.el.scrollIntoView(); s.scale.view = s.view;
		const p = s.lanes.point(i, s.scale), r = s.laneBox.getBoundingClientRect(); return {X: r.left + p.x, Y: r.top + p.y - s.laneBox.scrollTop}; })()`)
}

const failure = `stages[0].lanes.item("failure", %d)`

func TestTimelineInChromium(t *testing.T) {
	browser := chromium(t)
	r := records.RolloutLossy()
	t.Run("lanes are drawn", func(t *testing.T) {
		b := open(t, browser, []record.Record{r})
		b.until(t, `document.querySelectorAll(".uplot canvas").length === 3`)
		// Pixels of the colour of failures, in the lanes and in a curve.
		pixels := `(c) => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, want = ink.fail.match(/\d+/g).map(Number); let n = 0;
			for (let i = 0; i < d.length; i += 4) if (want.every((v, k) => Math.abs(d[i + k] - v) < 3) && d[i + 3] > 250) n++; return n; }`
		b.until(t, `(`+pixels+`)(stages[0].canvas) > 100`)
		if n := eval[int](t, b, `(`+pixels+`)(document.querySelector(".uplot canvas"))`); n < 100 {
			t.Errorf("%d pixels of failures in the curve", n)
		}
		if n := eval[int](t, b, `document.querySelectorAll(".labels .label").length`); n != 16 {
			t.Errorf("%d lanes", n)
		}
		b.do(t, chromedp.ScrollIntoView(chromedp.CSS(".stage")))
		b.shot(t, "timeline")
	})
	t.Run("evidence on hover and on click", func(t *testing.T) {
		b := open(t, browser, []record.Record{r})
		p := b.where(t, fmt.Sprintf(failure, 0))
		b.do(t, chromedp.MouseEvent(chromedp.MouseMoved, p.X, p.Y))
		b.until(t, `!stages[0].tip.hidden`)
		tip := eval[string](t, b, `stages[0].tip.innerText`)
		for _, want := range []string{"refused", "ECONNREFUSED", "2.261 s", "unattributed", r.Failures[0].Cause.Sentence, "not known"} {
			if !strings.Contains(tip, want) {
				t.Errorf("the hint does not say %q:\n%s", want, tip)
			}
		}
		b.shot(t, "hover")
		b.do(t, chromedp.MouseClickXY(p.X, p.Y))
		b.until(t, `!stages[0].evidence.hidden`)
		if n := eval[int](t, b, `stages[0].lit.size`); n != len(r.Failures[0].Cause.Evidence) {
			t.Errorf("%d events are pointed out, and the cause names %d", n, len(r.Failures[0].Cause.Evidence))
		}
		named := eval[string](t, b, `stages[0].evidence.innerText`)
		for _, id := range r.Failures[0].Cause.Evidence {
			if !strings.Contains(named, fmt.Sprintf("#%d ", id)) {
				t.Errorf("event %d is not named:\n%s", id, named)
			}
		}
		b.shot(t, "evidence")
		b.do(t, chromedp.Click(chromedp.CSS(".evidence li button")))
		b.until(t, `stages[0].tip.innerText.includes("≤ ")`)
	})
	t.Run("filters", func(t *testing.T) {
		b := open(t, browser, []record.Record{r})
		b.do(t, chromedp.Click(chromedp.CSS(`input[value="refused"]`)))
		b.until(t, `document.querySelector('[data-table="failures"] .full .more').textContent.startsWith("2 of 9")`)
		if labels := eval[string](t, b, `stages[0].labelBox.innerText`); strings.Contains(labels, "refused") || !strings.Contains(labels, "reset-before-response") {
			t.Errorf("the lanes are %q", labels)
		}
		b.do(t, chromedp.Click(chromedp.CSS(`input[value="refused"]`)), chromedp.SetValue(chromedp.CSS(`select[data-filter="pod"]`), "web-6d8f9c7b5-2kxqp"))
		b.run(t, `document.querySelector('select[data-filter="pod"]').dispatchEvent(new Event("change"))`)
		b.until(t, `document.querySelectorAll(".labels .label").length === 6`)
		if rows := eval[string](t, b, `document.querySelector('[data-table="failures"] .full .more').textContent`); !strings.HasPrefix(rows, "3 of 9") {
			t.Errorf("of the Pod are %s", rows)
		}
		b.shot(t, "filter")
	})
	t.Run("keyboard", func(t *testing.T) {
		b := open(t, browser, []record.Record{r})
		width := `stages[0].view[1] - stages[0].view[0]`
		all := eval[float64](t, b, width)
		b.do(t, chromedp.Focus(chromedp.CSS(".stage")), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"))
		b.until(t, fmt.Sprintf("Math.abs(%s - %v / 4) < 1000", width, all))
		b.do(t, chromedp.KeyEvent("-"))
		b.until(t, fmt.Sprintf("Math.abs(%s - %v / 2) < 1000", width, all))
		b.do(t, chromedp.KeyEvent("0"))
		b.until(t, fmt.Sprintf("%s === %v && stages[0].range.textContent === '-2.000 s to 10.000 s'", width, all))
		b.do(t, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
		b.until(t, `!stages[0].tip.hidden && stages[0].said.textContent.length > 20`)
		first := eval[string](t, b, `stages[0].said.textContent`)
		b.do(t, chromedp.KeyEvent(kb.ArrowRight))
		b.until(t, fmt.Sprintf("stages[0].said.textContent !== %q", first))
		b.do(t, chromedp.KeyEvent(kb.Enter))
		b.until(t, `!stages[0].evidence.hidden`)
		b.do(t, chromedp.KeyEvent(kb.Escape))
		b.until(t, `stages[0].evidence.hidden && stages[0].tip.hidden`)
	})
	t.Run("drag, wheel and buttons", func(t *testing.T) {
		b := open(t, browser, []record.Record{r})
		p := b.where(t, fmt.Sprintf(failure, 0))
		b.do(t, chromedp.DragAndDropXY(p.X-40, p.Y, p.X+40, p.Y))
		b.until(t, `stages[0].view[1] - stages[0].view[0] < 2e9 && stages[0].inView(2.26e9)`)
		b.until(t, `Math.abs(stages[0].curves[0].plot.scales.x.min * 1e9 - stages[0].view[0]) < 1000`)
		b.shot(t, "zoom")
		width := eval[float64](t, b, `stages[0].view[1] - stages[0].view[0]`)
		b.do(t, command(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseWheel, X: p.X, Y: p.Y, DeltaX: 1, DeltaY: 120, Modifiers: 2}))
		b.until(t, fmt.Sprintf("stages[0].view[1] - stages[0].view[0] > %v", width*1.1))
		b.do(t, chromedp.Click(chromedp.CSS(`.zoom button:last-child`)))
		b.until(t, `stages[0].view[1] === stages[0].data.view[1]`)
	})
	t.Run("a row of a table is shown on the timeline", func(t *testing.T) {
		b := open(t, browser, []record.Record{r})
		b.do(t, chromedp.ScrollIntoView(chromedp.CSS(`[data-table="failures"] .full`)), chromedp.Click(chromedp.CSS(`[data-table="failures"] .full tbody tr:nth-child(4) button`)))
		b.until(t, `stages[0].picked && stages[0].picked.index === 3 && !stages[0].evidence.hidden`)
		b.do(t, chromedp.Click(chromedp.CSS(`[data-table="events"] summary`)), chromedp.Click(chromedp.CSS(`[data-table="events"] .full tbody tr:nth-child(2) button`)))
		b.until(t, `stages[0].picked.type === "event" && stages[0].picked.index === 1`)
	})
}

// contrast gives the worst contrast of text with what is behind it, over the pairs that the page uses (WCAG 2.2, 1.4.3).
const contrast = `(() => {
	const rgb = (name) => ink.of(name).match(/[\d.]+/g).slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
	const light = (name) => { const [r, g, b] = rgb(name); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const of = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const pairs = [["--ink", "--bg"], ["--quiet", "--bg"], ["--quiet", "--raised"], ["--accent", "--bg"], ["--onaccent", "--accent"], ["--fail", "--bg"], ["--fail", "--fail-bed"], ["--pass", "--pass-bed"],
		["--doubt", "--doubt-bed"], ["--quiet", "--fail-bed"], ["--quiet", "--pass-bed"], ["--quiet", "--doubt-bed"],
		...["present", "pending", "ready", "notready", "serving", "terminating", "exited", "gap", "disruption"].map((s) => ["--ink", "--s-" + s])];
	return pairs.map(([a, b]) => [of(a, b), a + " on " + b]).sort((p, q) => p[0] - q[0])[0].join(" ");
})()`

func TestThemesInChromium(t *testing.T) {
	browser := chromium(t)
	for _, theme := range []string{"light", "dark"} {
		t.Run(theme, func(t *testing.T) {
			prefers := command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
			b := open(t, browser, []record.Record{records.RolloutLossy()}, prefers)
			dark := `getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] < 60`
			if got := eval[bool](t, b, dark); got != (theme == "dark") {
				t.Errorf("dark: %t", got)
			}
			var ratio float64
			worst := eval[string](t, b, contrast)
			if _, err := fmt.Sscan(worst, &ratio); err != nil || ratio < 4.5 {
				t.Errorf("the worst contrast is %s", worst)
			}
			t.Logf("worst contrast: %s", worst)
			b.shot(t, "top-"+theme)
			b.do(t, chromedp.ScrollIntoView(chromedp.CSS(".stage")))
			b.shot(t, "stage-"+theme)
			other := map[string]string{"light": "dark", "dark": "light"}[theme]
			b.do(t, chromedp.Click(chromedp.CSS(`[data-theme-to="`+other+`"]`)))
			if got := eval[bool](t, b, dark); got != (other == "dark") {
				t.Errorf("after the switch to %s dark is %t", other, got)
			}
		})
	}
}

// From a telephone to a wide screen nothing but tables and the timeline's own box is wider than the window.
func TestWidthsInChromium(t *testing.T) {
	browser := chromium(t)
	list := map[string][]record.Record{"test": {records.RolloutLossy()}, "flows": {records.Drain()}, "incomplete": {records.Incomplete()}, "set": records.Matrix("iptables", 2)}
	for name, rs := range list {
		b := open(t, browser, rs)
		for _, width := range []int64{360, 768, 1280, 1920} {
			b.do(t, chromedp.EmulateViewport(width, 900))
			b.until(t, fmt.Sprintf("innerWidth === %d && stages.every((s) => s.width === s.el.clientWidth)", width))
			if w := eval[int64](t, b, `document.documentElement.scrollWidth`); w > width {
				t.Errorf("%s at %d is %d wide", name, width, w)
			}
			b.shot(t, fmt.Sprintf("%s-%d", name, width))
		}
	}
}

func TestSetInChromium(t *testing.T) {
	browser := chromium(t)
	b := open(t, browser, records.Matrix("iptables", 2))
	if n := eval[int](t, b, `stages.length + document.querySelectorAll(".trial").length`); n != 0 {
		t.Errorf("%d trials before any is asked for", n)
	}
	b.do(t, chromedp.Click(chromedp.CSS(`a[href="#trial-3"]`)))
	b.until(t, `document.getElementById("trial-3").open && stages.length === 1 && stages[0].width > 0`)
	b.until(t, `document.querySelectorAll("#trial-3 .labels .label").length > 4`)
	b.shot(t, "set-open")
}

func TestWithoutAScriptInChromium(t *testing.T) {
	browser := chromium(t)
	b := open(t, browser, []record.Record{records.RolloutLossy()}, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.EmulateViewport(1280, 2600))
	text := strings.ReplaceAll(got(t, b, chromedp.Text(chromedp.CSS("body"))), "\u00a0", " ")
	for _, want := range []string{"No script runs here", "Fail", "9 of 1,000 requests failed", "What to doubt", "ECONNREFUSED", "refused 43 ms after the API showed"} {
		if !strings.Contains(text, want) {
			t.Errorf("without a script there is no %q", want)
		}
	}
	b.do(t, chromedp.WaitVisible(chromedp.CSS("svg.lanes")), chromedp.WaitNotVisible(chromedp.CSS(".switch")))
	b.shot(t, "no-script")
	set := open(t, browser, records.Matrix("iptables", 2), command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	set.do(t, chromedp.Click(chromedp.CSS("#trial-2 summary")), chromedp.WaitVisible(chromedp.CSS("#trial-2 svg.lanes")))
}

func TestHostileNamesInChromium(t *testing.T) {
	browser := chromium(t)
	r := replaceTexts(t, records.RolloutLossy(), hostile(`</script><script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">"'{{.}}`))
	b := open(t, browser, []record.Record{r}, chromedp.EmulateViewport(1280, 1600))
	b.until(t, `stages.length === 1 && stages[0].width > 0`)
	b.run(t, `for (const l of stages[0].lanes.all) for (const i of stages[0].lanes.items(l).slice(0, 20)) { stages[0].go(i); stages[0].pick(i); }`)
	b.do(t, chromedp.Click(chromedp.CSS(`[data-table="events"] summary`)))
	if eval[bool](t, b, `window.pwned !== undefined || document.querySelector("img") !== null`) {
		t.Error("a name became a script or an element")
	}
	b.shot(t, "hostile")
}

func TestPrintInChromium(t *testing.T) {
	browser := chromium(t)
	for name, list := range map[string][]record.Record{"test": {records.RolloutLossy()}, "set": records.Matrix("iptables", 2)} {
		b := open(t, browser, list)
		pdf := got(t, b, chromedp.PrintToPDF(func(p *page.PrintToPDFParams) { p.PreferCSSPageSize, p.PrintBackground = new(true), new(true) }))
		if !strings.HasPrefix(string(pdf), "%PDF-") || len(pdf) < 10_000 {
			t.Errorf("%s: %d bytes of no PDF", name, len(pdf))
		}
		if dir := os.Getenv("DRAINPROOF_SHOTS"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, name+".pdf"), pdf, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// What is printed is the drawing, in light colours whatever the theme.
		b.do(t, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
		if name == "test" && !eval[bool](t, b, `getComputedStyle(document.querySelector(".still")).display === "block" && getComputedStyle(document.querySelector(".live")).display === "none"`) {
			t.Error("the timeline is not printed as a drawing")
		}
	}
}

// cost is what opening a page took of its own thread, in milliseconds of processor time.
func (b *tab) cost(t testing.TB) float64 {
	t.Helper()
	metrics, err := chromedp.Call(b, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metrics.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value * 1000
		}
	}
	t.Fatal("Chromium does not tell what a page cost")
	return 0
}

// threadTime makes Chromium count processor time, not time on the wall.
func threadTime() step {
	return command(performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
}

// A hundred thousand failures open at once: the page makes no more elements of them than of nine, and draws no more marks than
// there is room for. What that costs is in the log.
func TestAHundredThousandFailuresOpen(t *testing.T) {
	browser := chromium(t)
	const n = 100_000
	elements := `document.querySelectorAll("*").length`
	small := open(t, browser, []record.Record{records.RolloutLossy()}, threadTime())
	few, cheap := eval[int](t, small, elements), small.cost(t)
	r := crowded(n)
	size := len(pageOf(t, r))
	if size > 4<<20 {
		t.Errorf("the page has %d MB", size>>20)
	}
	b := open(t, browser, []record.Record{r}, threadTime())
	cost, many := b.cost(t), eval[int](t, b, elements)
	marks := eval[int](t, b, `stages[0].lanes.marks`)
	t.Logf("%d failures: %.1f MB, %.0f ms of processor time (%.0f for 9 of them), %d elements (%d), %d marks", n, float64(size)/1e6, cost, cheap, many, few, marks)
	// A hundred rows more of the table for where no script runs.
	if many > few+2000 {
		t.Errorf("%d elements, and %d for 9 failures", many, few)
	}
	if marks == 0 || marks > 5000 {
		t.Errorf("%d marks are drawn", marks)
	}
	b.do(t, chromedp.ScrollIntoView(chromedp.CSS(`[data-table="failures"] .full`)))
	b.until(t, `document.querySelectorAll('[data-table="failures"] .full tbody tr').length > 10`)
	b.run(t, `document.querySelector('[data-table="failures"] .tall').scrollTop = 1e9`)
	b.until(t, `document.querySelector('[data-table="failures"] .full tbody').innerText.includes("8.00")`)
	if rows := eval[int](t, b, `document.querySelectorAll('[data-table="failures"] .full tr').length`); rows > 100 {
		t.Errorf("%d rows are made", rows)
	}
	b.do(t, chromedp.ScrollIntoView(chromedp.CSS(".stage")))
	b.shot(t, "crowded")
	b.run(t, `stages[0].show([1e9, 1.01e9])`)
	b.until(t, `stages[0].view[1] - stages[0].view[0] < 2e7 && stages[0].lanes.marks > 50 && stages[0].lanes.marks < 400`)
	b.shot(t, "crowded-zoom")
}

func TestAMillionRequestsOpenInChromium(t *testing.T) {
	browser := chromium(t)
	b := open(t, browser, []record.Record{million()})
	b.until(t, `stages.length === 1 && stages[0].lanes.marks > 0`)
	if text := eval[string](t, b, `document.querySelector(".time").innerText`); !strings.Contains(text, "1,000,000 requests were sent") {
		t.Errorf("the timeline does not say what was sent:\n%s", text)
	}
}

// A browser that cannot unpack the data shows all that needs no script, and says what is missing.
func TestAnOldBrowserInChromium(t *testing.T) {
	browser := chromium(t)
	before := command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "delete globalThis.DecompressionStream;"})
	b := open(t, browser, []record.Record{records.RolloutLossy()}, before)
	b.do(t, chromedp.WaitVisible(chromedp.CSS("svg.lanes")), chromedp.WaitVisible(chromedp.CSS(`[data-table="failures"] .plain`)))
	if text := eval[string](t, b, `document.querySelector(".notice").innerText`); !strings.Contains(text, "filters and the full tables are missing") {
		t.Errorf("the notice says %q", text)
	}
	b.shot(t, "old-browser")
}

// Open is how long a page takes from the start of its loading until it can be used, and what that costs of the page's thread.
func BenchmarkOpen(b *testing.B) {
	browser := chromium(b)
	for _, c := range []struct {
		name   string
		record record.Record
	}{{"100000Requests", crowded(1000)}, {"100000Failures", crowded(100_000)}} {
		c.record.Requests.Total = max(c.record.Requests.Total, 100_000)
		b.Run(c.name, func(b *testing.B) {
			var ready, cost float64
			for b.Loop() {
				tab := open(b, browser, []record.Record{c.record}, threadTime())
				ready += eval[float64](b, tab, `Number(document.documentElement.dataset.ready)`)
				cost += tab.cost(b)
			}
			b.ReportMetric(ready/float64(b.N), "ms")
			b.ReportMetric(cost/float64(b.N), "cpu-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
