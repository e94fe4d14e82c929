package sockdiag

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Both ways find the sockets that listen, on addresses of both families and on all, and none that does not.
func TestListenersOfThisProcess(t *testing.T) {
	var want []netip.AddrPort
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("not tried: %v", err) // a machine without IPv6
			continue
		}
		defer l.Close()
		want = append(want, l.Addr().(*net.TCPAddr).AddrPort())
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer func() {
			if client := c.LocalAddr().(*net.TCPAddr).AddrPort(); slices.Contains(want, client) {
				t.Errorf("a client's end is among the listeners: %v", client)
			}
		}()
	}
	asked, err := ask("/proc/self/ns/net")
	if err != nil {
		t.Skipf("this kernel cannot be asked: %v", err)
	}
	text, err := read("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	all, err := Listeners("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for way, found := range map[string][]netip.AddrPort{"asked": asked, "read": text, "either": all} {
		for _, w := range want {
			if !slices.Contains(found, w) {
				t.Errorf("%s: %v is not among %v", way, w, found)
			}
		}
	}
	// Other programs may begin or end to listen meanwhile, but not on the addresses of this test.
	ours := func(list []netip.AddrPort) []netip.AddrPort {
		list = slices.DeleteFunc(slices.Clone(list), func(a netip.AddrPort) bool {
			return !slices.ContainsFunc(want, func(w netip.AddrPort) bool { return w.Port() == a.Port() })
		})
		slices.SortFunc(list, func(a, b netip.AddrPort) int { return cmp.Compare(a.String(), b.String()) })
		return list
	}
	if a, b := ours(asked), ours(text); !slices.Equal(a, b) {
		t.Errorf("asked: %v; read: %v", a, b)
	}
}

func TestListenersOfAnEndedProcess(t *testing.T) {
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if found, err := Listeners("/proc", c.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestListenerRefusesForeignAnswers(t *testing.T) {
	answer := make([]byte, answerBytes)
	answer[0], answer[1], answer[5] = familyIPv4, stateListen, 80
	if at, ok := listener(answer); !ok || at != netip.MustParseAddrPort("0.0.0.0:80") {
		t.Errorf("%v, %v", at, ok)
	}
	for name, change := range map[string]func([]byte) []byte{
		"short":          func(b []byte) []byte { return b[:answerBytes-1] },
		"another state":  func(b []byte) []byte { b[1] = 1; return b },
		"another family": func(b []byte) []byte { b[0] = 1; return b },
		"nothing":        func([]byte) []byte { return nil },
	} {
		if at, ok := listener(change(slices.Clone(answer))); ok {
			t.Errorf("%s: %v", name, at)
		}
	}
}
