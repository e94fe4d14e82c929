package probe

import (
	"errors"
	"net"
	"time"

	"github.com/drainproof/drainproof/internal/wire"
)

// serveUDP answers every ping with a beat until the socket is closed, which is
// at the end of the process: a datagram server has nothing to stop accepting.
func serveUDP(pc *net.UDPConn, id *wire.Identity, log *logger) {
	in := make([]byte, wire.MaxMessageBytes+1)
	out := make([]byte, 0, wire.MaxMessageBytes)
	for {
		n, from, err := pc.ReadFromUDPAddrPort(in)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Such as an ICMP error on an earlier answer. Never a reason to stop, nor to spin.
			time.Sleep(time.Millisecond)
			continue
		}
		datagram := in[:n]
		if n > 0 && datagram[n-1] == '\n' {
			datagram = datagram[:n-1]
		}
		seq, ok := wire.ParsePing(datagram)
		if !ok {
			log.refuse("a datagram that is no ping", from.String())
			continue
		}
		out = id.AppendBeat(out[:0], seq)
		_, _ = pc.WriteToUDPAddrPort(out, from) // a lost answer is the client's to notice
	}
}
