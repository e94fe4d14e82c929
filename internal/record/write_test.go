package record

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestSizeIsBounded(t *testing.T) {
	const limit = 1 << 20
	_, err := decode(strings.NewReader(`{"schema":"`+strings.Repeat("x", limit)+`"}`), "big.json", limit)
	if e, ok := errors.AsType[*TooLargeError](err); !ok || e.Path != "big.json" || e.Limit != limit {
		t.Errorf("error is %v", err)
	}
}

func TestFullDiskIsNamed(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := fullDisk("out/record.json", cause)
		if e, ok := errors.AsType[*FullDiskError](err); !ok || e.Path != "out/record.json" || !errors.Is(err, cause) {
			t.Errorf("%v becomes %v", cause, err)
		}
	}
	if err := fullDisk("out/record.json", syscall.EACCES); err != syscall.EACCES {
		t.Errorf("another error becomes %v", err)
	}
	if err := fullDisk("out/record.json", nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}

func TestEncodeFillsLists(t *testing.T) {
	r := Record{Set: &Set{}, Client: &ClientHealth{}, Sources: []Source{{}}}
	data, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"events", "flows", "windows", "clocks", "gaps", "notes", "missing", "nodes", "arms", "tcp", "limits"} {
		if bytes.Contains(data, []byte(`"`+field+`": null`)) {
			t.Errorf("%s is null", field)
		}
	}
	if r.Set.Arms != nil || r.Client.Limits != nil || r.Sources[0].Gaps != nil || r.Events != nil {
		t.Error("the record itself was changed")
	}
}

func TestBoundOf(t *testing.T) {
	for _, c := range []struct{ from, to, want Bound }{
		{Exact, Exact, Exact}, {Exact, Upper, Upper}, {Exact, Lower, Lower},
		{Upper, Exact, Lower}, {Lower, Exact, Upper},
		{Upper, Lower, Lower}, {Lower, Upper, Upper},
		{Upper, Upper, Either}, {Lower, Lower, Either},
	} {
		if got := boundOf(c.from, c.to); got != c.want {
			t.Errorf("from %s to %s: %s, not %s", c.from, c.to, got, c.want)
		}
	}
}
