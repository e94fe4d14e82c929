package trial

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trigger"
)

const (
	fakeUID  = "11111111-2222-3333-4444-555555555555"
	fakeName = "probe-fake-1"
)

// world is a cluster of one Pod in this process: a real probe on loopback, real
// sockets, real time; only the API around it is played.
type world struct {
	t       *testing.T
	config  probe.Config
	signals chan os.Signal
	exited  chan int
	stop    context.CancelFunc
	log     *os.File // a kernel pipe: the probe must not wait for its reader
	logW    *os.File
	tcp     string
	udp     string

	mu     sync.Mutex
	onFact func(kube.Fact)
	undone []string
	// failAt makes a step fail, by the API's method name.
	failAt map[string]error
	// at is called when a step is entered.
	at func(step string)
	// facts missing from the watch, to play a blind one.
	hide map[record.EventKind]bool
}

func newWorld(t *testing.T, c probe.Config) *world {
	t.Helper()
	w := &world{t: t, config: c, signals: make(chan os.Signal, 1), exited: make(chan int, 1), failAt: map[string]error{}, hide: map[record.EventKind]bool{}}
	var err error
	if w.log, w.logW, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	w.config.Instance, w.config.PodUID = fakeName, fakeUID
	w.config.TCP, w.config.UDP, w.config.HTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	w.config.Log = w.logW
	if w.config.TickEvery == 0 {
		w.config.TickEvery = time.Second
	}
	t.Cleanup(w.end)
	return w
}

// end stops the probe where a test left it running.
func (w *world) end() {
	if w.stop != nil {
		w.stop()
	}
	w.log.Close()
}

func (w *world) step(name string) error {
	if w.at != nil {
		w.at(name)
	}
	return w.failAt[name]
}

func (w *world) fact(k record.EventKind, subject string, detail map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.onFact != nil && !w.hide[k] {
		w.onFact(kube.Fact{Kind: k, MonoNs: clock.MonoNs(), Subject: subject, PodUID: fakeUID, Node: "fake-node", Detail: detail})
	}
}

func (w *world) Environment(context.Context) (record.Environment, error) {
	mode := "iptables"
	return record.Environment{
		Kubernetes: "v1.37.2", ProxyMode: &mode, ProxyModeFrom: "a fake", ClusterUID: "c",
		Nodes: []record.Node{{Name: "fake-node", BootID: clock.BootID()}},
	}, w.step("Environment")
}

func (w *world) Missing(context.Context, string, string) ([]string, error) {
	if err := w.step("Missing"); err != nil {
		return []string{err.Error()}, nil
	}
	return nil, nil
}

func (w *world) EnsureNamespace(context.Context, string, string, bool) (string, error) {
	return "n", w.step("EnsureNamespace")
}

func (w *world) DeployProbe(context.Context, kube.ProbeSpec, time.Duration) (*kube.Probe, error) {
	if err := w.step("DeployProbe"); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	started := make(chan struct{})
	go func() {
		code, err := probe.Run(ctx, w.config, w.signals, func(tcp, udp, _ string) {
			w.tcp, w.udp = tcp, udp
			close(started)
		})
		if err != nil {
			w.t.Errorf("the probe: %v", err)
		}
		w.logW.Close()
		w.exited <- code
		w.fact(record.ContainerExited, "container/"+fakeName+"/probe", map[string]any{record.DetailExitCode: int64(code), record.DetailReason: "Completed"})
		w.fact(record.EndpointRemoved, "endpoint/"+fakeName, nil)
		w.fact(record.PodRemoved, "pod/"+fakeName, nil)
	}()
	<-started
	port := func(addr string) int {
		_, p, err := net.SplitHostPort(addr)
		if err != nil {
			w.t.Error(err)
		}
		n, err := strconv.Atoi(p)
		if err != nil {
			w.t.Error(err)
		}
		return n
	}
	return &kube.Probe{
		Namespace: "n", Deployment: "probe", Service: "probe", ClusterIP: "127.0.0.1",
		Pod:         kube.PodRef{Name: fakeName, UID: fakeUID, IP: "127.0.0.1", Node: "fake-node", NodeIP: "127.0.0.1", ImageID: "sha256:0"},
		NodePortTCP: port(w.tcp), NodePortUDP: port(w.udp),
	}, nil
}

func (w *world) DeployWorker(context.Context, kube.WorkerSpec, time.Duration) (kube.PodRef, error) {
	return kube.PodRef{}, errors.New("this world has no worker")
}

func (w *world) Watch(_ context.Context, s kube.WatchSpec) (func(), error) {
	if err := w.step("Watch"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.onFact = s.OnFact
	w.mu.Unlock()
	w.fact(record.PodReady, "pod/"+fakeName, nil)
	w.fact(record.EndpointReady, "endpoint/"+fakeName, nil)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.onFact = nil
	}, nil
}

func (w *world) FollowLog(ctx context.Context, _, _ string, onLine func([]byte)) error {
	if err := w.step("FollowLog"); err != nil {
		return err
	}
	done := context.AfterFunc(ctx, func() { w.log.Close() })
	defer done()
	lines := bufio.NewScanner(w.log)
	for lines.Scan() {
		onLine(lines.Bytes())
	}
	return ctx.Err()
}

func (w *world) Exec(context.Context, string, string, []string, io.Reader, io.Writer, io.Writer) error {
	return errors.New("this world has no exec")
}

func (w *world) Undo(ctx context.Context, namespace, _ string) error {
	w.mu.Lock()
	w.undone = append(w.undone, "namespace")
	w.mu.Unlock()
	if ctx.Err() != nil {
		w.t.Errorf("undo of %s was called with a context that is over", namespace)
	}
	return w.failAt["Undo"]
}

// fakeTrigger sends the probe its SIGTERM, as a kubelet would.
type fakeTrigger struct {
	w    *world
	kind trigger.Kind
}

func (f fakeTrigger) Kind() trigger.Kind { return f.kind }
func (f fakeTrigger) Subject() string    { return "pod/" + fakeName }

func (f fakeTrigger) Fire(context.Context) error {
	if err := f.w.step("Fire"); err != nil {
		return err
	}
	if f.kind != trigger.None {
		f.w.fact(record.PodTerminating, "pod/"+fakeName, map[string]any{"grace_seconds": int64(4)})
		f.w.fact(record.EndpointNotReady, "endpoint/"+fakeName, nil)
		f.w.signals <- syscall.SIGTERM
	}
	return nil
}

func (f fakeTrigger) Undo(context.Context) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.undone = append(f.w.undone, "trigger")
	return nil
}
