package bench

import (
	"bytes"
	"cmp"
	"io"
	"net/netip"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
)

// clientOrders are those of the client.
var clientOrders = map[string]func(order) (any, error){
	"load": func(o order) (any, error) { return o.Load.run(), nil },
	"dial": func(o order) (any, error) { return dial(o.Load.Block, o.Times), nil },
}

// load is what a client sends: requests on new connections.
type load struct {
	// Each is how many requests a connection carries; 0 is one. PerS counts connections.
	Each int
	// PerS is how many a second; 0 is as many as Workers can, one after another each.
	PerS    float64
	ForNs   int64
	Workers int
	// Block is a number of its own for each load: no connection of one has an address and port that one of another had.
	Block int
}

// loaded is what came of it.
type loaded struct {
	// Done counts by worker the connections whose requests were answered, before any failed: they are those of the first ports.
	Done []int
	Each int
	// Failed counts all others, with one error of them.
	Failed int
	Why    string
	TookNs int64
}

func (l loaded) requests() (n int) {
	for _, of := range l.Done {
		n += of * l.Each
	}
	return n
}

// firstPort is the client's lowest.
const firstPort = 1024

// clientEnd is a worker's end of its connection with that number. Every address of 10.203.0.0/16 is the client's.
func clientEnd(block, worker, connection int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 203, byte(block), byte(worker + 1)}), uint16(firstPort+connection))
}

// connections lists the client's ends.
func (l loaded) connections(block int) (ends []netip.AddrPort) {
	for worker, n := range l.Done {
		for i := range n {
			ends = append(ends, clientEnd(block, worker, i))
		}
	}
	return ends
}

func (l load) run() loaded {
	result := loaded{Done: make([]int, l.Workers), Each: max(1, l.Each)}
	var mu sync.Mutex
	var workers sync.WaitGroup
	startNs := clock.MonoNs() + 50e6
	for w := range l.Workers {
		workers.Go(func() {
			runtime.LockOSThread()
			buf := make([]byte, 1024)
			failed := 0
			for i := 0; firstPort+i < 1<<16; i++ {
				if l.PerS > 0 {
					sleepUntil(startNs + int64((float64(i)+float64(w)/float64(l.Workers))*float64(l.Workers)/l.PerS*1e9))
				}
				if clock.MonoNs() >= startNs+l.ForNs {
					break
				}
				err := requests(clientEnd(l.Block, w, i), result.Each, buf)
				if err == nil && failed == 0 {
					result.Done[w]++
				}
				if err != nil {
					failed++
					mu.Lock()
					result.Failed++
					result.Why = err.Error()
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	result.TookNs = clock.MonoNs() - startNs
	return result
}

func sleepUntil(monoNs int64) {
	at := unix.NsecToTimespec(monoNs)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
	}
}

// requests opens a connection, asks so many times, and reads until the server closes it: the last request says that it is the last.
func requests(local netip.AddrPort, times int, buf []byte) error {
	fd, _, err := connect(local)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range times - 1 {
		if _, err := unix.Write(fd, []byte("GET / HTTP/1.1\r\nHost: bench\r\n\r\n")); err != nil {
			return err
		}
		for n := 0; !bytes.HasSuffix(buf[:n], []byte(body)); {
			got, err := unix.Read(fd, buf[n:])
			if err != nil || got == 0 {
				return cmp.Or(err, io.ErrUnexpectedEOF)
			}
			n += got
		}
	}
	if _, err := unix.Write(fd, []byte("GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")); err != nil {
		return err
	}
	for {
		if n, err := unix.Read(fd, buf); err != nil || n == 0 {
			return err
		}
	}
}

// connect connects to the Service.
func connect(local netip.AddrPort) (fd int, when bracket, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, when, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: local.Addr().As4(), Port: int(local.Port())})
	when = bracket{BeforeNs: clock.MonoNs(), Local: local.String(), Remote: front.String()}
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: front.Addr().As4(), Port: int(front.Port())})
	}
	when.AfterNs = clock.MonoNs()
	if err != nil {
		unix.Close(fd)
	}
	return fd, when, err
}

// dial connects to the Service some times, one after the other.
func dial(block, times int) (all []bracket) {
	for i := range times {
		fd, when, err := connect(clientEnd(block, 0, i))
		if err != nil {
			continue // fewer than asked for: the benchmark counts
		}
		all = append(all, when)
		_ = unix.Close(fd)
	}
	return all
}
