package agent

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// listeners reads from a process's /proc/PID/net which TCP sockets listen in its network namespace (proc(5): state 0A).
func listeners(proc string, pid int) ([]netip.AddrPort, error) {
	var found []netip.AddrPort
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("%s/%d/net/%s", proc, pid, file))
		if os.IsNotExist(err) {
			continue // without IPv6, or ended
		}
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(string(text), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != "0A" {
				continue
			}
			if a, ok := procAddress(fields[1]); ok {
				found = append(found, a)
			}
		}
	}
	return found, nil
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
