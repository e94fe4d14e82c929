package agent

import (
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
)

func TestListenersOfThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found, err := listeners(procRoot, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if want := l.Addr().(*net.TCPAddr).AddrPort(); !slices.Contains(found, want) {
		t.Errorf("%v is not among %v", want, found)
	}
}

func TestProcAddress(t *testing.T) {
	// As a little-endian machine writes them.
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"B80D0120000000000000000001000000:01BB": "[2001:db8::1]:443",
	} {
		if got, ok := procAddress(text); !ok || got.String() != want {
			t.Errorf("%s: %v %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "0100007F", "0100007F:XX", "01:0050", "zz:0050"} {
		if got, ok := procAddress(text); ok {
			t.Errorf("%q gives %v", text, got)
		}
	}
}
