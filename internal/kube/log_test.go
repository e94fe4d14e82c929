package kube

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	tests := []struct {
		name string
		r    io.Reader
		want []string
		rest int
		err  error
	}{
		{"complete lines", strings.NewReader("a\n\nb\n"), []string{"a", "", "b"}, 0, nil},
		{"unfinished line is not given", strings.NewReader("a\nhal"), []string{"a"}, 3, nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader("ab\nc\n")), []string{"ab", "c"}, 0, nil},
		{"line over the buffer", strings.NewReader(long + "\nz\n"), []string{long, "z"}, 0, nil},
		{"cut stream", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF)), []string{"a"}, 1, io.ErrUnexpectedEOF},
		{"nothing", strings.NewReader(""), nil, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			rest, err := readLines(tt.r, func(b []byte) { got = append(got, string(b)) })
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("lines (-want +got):\n%s", d)
			}
			if rest != tt.rest || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("rest %d, error %v; want %d, %v", rest, err, tt.rest, tt.err)
			}
		})
	}
}

func TestContainerEnded(t *testing.T) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"runs", pod("a", running("c1")), false},
		{"deletion alone is no end", pod("a", running("c1"), terminating), false},
		{"ended", pod("a", exitedWith("c1", 0)), true},
		{"ended, and runs again", pod("a", restarted), true},
	}
	for _, tt := range tests {
		if got := containerEnded(tt.pod, "c1"); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if containerEnded(pod("a", restarted), "c2") {
		t.Error("the second run still runs")
	}
}

func TestFollowLogEndingInMidLineIsBroken(t *testing.T) {
	var lines int
	err := fakeCluster(t, pod("a", exitedWith("c1", 0))).FollowLog(t.Context(), "ns", "probe-a", func([]byte) { lines++ })
	// The fake writes "fake logs" without a newline: an unfinished line.
	if !errors.Is(err, ErrLogBroken) || lines != 0 {
		t.Errorf("%d lines, error %v; want none and a broken stream", lines, err)
	}
	err = fakeCluster(t, nil).FollowLog(t.Context(), "ns", "probe-a", func([]byte) { lines++ })
	if err == nil {
		t.Error("no such Pod: no error")
	}
}
