package testview

import (
	"fmt"
	"io"
	"strings"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
)

// Summary writes one test for a terminal, on one screen: the verdict, what was tested, how requests ended, their latency, the course over time,
// the worst moments, causes, how Pods ended, who answered, what is missing, and where the record is. Verbose shows every row and every failure. The error is that of w.
func Summary(w io.Writer, in render.Input, o render.Opts) error {
	s := &sheet{r: in.Record, o: o, k: page.Ink{On: o.Color}, width: page.Columns(o.Width)}
	s.headline()
	s.table(requests(s.r, o.Verbose))
	s.table(latency(s.r))
	s.picture()
	s.moments()
	s.causes()
	s.endings()
	s.table(answers(s.r, o.Verbose))
	if o.Verbose {
		s.failures()
	}
	s.doubts()
	if in.Path != "" {
		s.line("")
		const more = "  (report -v tells of each failure)"
		if !o.Verbose && len(s.r.Failures) > 0 && len("record  "+in.Path+more) <= s.width {
			s.line(s.k.Dim("record  ") + s.k.Plain(in.Path) + s.k.Dim(more))
		} else {
			s.line(s.k.Dim("record  ") + s.k.Plain(in.Path))
		}
	}
	_, err := io.WriteString(w, s.b.String())
	return err
}

// sheet is one test being written.
type sheet struct {
	r     record.Record
	o     render.Opts
	k     page.Ink
	width int
	b     strings.Builder
}

func (s *sheet) line(text string) { s.b.WriteString(strings.TrimRight(text, " ") + "\n") }

// hanging writes wrapped text behind a mark.
func (s *sheet) hanging(mark, text string, paint func(page.Ink, string) string) {
	indent := strings.Repeat(" ", len([]rune(mark)))
	for i, line := range page.Wrap(page.Clean(text), s.width-len([]rune(mark))) {
		if i == 0 {
			s.line(paint(s.k, mark) + s.k.Plain(line))
			continue
		}
		s.line(indent + s.k.Plain(line))
	}
}

func (s *sheet) headline() {
	result, word, reason := verdictOf(s.r)
	s.hanging(word+"  ", reason, paintOf(result))
	for _, parts := range conditions(s.r) {
		for i, p := range parts {
			parts[i] = page.Clean(p)
		}
		for _, line := range page.WrapParts(parts, ", ", s.width) {
			s.line(s.k.Dim(line))
		}
	}
}

// table writes one that has something to say.
func (s *sheet) table(t page.Table) {
	if len(t.Rows) == 0 && t.Note == "" {
		return
	}
	if len(t.Rows) == 0 {
		t.Head = nil
	}
	t.Note = page.Clean(t.Note)
	t.Terminal(&s.b, s.k, s.width)
}

func (s *sheet) moments() {
	list := explain.Moments(s.r)
	if len(list) == 0 {
		return
	}
	s.line("")
	s.line(s.k.Bold("Worst moments"))
	for _, m := range list {
		page.Bullet(&s.b, page.Clean(m.Sentence), s.width)
	}
}

// failures tells every failure with its cause.
func (s *sheet) failures() {
	if len(s.r.Failures) == 0 {
		return
	}
	s.line("")
	s.line(s.k.Bold("Failures"))
	for _, f := range s.r.Failures {
		page.Bullet(&s.b, page.Clean(failureText(f)), s.width)
	}
}

func failureText(f record.Failure) string {
	text := fmt.Sprintf("%s  user %d, %s, %s", figure.Precise(f.TNs, f.TNs), f.User, f.Outcome, f.Phase)
	for _, part := range []string{f.Errno, f.Message} {
		if part != "" {
			text += ", " + part
		}
	}
	if f.Cause != nil {
		text += ": " + f.Cause.Kind + ": " + f.Cause.Sentence
	}
	return text
}

// maxDoubts is how many are told on one screen.
const maxDoubts = 3

func (s *sheet) doubts() {
	list := doubts(s.r)
	if len(list) == 0 {
		return
	}
	more := 0
	if !s.o.Verbose && len(list) > maxDoubts {
		more = len(list) - (maxDoubts - 1)
		list = list[:maxDoubts-1]
	}
	s.line("")
	s.line(s.k.Bold("Trust"))
	for _, d := range list {
		page.Bullet(&s.b, page.Clean(d), s.width)
	}
	if more > 0 {
		page.Bullet(&s.b, fmt.Sprintf("and %d more, in the record", more), s.width)
	}
}
