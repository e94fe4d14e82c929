package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

const (
	answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nX-Instance: bench\r\n\r\nhello, world"
	parted = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nX-Instance: bench\r\nConnection: close\r\n\r\nhello, world"
)

// serve is the server of every client here: it answers each request head with 12 bytes and does no more than it must.
// One in failEvery requests is answered with a reset; none where that is 0. It says its address, and lives until its input ends.
func serve(failEvery int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	fmt.Println(l.Addr())
	var requests atomic.Int64
	fails := func() bool { return failEvery > 0 && requests.Add(1)%int64(failEvery) == 0 }
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.ECONNABORTED):
			continue
		case err != nil:
			return err
		}
		go converse(c.(*net.TCPConn), fails)
	}
}

// converse answers one connection's requests.
func converse(c *net.TCPConn, fails func() bool) {
	defer c.Close()
	var buf [4096]byte
	have := 0
	for {
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		for {
			end := bytes.Index(buf[:have], []byte("\r\n\r\n"))
			if end < 0 {
				break
			}
			if fails() {
				_ = c.SetLinger(0)
				return
			}
			last := bytes.Contains(buf[:end], []byte("\r\nConnection: close"))
			text := answer
			if last {
				text = parted
			}
			if _, err := io.WriteString(c, text); err != nil || last {
				return
			}
			have = copy(buf[:], buf[end+4:have])
		}
	}
}
