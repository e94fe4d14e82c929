package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/drainproof/drainproof/internal/clock"
)

// refusalsLogged bounds the lines about clients that spoke junk; the rest is counted in LogExiting.
const refusalsLogged = 100

// logger writes one line per Write call, so that lines of several goroutines never mix.
type logger struct {
	mu               sync.Mutex
	out              io.Writer
	instance, podUID string
	refused          atomic.Int64
}

// at logs event as of mono: the time of the fact, not of the writing.
func (l *logger) at(r clock.Reading, event string, detail map[string]any) {
	line := LogLine{
		Event: event, MonoNs: r.MonoNs, WallUnixNs: r.WallUnixNs,
		Instance: l.instance, PodUID: l.podUID, Detail: detail,
	}
	if event == LogStarted {
		line.BootID = r.BootID
	}
	b, err := json.Marshal(line)
	if err != nil {
		panic("probe: a log line of plain fields cannot be encoded: " + err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A log that cannot be written must not stop the workload; its reader will miss the line.
	_, _ = l.out.Write(append(b, '\n'))
}

// now logs an event that happens now.
func (l *logger) now(event string, detail map[string]any) { l.at(clock.Read(), event, detail) }

// refuse logs that a client was turned away, for the first hundred of them.
func (l *logger) refuse(why string, client string) {
	if l.refused.Add(1) <= refusalsLogged {
		l.now(LogRefused, map[string]any{"why": why, "client": client})
	}
}

// ErrNotLogLine is what ParseLogLine returns for text that the probe did not write.
var ErrNotLogLine = errors.New("not a line of the probe's log")

// ParseLogLine reads one line of the probe's log, with or without its newline.
// Fields it does not know are ignored. The error wraps ErrNotLogLine.
func ParseLogLine(b []byte) (LogLine, error) {
	var l LogLine
	if err := json.Unmarshal(b, &l); err != nil {
		return LogLine{}, fmt.Errorf("%w: %w", ErrNotLogLine, err)
	}
	if l.Event == "" || l.MonoNs <= 0 {
		return LogLine{}, fmt.Errorf("%w: it has no event or no mono_ns", ErrNotLogLine)
	}
	return l, nil
}
