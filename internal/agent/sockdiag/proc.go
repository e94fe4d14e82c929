package sockdiag

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// read reads from a process's /proc/PID/net which TCP sockets listen in its network namespace (proc(5): state 0A).
func read(proc string, pid int) ([]netip.AddrPort, error) {
	var found []netip.AddrPort
	for _, file := range []string{"tcp", "tcp6"} {
		if err := readFile(fmt.Sprintf("%s/%d/net/%s", proc, pid, file), &found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readFile adds what one file says. One that is not there, without IPv6 or as its process has ended, says nothing.
func readFile(name string, found *[]netip.AddrPort) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != "0A" {
			continue
		}
		if a, ok := procAddress(fields[1]); ok {
			*found = append(*found, a)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// procAddress reads ADDRESS:PORT, the address in 32-bit words of the machine's order.
func procAddress(s string) (netip.AddrPort, bool) {
	host, portText, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	port, errPort := strconv.ParseUint(portText, 16, 16)
	if err != nil || errPort != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a, uint16(port)), ok
}
