package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/wire"
)

// peerVariable makes the test binary a peer in place of a test run.
const peerVariable = "DRAINPROOF_BENCH_PEER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(peerVariable) {
	case "":
		os.Exit(m.Run())
	case "probe":
		err = peerProbe()
	case "reset":
		err = peerReset()
	default:
		err = fmt.Errorf("unknown peer %q", os.Getenv(peerVariable))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// peerProbe is the bundled probe; it says its address and lives until its input ends.
func peerProbe() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	_, err := probe.Run(ctx, probe.Config{
		Behaviour: probe.Ignore, ReadinessOnTerm: probe.Keep, TickEvery: 5 * time.Second, Instance: "bench", PodUID: "bench",
		TCP: "127.0.0.1:0", UDP: "127.0.0.1:0", HTTP: "127.0.0.1:0", Log: io.Discard,
	}, nil, func(tcp, _, _ string) { fmt.Println(tcp) })
	return err
}

// resetStamp says when a connection was reset: the clock just before its close.
type resetStamp struct {
	Client string `json:"client"`
	MonoNs int64  `json:"mono_ns"`
}

// peerReset answers heartbeats until a line arrives on its input; then it
// resets all connections one after the other, as fast as one thread can, and prints the stamps.
func peerReset() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var all []*net.TCPConn
	var serving sync.WaitGroup
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, c.(*net.TCPConn))
			mu.Unlock()
			serving.Go(func() { answer(c) })
		}
	}()
	fmt.Println(l.Addr())
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	_ = l.Close()
	stamps := make([]resetStamp, 0, len(all))
	fds := make([]int, 0, len(all))
	for _, c := range all {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
	serving.Wait()
	for _, c := range all {
		_ = c.SetLinger(0)
		f, err := c.File() // a duplicate, so that the close below is the system call and nothing else
		if err != nil {
			return err
		}
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			return err
		}
		_ = f.Close()
		stamps = append(stamps, resetStamp{Client: c.RemoteAddr().String()})
		fds = append(fds, fd)
		_ = c.Close()
	}
	for i, fd := range fds {
		stamps[i].MonoNs = clock.MonoNs()
		_ = unix.Close(fd)
	}
	return json.NewEncoder(os.Stdout).Encode(stamps)
}

// answer speaks the server's part of the wire until a read fails.
func answer(c net.Conn) {
	id := wire.NewIdentity("bench", "bench")
	_, _ = c.Write(append(id.Append(nil, wire.Message{Type: wire.Hello, Promises: wire.PromiseAnnounce}), '\n'))
	buf := make([]byte, 0, 256)
	for {
		n, err := c.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return
		}
		buf = buf[:len(buf)+n]
		for {
			line, rest, found := bytes.Cut(buf, []byte{'\n'})
			if !found {
				break
			}
			if seq, ok := wire.ParsePing(line); ok {
				_, _ = c.Write(append(id.AppendBeat(nil, seq), '\n'))
			}
			buf = append(buf[:0], rest...)
		}
	}
}

// peerProcess is a running peer.
type peerProcess struct {
	address string
	in      io.WriteCloser
	out     *bufio.Reader
	command *exec.Cmd
}

func startPeer(b *testing.B, kind string) *peerProcess {
	b.Helper()
	c := exec.CommandContext(b.Context(), os.Args[0])
	c.Env = append(os.Environ(), peerVariable+"="+kind)
	in, out := testkit.Pipes(b, c)
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	p := &peerProcess{in: in, out: bufio.NewReader(out), command: c}
	b.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	p.address = line[:len(line)-1]
	return p
}
