package jsonlines

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

type said struct{ N int }

func TestLinesComeBackWhole(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := w.Write(said{i}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	sum := 0
	if err := Read(&b, func(s said) error { sum += s.N; return nil }); err != nil || sum != 49*50/2 {
		t.Errorf("sum %d, %v", sum, err)
	}
}

func TestReadSaysWhatItCannotRead(t *testing.T) {
	stop := errors.New("enough")
	for name, c := range map[string]struct{ in, want string }{
		"no JSON":    {"{\n", "not a line of the protocol"},
		"other JSON": {"[1]\n", "not a line of the protocol"},
		"too long":   {strings.Repeat("x", MaxLine+1), "longer than"},
		"obeyed not": {"\n{\"N\":1}\n{\"N\":2}\n", "enough"},
	} {
		err := Read(strings.NewReader(c.in), func(said) error { return stop })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewWriter(&bytes.Buffer{}).Write(func() {}); err == nil {
		t.Error("what is no JSON was written")
	}
}

// Where the other side ends in the middle of a line, its end is what went wrong.
func TestReadSaysWhyALineWasCut(t *testing.T) {
	killed := errors.New("killed")
	n := 0
	err := Read(io.MultiReader(strings.NewReader("{\"N\":1}\n{\"N\":"), iotest.ErrReader(killed)), func(said) error { n++; return nil })
	if !errors.Is(err, killed) || n != 1 {
		t.Errorf("%d lines, then %v", n, err)
	}
}
