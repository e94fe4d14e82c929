package course

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/record"
)

var errBroken = errors.New("broken on purpose")

// world writes down what a course does.
type world struct {
	did   []string
	undos Undos
	rec   *record.Record
}

func (w *world) course(steps ...func(context.Context) error) Course {
	w.rec = NewRecord(Origin{ID: "t1"}, "boot", time.Unix(0, 0))
	w.undos.Timeout = time.Minute
	does := func(what string) func() { return func() { w.did = append(w.did, what) } }
	return Course{
		Record: w.rec, Journal: journal.New(), Steps: steps, Phase: func() string { return "third" },
		Collect: func(ctx context.Context) { w.did = append(w.did, "collect"+text(ctx.Err())) }, Assemble: does("assemble"), PuttingBack: does("put back"), Undos: &w.undos,
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return " " + err.Error()
}

func (w *world) change(what string, fails int, mark, users bool) func(context.Context) error {
	return func(context.Context) error {
		w.did = append(w.did, what)
		w.undos.Push(Undo{What: what, Mark: mark, Users: users, Do: func(ctx context.Context) error {
			w.did = append(w.did, "undo "+what+text(ctx.Err()))
			if fails--; fails >= 0 {
				return errBroken
			}
			return nil
		}})
		return nil
	}
}

func TestCourse(t *testing.T) {
	fails := func(context.Context) error { return errBroken }
	for _, c := range []struct {
		name          string
		steps         func(w *world, cancel func()) []func(context.Context) error
		did           []string
		code          fault.Code
		says, missing string
		notes         int
	}{
		{"to its end", func(w *world, _ func()) []func(context.Context) error {
			return []func(context.Context) error{w.change("a", 0, false, false), w.change("b", 0, false, false)}
		}, []string{"a", "b", "collect", "put back", "undo b", "undo a", "assemble"}, 0, "", "", 0},
		{"nothing to put back", func(*world, func()) []func(context.Context) error { return []func(context.Context) error{fails} },
			[]string{"collect", "assemble"}, 0, "broken on purpose", "phase third: broken on purpose", 0},
		{"a step fails", func(w *world, _ func()) []func(context.Context) error {
			return []func(context.Context) error{w.change("a", 0, false, false), fails, w.change("b", 0, false, false)}
		}, []string{"a", "collect", "put back", "undo a", "assemble"}, 0, "broken on purpose", "phase third: broken on purpose", 0},
		{"interrupted", func(w *world, cancel func()) []func(context.Context) error {
			return []func(context.Context) error{w.change("a", 0, false, false), func(context.Context) error { cancel(); return nil }, w.change("b", 0, false, false)}
		}, []string{"a", "collect", "put back", "undo a", "assemble"}, fault.Unmeasurable, "has been put back", `interrupted in the phase "third"`, 0},
		{"a moment's failure", func(w *world, _ func()) []func(context.Context) error {
			return []func(context.Context) error{w.change("a", 3, false, true)}
		},
			[]string{"a", "collect", "put back", "undo a", "undo a", "undo a", "undo a", "assemble"}, 0, "", "", 0},
		// The mark on a workload tells cleanup what is left, and is left with it.
		{"left behind", func(w *world, _ func()) []func(context.Context) error {
			return []func(context.Context) error{w.change("namespace", 0, false, false), w.change("mark", 0, true, false), w.change("scale", 9, false, true)}
		}, []string{"namespace", "mark", "scale", "collect", "put back", "undo scale", "undo scale", "undo scale", "undo scale", "undo namespace", "assemble"},
			fault.Unmeasurable, "putting back scale: broken on purpose", "", 1},
		{"what is not the user's is left behind", func(w *world, _ func()) []func(context.Context) error {
			return []func(context.Context) error{w.change("mark", 0, true, false), w.change("pod", 9, false, false)}
		}, []string{"mark", "pod", "collect", "put back", "undo pod", "undo pod", "undo pod", "undo pod", "undo mark", "assemble"},
			fault.Unmeasurable, "putting back pod", "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := &world{}
				err := w.course(c.steps(w, cancel)...).Run(ctx)
				if d := cmp.Diff(c.did, w.did); d != "" {
					t.Errorf("did (-want +got):\n%s", d)
				}
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error()+fault.NextOf(err), c.says) {
					t.Errorf("error %v, next %s", err, fault.NextOf(err))
				}
				if c.code != 0 && fault.CodeOf(err) != c.code {
					t.Errorf("code %d", fault.CodeOf(err))
				}
				if got := strings.Join(w.rec.Missing, "|"); got != c.missing || len(w.rec.Notes) != c.notes {
					t.Errorf("missing %q, notes %q", got, w.rec.Notes)
				}
				if !w.undos.Empty() {
					t.Error("it would be put back again")
				}
			})
		})
	}
}

// An undo that hangs is given up in time, and the others are tried.
func TestUndoThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := false
		u := Undos{Timeout: 10 * time.Second}
		u.Push(Undo{What: "other", Do: func(context.Context) error { other = true; return nil }})
		u.Push(Undo{What: "hanging", Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		began := time.Now()
		err := u.Run(t.Context())
		if took := time.Since(began); !other || took != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "hanging") {
			t.Errorf("after %v: other %v, %v", took, other, err)
		}
	})
}
