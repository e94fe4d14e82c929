//go:build amd64 || arm64

package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/osthread"
	"github.com/drainproof/drainproof/internal/testkit"
)

func TestLostEventsAreCounted(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	tracer, err := Open(Options{RingBytes: 1}) // one page; nobody reads yet
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	if loss, err := tracer.Lost(); err != nil || len(loss.NoRoom) != 0 {
		t.Fatalf("lost before the beginning: %v, %v", loss, err)
	}
	const listeners = 100
	inNetNs(t, func(netns uint32) error {
		if err := tracer.Watch(netns, Sockets); err != nil {
			return err
		}
		for range listeners {
			l, err := listen(loopbacks[0])
			if err != nil {
				return err
			}
			if err := l.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	loss, err := tracer.Lost()
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[Kind]uint64)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is in the ring is told all the same
	if err := tracer.Read(ctx, func(e *Event) { told[e.Kind]++ }); !errors.Is(err, context.Canceled) {
		t.Fatalf("Read ended with %v", err)
	}
	for _, kind := range []Kind{ListenerOpened, ListenerClosed} {
		if lost := loss.NoRoom[kind]; told[kind] == 0 || lost == 0 || told[kind]+lost != listeners {
			t.Errorf("kind %d: %d told and %d lost of %d", kind, told[kind], lost, listeners)
		}
	}
}

func TestReadEnds(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	tracer, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second Read is not disturbed by the end of the first
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- tracer.Read(ctx, func(*Event) {}) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("with its context Read ended with %v", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- tracer.Read(t.Context(), func(*Event) {}) }()
	for range 2 {
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("with the tracer Read ended with %v", err)
	}
}

// A reader that naps for an hour is woken for listeners, and told of connections' ends when it is asked to catch up.
func TestReaderIsWokenForWhatIsRareAndCatchesUp(t *testing.T) {
	w := watch(t, Options{Nap: time.Hour})
	inNetNs(t, func(netns uint32) error {
		if err := w.Watch(netns, Sockets); err != nil {
			return err
		}
		for range 3 { // once, at least, within the time in which no wake-up comes after another
			l, err := listen(loopbacks[0])
			if err != nil {
				return err
			}
			defer l.Close()
			if _, err := w.wait("the listener", isOf(ListenerOpened, addrPort(l.Addr()))); err != nil {
				return err
			}
		}
		server, client, err := connected(loopbacks[0], "a")
		if err != nil {
			return err
		}
		local := addrPort(server.LocalAddr())
		if err := errors.Join(server.Close(), client.Close(), w.CatchUp()); err != nil {
			return err
		}
		if !slices.ContainsFunc(w.snapshot(), isOf(SocketState, local)) {
			t.Errorf("%v has not ended when all that happened was told: %+v", local, w.snapshot())
		}
		return nil
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.CatchUp(); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("a closed tracer catches up: %v", err)
	}
}

// A wake-up that came before the reader is forgotten, and what happens right after it wakes nobody: the reader finds both all the same.
func TestWhatCameBeforeTheReader(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	tracer, err := Open(Options{Nap: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan Event, 8)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer tracer.Close()
	inNetNs(t, func(netns uint32) error {
		if err := tracer.Watch(netns, Sockets); err != nil {
			return err
		}
		for i := range 2 {
			l, err := listen(loopbacks[0])
			if err != nil {
				return err
			}
			defer l.Close()
			if i == 0 {
				reading.Go(func() { _ = tracer.Read(t.Context(), func(e *Event) { told <- *e }) }) // it ends with the tracer
			}
			select {
			case e := <-told:
				if !isOf(ListenerOpened, addrPort(l.Addr()))(e) {
					t.Errorf("told was %+v", e)
				}
			case <-time.After(patience):
				return fmt.Errorf("listener %d was not told", i+1)
			}
		}
		return nil
	})
}

// loaded are the programs in the kernel that are ours, also of a tracer that was closed a moment ago.
func loaded(t *testing.T) map[ebpf.ProgramID]string {
	t.Helper()
	ours, err := specs()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[ebpf.ProgramID]string)
	for id := ebpf.ProgramID(0); ; {
		id, err = ebpf.ProgramGetNextID(id)
		if errors.Is(err, unix.ENOENT) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		program, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, unix.ENOENT) { // unloaded between the two calls
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := program.Info()
		program.Close()
		if err != nil {
			t.Fatal(err)
		}
		if ours[info.Name] != nil {
			names[id] = info.Name
		}
	}
}

// newerThan are those that were loaded since.
func newerThan(t *testing.T, before map[ebpf.ProgramID]string) map[ebpf.ProgramID]string {
	t.Helper()
	now := loaded(t)
	maps.DeleteFunc(now, func(id ebpf.ProgramID, _ string) bool { return before[id] != "" })
	return now
}

// unloads waits until the kernel has freed programs, which takes a grace period of RCU.
func unloads(t *testing.T, programs map[ebpf.ProgramID]string) {
	t.Helper()
	if len(programs) == 0 {
		t.Fatal("no program was loaded")
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left := loaded(t)
		maps.DeleteFunc(left, func(id ebpf.ProgramID, _ string) bool { return programs[id] == "" })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v are still loaded", left)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	before := loaded(t)
	tracer, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	added := newerThan(t, before)
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	unloads(t, added)
}

func TestKilledTracerLeavesNothing(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	before := loaded(t)
	p := start(t, "/proc/self/exe", traceArgument)
	added := newerThan(t, before)
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	unloads(t, added)
}

// seesNothing opens a tracer that can see nothing, and checks that it says so and works otherwise.
func seesNothing(t *testing.T, why string) {
	t.Helper()
	tracer, err := Open(Options{})
	if err != nil {
		t.Errorf("Open: %v", err)
		return
	}
	if n := len(tracer.Sights()); n != len(sources) {
		t.Errorf("%d sights, want %d", n, len(sources))
	}
	for _, s := range tracer.Sights() {
		if s.Seen || s.How != "" || s.Why != why {
			t.Errorf("%+v: want %q", s, why)
		}
	}
	if err := errors.Join(tracer.Watch(1, Sockets), tracer.Unwatch(1), tracer.WatchPorts(6, 80), tracer.CatchUp()); err != nil {
		t.Error(err)
	}
	if taken, err := tracer.TakeConntrack(0); taken || err != nil {
		t.Errorf("a socket was taken: %v, %v", taken, err)
	}
	if loss, err := tracer.Lost(); err != nil || len(loss.NoRoom) != 0 || loss.Nested != 0 {
		t.Errorf("lost %v, %v", loss, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Read(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Read ended with %v", err)
	}
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
	if err := tracer.Read(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Read of a closed tracer ended with %v", err)
	}
}

func TestWithoutTypeInformation(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	if err := osthread.Run(func() error {
		// A mount namespace of its own, in which the kernel's type information is hidden.
		if err := errors.Join(
			unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("none", "/sys/kernel/btf", "tmpfs", 0, ""),
		); err != nil {
			return err
		}
		seesNothing(t, whyNoBTF)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutRights(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	if err := osthread.Run(func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
			return err
		}
		seesNothing(t, whyNoRights)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// One source that cannot be seen leaves the others alone.
func TestOneProgramLess(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	tracer, err := Open(Options{without: []string{"dp_state"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	for _, s := range tracer.Sights() {
		switch {
		case slices.Contains(s.Kinds, ListenerOpened):
			if s.Seen || s.Why == "" {
				t.Errorf("%+v: want it not seen, with a reason", s)
			}
		case strings.HasPrefix(s.How, "raw_tp/"), !s.Seen && s.Why != "":
		case !strings.HasPrefix(s.How, "fentry/") && !strings.HasPrefix(s.How, "socket/"):
			t.Errorf("%+v: want it seen, or a reason", s)
		}
		if slices.Contains(s.Kinds, ProcessExited) && !s.Seen {
			t.Errorf("%+v: want it seen", s)
		}
	}
}

// asTracepoint loads a program as one of a raw tracepoint, also one of a function, whose arguments the verifier knows less about then.
func asTracepoint(program string, spec *ebpf.CollectionSpec, options ebpf.CollectionOptions) (*ebpf.Program, error) {
	one := spec.Copy()
	p := one.Programs[program]
	p.Type, p.AttachType, p.AttachTo = ebpf.RawTracepoint, ebpf.AttachNone, ""
	one.Programs = map[string]*ebpf.ProgramSpec{program: p}
	maps.DeleteFunc(options.MapReplacements, func(name string, _ *ebpf.Map) bool { return one.Maps[name] == nil })
	collection, err := ebpf.NewCollectionWithOptions(one, options)
	if err != nil {
		return nil, err
	}
	defer collection.Close()
	return collection.DetachProgram(program), nil
}

// TestVerifier has the verifier judge every program, also those whose function this kernel or machine does not let be traced.
func TestVerifier(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	byProgram, err := specs()
	if err != nil {
		t.Fatal(err)
	}
	types := btf.NewCache()
	for name, spec := range byProgram {
		if spec.Programs[name].Type == ebpf.SocketFilter {
			continue // every Open loads it
		}
		program, err := asTracepoint(name, spec, ebpf.CollectionOptions{Cache: types})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		program.Close()
	}
}

// TestProgramsOfFunctions runs them where functions cannot be traced: at tracepoints with the same arguments.
func TestProgramsOfFunctions(t *testing.T) {
	testkit.Require(t, testkit.Root, typeInformation)
	byProgram, err := specs()
	if err != nil {
		t.Fatal(err)
	}
	for program, c := range map[string]struct {
		tracepoint string
		// act does what the program is to tell, and answers its kind and local end.
		act func(w *watcher) (Kind, netip.AddrPort, error)
	}{
		"dp_icmp_old": {"icmp_send", func(w *watcher) (Kind, netip.AddrPort, error) {
			client, _, err := sendUDP(loopbacks[0], 9999)
			return ICMPSent, client, err
		}},
		"dp_reset4": {"tcp_send_reset", func(w *watcher) (Kind, netip.AddrPort, error) {
			server, err := refused(loopbacks[0])
			return ResetSent, server, err
		}},
		"dp_reset6": {"tcp_send_reset", func(w *watcher) (Kind, netip.AddrPort, error) {
			server, err := refused(loopbacks[1])
			return ResetSent, server, err
		}},
		// What it reads is alike in sockets of UDP and TCP.
		"dp_udp4_closed": {"tcp_destroy_sock", func(w *watcher) (Kind, netip.AddrPort, error) {
			l, err := listen(loopbacks[0])
			if err != nil {
				return 0, netip.AddrPort{}, err
			}
			local := addrPort(l.Addr())
			return UDPClosed, local, errors.Join(w.WatchPorts(unix.IPPROTO_UDP, local.Port()), l.Close())
		}},
	} {
		t.Run(program, func(t *testing.T) {
			w := watch(t, Options{without: []string{"dp_icmp", "dp_icmp_old", "dp_reset", "dp_reset_old", "dp_reset4", "dp_reset6", "dp_udp4_closed"}})
			byProgram[program].Maps[mapRing].MaxEntries = w.maps[mapRing].MaxEntries()
			p, err := asTracepoint(program, byProgram[program], ebpf.CollectionOptions{MapReplacements: maps.Clone(w.maps)})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: c.tracepoint, Program: p})
			if errors.Is(err, unix.ENOENT) {
				t.Skipf("this kernel has no tracepoint %s", c.tracepoint)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer attached.Close()
			inNetNs(t, func(netns uint32) error {
				if err := w.Watch(netns, Sockets); err != nil {
					return err
				}
				kind, local, err := c.act(w)
				if err != nil {
					return err
				}
				e, err := w.wait("what the program tells", isOf(kind, local))
				if err != nil {
					return err
				}
				if e.NetNs != netns || e.Requested != (kind != UDPClosed) {
					t.Errorf("%+v: want it in network namespace %d", e, netns)
				}
				return nil
			})
		})
	}
}

func TestWhy(t *testing.T) {
	for name, c := range map[string]struct {
		hook   string
		err    error
		others bool
		want   string
	}{
		"no rights":               {"raw_tp/signal_generate", unix.EPERM, false, "needs the capabilities"},
		"functions not permitted": {"fentry/icmp6_send", unix.EPERM, true, "not functions"},
		"no such function":        {"fentry/nf_ct_delete", btf.ErrNotFound, true, "no function nf_ct_delete"},
		"no such tracepoint":      {"raw_tp/icmp_send", unix.ENOENT, true, "no tracepoint icmp_send"},
		"an older tracepoint":     {"raw_tp/tcp_send_reset", unix.EINVAL, true, "fewer arguments"},
		"no trampolines":          {"fentry/icmp6_send", ebpf.ErrNotSupported, true, "DYNAMIC_FTRACE_WITH_DIRECT_CALLS"},
		"refused by the verifier": {"raw_tp/icmp_send", &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"R1 is bad"}}, true, "R1 is bad"},
		"anything else":           {"fentry/icmp6_send", unix.ENOSPC, true, "no space left"},
	} {
		if got := why(c.hook, c.err, c.others); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not say %q", name, got, c.want)
		}
	}
}
