//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
)

// provoked is a trial that loses requests for one cause.
type provoked struct {
	cause string
	app
	// service is a patch of the Service; empty for none.
	service string
	// at are what is done at a phase of the trial, to the Pod that is ended.
	at func(*testing.T, ending) map[string]func(*exec.Cmd)
	// url gives the address that the clients use in place of the Service; nil for that one.
	url  func(*testing.T, string) string
	args []string
	// of says which failures are judged, where others are lost beside them; nil for all.
	of func(record.Record, record.Failure) bool
}

// ending is a Pod that a trial ends, and where it runs.
type ending struct {
	pod, ip string
	node    machine
}

// causes that a cluster of one machine can provoke at will, and that no other test does for sure. rehomed-by-dataplane is the quick
// experiment's, dead-endpoint is TestE2EAgent's. capacity is never claimed so far.
var causes = []provoked{
	{
		// The only Pod closes its listener on SIGTERM and answers for 3 s more what it has begun, ready by its probe: until its replacement is ready all are sent there.
		cause: "listener-closed-early",
		app:   app{replicas: 1, args: []string{"--on-term", "finish", "--readiness-on-term", "keep", "--start-delay", "3s"}},
		args:  []string{"--trigger", "delete", "--rate", "20", "--http-path", "/slow?for=3s"},
		of: func(rec record.Record, f record.Failure) bool {
			exit := firstExit(rec)
			return exit != nil && f.TNs < exit.TNs
		},
	},
	{
		cause: "cut-by-exit",
		app:   app{replicas: 2, args: []string{"--on-term", "exit"}},
		args:  []string{"--trigger", "delete", "--rate", "60", "--http-path", "/slow?for=1s"},
		of: func(rec record.Record, f record.Failure) bool {
			switch f.Outcome {
			case record.ResetBeforeResponse, record.ResetMidResponse, record.EOFBeforeResponse, record.Truncated:
			default:
				return false
			}
			// One that came with the exit may have waited to be accepted still: it is reset with the listener's queue, which is dead-endpoint.
			exit := firstExit(rec)
			return exit != nil && f.SentTNs != nil && *f.SentTNs < exit.TNs-acceptedWithin
		},
	},
	{
		cause: "cut-by-sigkill",
		app:   app{replicas: 2, grace: 2, args: []string{"--on-term", "ignore"}},
		args:  []string{"--trigger", "delete", "--rate", "20", "--mode", "websocket", "--http-path", "/ws"},
		of: func(rec record.Record, f record.Failure) bool {
			// The ends of held connections, and the exchanges that were under way; one that was sent after the exit met a close.
			exit := firstExit(rec)
			return exit != nil && f.SentTNs != nil && (*f.SentTNs == f.TNs || *f.SentTNs < exit.TNs)
		},
	},
	{
		// The Pod closes its idle connections on SIGTERM, and the close is on its way for as long as the trial lasts: a rule of its node swallows it. A request of the test's own
		// keeps the process there meanwhile, and with it the network namespace that answers what comes on them.
		cause: "keepalive-race",
		app:   app{replicas: 2, args: []string{"--on-term", "finish"}},
		args:  []string{"--trigger", "delete", "--rate", "40", "--mode", "keep-alive", "--first-byte-timeout", "1s"},
		at: func(t *testing.T, e ending) map[string]func(*exec.Cmd) {
			e.swallowClose(t) // before the trial: on a busy machine its phases go by faster than a rule is written
			return map[string]func(*exec.Cmd){"before": func(*exec.Cmd) {
				go func() {
					if r, err := http.Get("http://" + net.JoinHostPort(e.ip, "7080") + "/slow?for=5s"); err == nil {
						r.Body.Close()
					}
				}()
			}}
		},
		of: func(_ record.Record, f record.Failure) bool { return f.Connection == record.ReusedConnection },
	},
	{
		cause: "no-endpoints",
		app:   app{replicas: 1, args: []string{"--on-term", "exit", "--start-delay", "4s"}}, // longer than a busy kube-proxy takes
		args:  []string{"--trigger", "scale", "--rate", "40"},
		of: func(rec record.Record, f record.Failure) bool {
			// While the rules of the node that chooses rejected them all.
			chooses := func(e record.Event) bool { return strings.HasSuffix(e.Node, "-control-plane") }
			from, to := first(rec, record.RuleRejects, chooses), first(rec, record.RuleRejectRemoved, chooses)
			return from != nil && f.SentTNs != nil && *f.SentTNs > from.TNs && (to == nil || f.TNs < to.TNs)
		},
	},
	{
		// The Service names its Pods from the first moment, and a new one begins to listen after 5 s.
		cause:   "not-ready-yet",
		app:     app{replicas: 2, args: []string{"--on-term", "exit", "--start-delay", "5s"}},
		service: `{"spec":{"publishNotReadyAddresses":true}}`,
		args:    []string{"--trigger", "delete", "--rate", "40"},
		of: func(rec record.Record, f record.Failure) bool {
			to := explain.Backend(&rec, f)
			return to.Pod != "" && !slices.ContainsFunc(rec.Workload.Pods, func(p record.WorkloadPod) bool { return p.UID == to.PodUID })
		},
	},
	{
		// The client may open no more files from the trigger on, until all is put back.
		cause: "client-limit",
		app:   app{replicas: 2, args: []string{"--on-term", "finish"}},
		args:  []string{"--trigger", "delete", "--rate", "40"},
		at: func(t *testing.T, _ ending) map[string]func(*exec.Cmd) {
			var before unix.Rlimit
			limit := func(cmd *exec.Cmd, now, old *unix.Rlimit) {
				if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, now, old); err != nil {
					t.Error(err)
				}
			}
			return map[string]func(*exec.Cmd){
				"trigger": func(cmd *exec.Cmd) {
					limit(cmd, nil, &before)
					limit(cmd, &unix.Rlimit{Cur: 3, Max: before.Max}, nil)
				},
				"put": func(cmd *exec.Cmd) { limit(cmd, &before, nil) }, // back
			}
		},
		of: func(_ record.Record, f record.Failure) bool { return f.Outcome == record.ClientLimited },
	},
	{
		// A proxy before the Service answers for a workload that is not there.
		cause: "proxy-error",
		app:   app{replicas: 1, args: []string{"--on-term", "exit"}},
		args:  []string{"--trigger", "delete", "--rate", "40", "--answer-timeout", "5s"},
		url:   proxyTo,
		of:    func(_ record.Record, f record.Failure) bool { return f.Outcome == record.HTTPError },
	},
}

// acceptedWithin is longer than a busy machine takes to accept a connection, in ns.
const acceptedWithin = 250_000_000

// first gives the first event of a kind from the trigger on that fits; nil without one.
func first(rec record.Record, kind record.EventKind, fits func(record.Event) bool) *record.Event {
	for i, e := range rec.Events {
		if e.Kind == kind && e.TNs >= 0 && fits(e) {
			return &rec.Events[i]
		}
	}
	return nil
}

// firstExit gives the first end of a container's first process.
func firstExit(rec record.Record) *record.Event {
	return first(rec, record.ProcessExited, func(e record.Event) bool { return e.Detail["first_process"] == true })
}

// proxyTo starts a reverse proxy to an address, which answers with 502 where it gets no answer itself.
func proxyTo(t *testing.T, address string) string {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.Transport = &http.Transport{DialContext: (&net.Dialer{Timeout: 300 * time.Millisecond}).DialContext, DisableKeepAlives: true}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

// swallowClose has the Pod's node drop every FIN of its server, until the test is over.
func (e ending) swallowClose(t *testing.T) {
	t.Helper()
	const table = "drainproof-e2e"
	nft := func(text string) error {
		cmd := exec.Command("ip", "netns", "exec", e.node.netnsName, "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("rules of node %s: %w: %s", e.node.name, err, out)
		}
		return nil
	}
	t.Cleanup(func() {
		if err := nft("delete table ip " + table + "\n"); err != nil {
			t.Error(err)
		}
	})
	if err := nft("table ip " + table + " { chain forward { type filter hook forward priority 0; ip saddr " + e.ip + " tcp sport 7080 tcp flags & (fin|rst) == fin drop; }; }\n"); err != nil {
		t.Error(err)
	}
}

// end finds the Pod that the trial will end: the first by name.
func (c provoked) end(t *testing.T, nodes []machine) ending {
	t.Helper()
	out := kubectl(t, clusterName, "-n", c.namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.podIP} {.spec.nodeName}{'\\n'}{end}")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	fields := strings.Fields(lines[0])
	if len(fields) != 3 {
		t.Fatalf("pods of namespace %s: %q", c.namespace, out)
	}
	i := slices.IndexFunc(nodes, func(m machine) bool { return m.name == fields[2] })
	if i < 0 {
		t.Fatalf("pod %s is on node %q", fields[0], fields[2])
	}
	return ending{pod: fields[0], ip: fields[1], node: nodes[i]}
}

// allAnswer waits until this machine's rules lead to each Pod of a Service: Pods are ready some time before.
func allAnswer(t *testing.T, address string, pods int) {
	t.Helper()
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	seen := map[string]bool{}
	for deadline := time.Now().Add(30 * time.Second); len(seen) < pods && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		r, err := client.Get("http://" + address + "/")
		if err != nil {
			continue
		}
		var who struct {
			Instance string `json:"instance"`
		}
		if err := json.NewDecoder(r.Body).Decode(&who); err == nil {
			seen[who.Instance] = true
		}
		r.Body.Close()
	}
	if len(seen) < pods {
		t.Fatalf("of %d Pods behind %s these answer: %v", pods, address, seen)
	}
}

// run deploys it, runs the trial and judges its failures.
func (c provoked) run(t *testing.T, nodes []machine) {
	c.kind, c.namespace = "Deployment", "e2e-"+c.cause
	c.deploy(t)
	if c.service != "" {
		kubectl(t, clusterName, "-n", c.namespace, "patch", "service", "web", "-p", c.service)
	}
	address := strings.TrimSpace(kubectl(t, clusterName, "-n", c.namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}:80"))
	allAnswer(t, address, c.replicas)
	e := c.end(t, nodes)
	out := filepath.Join(t.ArtifactDir(), "r")
	args := []string{
		"test", "deploy/web", "--cluster", clusterName, "-n", c.namespace, "--yes", "--vantage", "host", "--agent", "required", "--before", "1s", "--after", "1s",
		"--timeout", "60s", "--budget", "failed-share=100%", "--out", out,
	}
	if c.url != nil {
		args = append(args, "--url", c.url(t, address))
	}
	if slices.Contains(c.args, "delete") {
		args = append(args, "--pod", e.pod)
	}
	var at map[string]func(*exec.Cmd)
	if c.at != nil {
		at = c.at(t, e)
	}
	code, errOut := atPhases(t, at, append(args, c.args...)...)
	rec := readRecord(t, out)
	endsAs(t, rec, 0, code, errOut)
	failures := rec.FailuresFrom()
	if c.cause == "client-limit" { // nobody's failures, so not among them
		failures = slices.Clone(rec.Failures)
	}
	if c.of != nil {
		failures = slices.DeleteFunc(failures, func(f record.Failure) bool { return !c.of(rec, f) })
	}
	attributedMostly(t, failures, c.cause)
}

// TestE2ECauses: each cause is provoked on a cluster, and nearly all of the failures that it makes have it; none has another.
func TestE2ECauses(t *testing.T) {
	cluster(t)
	if _, err := appImage(); err != nil {
		t.Fatal(err)
	}
	do(t, "agent", "install", "--cluster", clusterName).check(t, 0, nil)
	nodes := machines(t)
	t.Run("beside each other", func(t *testing.T) {
		for _, c := range causes {
			t.Run(c.cause, func(t *testing.T) {
				t.Parallel()
				c.run(t, nodes)
			})
		}
	})
	// A kube-proxy that stands still leaves the conntrack entries of datagrams where they are: they go on to the Pod that is gone, though another one is ready.
	t.Run("stale-conntrack", func(t *testing.T) {
		proxy := nodes[0].proxy
		goOn := func(*exec.Cmd) { _ = syscall.Kill(proxy, syscall.SIGCONT) }
		t.Cleanup(func() { goOn(nil) })
		provoked{
			cause:   "stale-conntrack",
			app:     app{replicas: 2, args: []string{"--on-term", "exit"}},
			service: `{"spec":{"ports":[{"name":"udp","port":81,"protocol":"UDP","targetPort":7002}]}}`,
			args:    []string{"--trigger", "delete", "--wait-for", "gone", "--port", "udp", "--mode", "udp", "--data", `{"type":"ping","seq":1}`, "--rate", "40", "--first-byte-timeout", "500ms"},
			at: func(t *testing.T, _ ending) map[string]func(*exec.Cmd) {
				return map[string]func(*exec.Cmd){
					"trigger": func(*exec.Cmd) {
						if err := syscall.Kill(proxy, syscall.SIGSTOP); err != nil {
							t.Error(err)
						}
					},
					"put": goOn, // back
				}
			},
			of: func(rec record.Record, f record.Failure) bool {
				exit := firstExit(rec)
				return exit != nil && f.SentTNs != nil && *f.SentTNs > exit.TNs
			},
		}.run(t, nodes)
	})
	noNamespaceLeft(t, clusterName)
}
