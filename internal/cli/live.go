package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/release"
)

// plainEvery spaces the lines where there is no terminal to redraw one.
const plainEvery = 5 * time.Second

// liveView shows how a test goes, on stderr: one line that is drawn again on a terminal, a line now and then elsewhere,
// none with --quiet. Progress and live lines share it, so that they do not mix.
type liveView struct {
	app *app
	mu  sync.Mutex
	// drawn: the terminal's last line is ours.
	drawn bool
	// told is when the last plain line was written, failed what it said.
	told   time.Time
	failed int64
	pods   string
}

func (a *app) newLiveView() *liveView { return &liveView{app: a} }

// progress prints a whole line.
func (v *liveView) progress(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.app.progress(format, args...)
}

// clear takes the live line away; the caller holds mu.
func (v *liveView) clear() {
	if v.drawn {
		fmt.Fprint(v.app.Err, "\r\x1b[K")
		v.drawn = false
	}
}

func (v *liveView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
}

func (v *liveView) show(l release.Live) {
	if v.app.quiet {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	line, pods := describeLive(l), describePods(l.Pods)
	if v.app.ErrIsTerminal && v.app.Getenv("TERM") != "dumb" {
		text := line + "  " + pods
		if w := v.app.ErrWidth; w > 1 && len([]rune(text)) >= w {
			text = string([]rune(text)[:w-2]) + "…"
		}
		fmt.Fprint(v.app.Err, "\r\x1b[K"+text)
		v.drawn = true
		return
	}
	// Without a terminal: a line when a Pod changes or something fails, and now and then.
	failed := failures(l)
	if pods == v.pods && failed == v.failed && time.Since(v.told) < plainEvery || time.Since(v.told) < time.Second {
		return
	}
	v.told, v.failed, v.pods = time.Now(), failed, pods
	v.app.progress("   %s  %s", line, pods)
}

func failures(l release.Live) (n int64) {
	for o, k := range l.Counts {
		if o.Failed() {
			n += k
		}
	}
	return n
}

// describeLive is the rate and what failed, by kind.
func describeLive(l release.Live) string {
	var b strings.Builder
	if l.Fired {
		fmt.Fprintf(&b, "t+%.1fs", l.SinceTrigger.Seconds())
	} else {
		fmt.Fprintf(&b, "before %.1fs", -l.SinceTrigger.Seconds())
	}
	fmt.Fprintf(&b, "  %.0f/s  ok %d", l.Rate, l.Counts[record.OK])
	for _, o := range record.RequestOutcomes() {
		if n := l.Counts[o]; n > 0 && o != record.OK {
			fmt.Fprintf(&b, "  %s %d", o, n)
		}
	}
	return b.String()
}

// describePods counts Pods by state, and names those that are on the move.
func describePods(pods []release.PodState) string {
	counts := map[string]int{}
	var moving []string
	for _, p := range pods {
		counts[p.State]++
		if p.State == "terminating" || p.State == "pending" || p.State == "running" {
			moving = append(moving, harmless(p.Name)+" "+p.State)
		}
	}
	parts := []string{fmt.Sprintf("Pods: %d ready", counts["ready"])}
	slices.Sort(moving)
	const most = 4
	if len(moving) > most {
		moving = append(moving[:most], fmt.Sprintf("and %d more", len(moving)-most))
	}
	return strings.Join(append(parts, moving...), ", ")
}
