package traffic

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

func TestFallenBehind(t *testing.T) {
	delays := func(ns ...int64) *stats.Delays {
		d := stats.NewDelays()
		for _, n := range ns {
			d.Record(n)
		}
		return d
	}
	for name, c := range map[string]struct {
		late   *stats.Delays
		limits map[string]int
		want   bool
	}{
		"nothing sent": {delays(), nil, false},
		"in time":      {delays(1e6, 200e6), nil, false},
		"one stall":    {delays(1e6, 1e6, 1e6, 500e6), nil, false},
		"late":         {delays(1e6, 500e6, 500e6, 500e6), nil, true},
		"always late":  {delays(500e6, 500e6), nil, true},
		"a limit":      {delays(1e6), map[string]int{"EMFILE": 1}, true},
	} {
		h := health(2, 1, c.late, c.limits)
		if h.FellBehind != c.want || h.HeartbeatsSent != 2 || h.HeartbeatsAnswered != 1 || h.LateMaxNs != c.late.MaxNs() {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

func TestLocalLimits(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EMFILE: true, unix.ENFILE: true, unix.EADDRNOTAVAIL: true, unix.ENOBUFS: true, unix.EPERM: true, fmt.Errorf("wrapped: %w", unix.EMFILE): true,
		unix.ECONNRESET: false, unix.ECONNREFUSED: false, unix.ETIMEDOUT: false, unix.EPROTO: false,
	} {
		if got := localLimit(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := request.Symbol(fmt.Errorf("wrapped: %w", unix.ECONNRESET)); got != "ECONNRESET" {
		t.Errorf("symbol %q", got)
	}
	if got := request.Symbol(unix.Errno(4000)); got != "errno 4000" {
		t.Errorf("symbol %q", got)
	}
}

// The kernel refuses a broadcast address to a socket that did not ask for it: a limit of the client's own making.
func TestAClientLimitBlamesNoServer(t *testing.T) {
	s, err := StartLocal()
	if err != nil {
		t.Fatal(err)
	}
	l := listen(s)
	err = s.Open(t.Context(), planFor(record.UDP, "127.255.255.255:9", 2))
	if err == nil || !strings.Contains(err.Error(), "a limit of the client's machine") {
		t.Errorf("error %v", err)
	}
	r := closeSession(t, s)
	<-l.done
	for _, f := range r.Flows {
		if o, m := Classify(f.Protocol, f.End); o != record.NotMeasured || m != record.ClientLimit || f.End.Kind != EndClientLimit {
			t.Errorf("%s/%s %+v", o, m, f)
		}
	}
	if !r.Health.FellBehind || r.Health.Limits["EACCES"] != 2 {
		t.Errorf("health %+v", r.Health)
	}
}

func TestExtendedErrors(t *testing.T) {
	v4 := []byte{111, 0, 0, 0, unix.SO_EE_ORIGIN_ICMP, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, unix.AF_INET, 0, 0, 0, 192, 0, 2, 1}
	m, errno, err := extendedError(v4)
	if err != nil || errno != unix.ECONNREFUSED || *m != (record.ICMP{From: "192.0.2.1", Type: 3, Code: 3}) {
		t.Errorf("%+v %v %v", m, errno, err)
	}
	local := append([]byte(nil), v4...)
	local[4] = unix.SO_EE_ORIGIN_LOCAL
	if m, _, err := extendedError(local); m != nil || err != nil {
		t.Errorf("a local error is no ICMP message: %+v %v", m, err)
	}
	for n := range len(v4) {
		if m, _, err := extendedError(v4[:n]); (err == nil) != (n >= 16) || m != nil && m.From != "" {
			t.Errorf("%d bytes: %+v %v", n, m, err)
		}
	}
}
