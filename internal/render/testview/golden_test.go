package testview

import (
	"io"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestGoldens(t *testing.T) {
	const budget = "failed=0,users=0,p99=500ms"
	failing, passing, doubtful := judged(t, lossy(), budget), judged(t, clean(), budget), broken(t)
	control, watched := judged(t, records.Baseline(), budget), judged(t, records.RolloutWatched(), budget)
	summary := func(r record.Record, o render.Opts) func(io.Writer) error {
		return func(w io.Writer) error { return Summary(w, in(r), o) }
	}
	for name, write := range map[string]func(io.Writer) error{
		"lossy-80.txt":      summary(failing, render.Opts{Width: 80}),
		"lossy-120.txt":     summary(failing, render.Opts{Width: 120}),
		"lossy-color.txt":   summary(failing, render.Opts{Color: true}),
		"lossy-verbose.txt": summary(failing, render.Opts{Verbose: true}),
		"clean.txt":         summary(passing, render.Opts{}),
		"baseline.txt":      summary(control, render.Opts{}),
		"broken.txt":        summary(doubtful, render.Opts{}),
		"watched.txt":       summary(watched, render.Opts{}),
		"watched-80.txt":    summary(watched, render.Opts{Width: 80}),
		"lossy.md":          func(w io.Writer) error { return Markdown(w, in(failing)) },
		"broken.md":         func(w io.Writer) error { return Markdown(w, in(doubtful)) },
		"lossy.xml":         func(w io.Writer) error { return JUnit(w, in(failing)) },
		"clean.xml":         func(w io.Writer) error { return JUnit(w, in(passing)) },
		"broken.xml":        func(w io.Writer) error { return JUnit(w, in(doubtful)) },
		"compare.txt":       func(w io.Writer) error { return Comparison(w, comparison(t), render.Opts{}) },
		"compare.md":        func(w io.Writer) error { return ComparisonMarkdown(w, comparison(t)) },
		"matrix.txt":        func(w io.Writer) error { return Matrix(w, set(t), render.Opts{Width: 120}) },
		"matrix-80.txt":     func(w io.Writer) error { return Matrix(w, set(t), render.Opts{Width: 80}) },
		"matrix.md":         func(w io.Writer) error { return MatrixMarkdown(w, set(t)) },
	} {
		t.Run(name, func(t *testing.T) { testkit.Golden(t, name, written(t, write)) })
	}
}
