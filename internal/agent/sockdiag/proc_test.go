package sockdiag

import "testing"

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
