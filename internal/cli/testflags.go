package cli

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/release"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/trial"
	"github.com/drainproof/drainproof/internal/trigger"
	"github.com/drainproof/drainproof/internal/verdict"
)

// testOptions are the flags of test.
type testOptions struct {
	clusterFlags
	agentFlag
	namespace, trigger, service, port, url, path, vantage, pod              string
	mode, method, httpPath, data, dataFile, expect, ca, server, instance    string
	headers                                                                 []string
	tls, insecure, resume, force                                            bool
	rate                                                                    float64
	users, clients, count, repeat                                           int
	before, after, timeout                                                  time.Duration
	dnsTimeout, connectTimeout, tlsTimeout, firstByteTimeout, answerTimeout time.Duration
	waitFor, container, budget, junit, out, output, image                   string
}

// maxBody keeps a plan inside one line of the worker's protocol.
const maxBody = 1 << 20

func (o *testOptions) bind(cmd *cobra.Command) {
	o.clusterFlags.bind(cmd)
	o.agentFlag.bind(cmd)
	l := request.DefaultLimits()
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "default", "the workload's namespace")
	f.StringVar(&o.trigger, "trigger", string(trigger.Rollout), "what disturbs it: "+strings.Join(testTriggers(), ", "))
	f.IntVar(&o.count, "count", 0, "how many: Pods to delete, evict or force-delete (default: one), replicas to scale down by (default: to zero)")
	f.StringVar(&o.container, "container", "", "whose process --trigger kill ends (default: the one that listens on the Service's port)")
	f.StringVar(&o.pod, "pod", "", "which Pod, where the trigger ends single ones or a node (default: the first by name)")
	f.StringVar(&o.waitFor, "wait-for", "", "what ends the disruption: rolled-out, ready, gone or none (default: rolled-out for a rollout, else ready)")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait for that")

	f.StringVar(&o.service, "service", "", "the Service that the requests go through (default: the only one that selects the Pods)")
	f.StringVar(&o.port, "port", "", "the Service's port, by name or number (default: the only one)")
	f.StringVar(&o.path, "path", "clusterip", "how the requests reach it: clusterip, nodeport or pod")
	f.StringVar(&o.url, "url", "", "the address that its users use, in place of a Service: http://, https://, tcp:// or udp://")
	f.StringVar(&o.vantage, "vantage", "", "where the clients stand: pod or host (default: pod; with --url: host)")
	f.IntVar(&o.clients, "clients", 1, "client Pods that share the load (vantage pod)")

	f.StringVar(&o.mode, "mode", string(request.NewConnection), "how they are sent: "+strings.Join(modes(), ", "))
	f.Float64Var(&o.rate, "rate", 50, "requests per second, over all users, on a fixed schedule")
	f.IntVar(&o.users, "users", 20, "virtual users, each with its own connections")
	f.StringVar(&o.method, "method", "GET", "HTTP method")
	f.StringVar(&o.httpPath, "http-path", "", "path and query of the request, or /SERVICE/METHOD for gRPC (default: that of --url, else /; gRPC: its health check)")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "request header, NAME: VALUE; may be given several times")
	f.StringVar(&o.data, "data", "", "body of the request; for gRPC one encoded message in base64 (base64:...), for tcp and udp what is sent")
	f.StringVar(&o.dataFile, "data-file", "", "file with the body (- for standard input)")
	f.StringVar(&o.expect, "expect", "", "expected statuses, such as 200-299,404 or 2xx (default: 2xx; gRPC: 0)")
	f.StringVar(&o.instance, "instance-header", "Drainproof-Instance", "response header that names the Pod that answered; empty for none")

	f.BoolVar(&o.tls, "tls", false, "speak TLS to the Service's port")
	f.StringVar(&o.ca, "ca", "", "file with the certificates (PEM) that are trusted (default: the system's)")
	f.StringVar(&o.server, "server-name", "", "name that the server's certificate must be for (default: the address's)")
	f.BoolVar(&o.insecure, "insecure", false, "trust any certificate; the record says so")

	f.DurationVar(&o.dnsTimeout, "dns-timeout", time.Duration(l.DNSNs), "limit for finding the address")
	f.DurationVar(&o.connectTimeout, "connect-timeout", time.Duration(l.ConnectNs), "limit for connecting")
	f.DurationVar(&o.tlsTimeout, "tls-timeout", time.Duration(l.TLSNs), "limit for the TLS handshake")
	f.DurationVar(&o.firstByteTimeout, "first-byte-timeout", time.Duration(l.FirstByteNs), "limit from the request to the response's first byte")
	f.DurationVar(&o.answerTimeout, "answer-timeout", time.Duration(l.WholeNs), "limit for the whole request")

	f.DurationVar(&o.before, "before", 5*time.Second, "how long to send before the trigger")
	f.DurationVar(&o.after, "after", 5*time.Second, "how long to send after the disruption is over")
	f.StringVar(&o.budget, "budget", "failed=0", "what is tolerated, such as failed=0,users=0,p99=500ms,failed-share=0.1%")
	f.StringVar(&o.junit, "junit", "", "also write the verdict to this file, as JUnit XML")
	f.IntVar(&o.repeat, "repeat", 1, "how many trials")
	f.StringVar(&o.out, "out", "", "folder for the record or the set (default: drainproof-runs/ID)")
	f.StringVarP(&o.output, "output", "o", "table", "what stdout gets: table, markdown or json")
	f.StringVar(&o.image, "image", "", "image of the client Pods (default: this very binary's, loaded into local clusters by itself)")
	f.BoolVar(&o.resume, "resume", false, "go on with a set that was interrupted")
	f.BoolVar(&o.force, "force", false, "overwrite an existing record of a single trial")
	cmd.MarkFlagsMutuallyExclusive("data", "data-file")
	cmd.MarkFlagsMutuallyExclusive("url", "port")
	cmd.MarkFlagsMutuallyExclusive("url", "path")
	cmd.MarkFlagsMutuallyExclusive("url", "tls")
}

func testTriggers() []string {
	var out []string
	for _, k := range trigger.KindsForTest() {
		out = append(out, string(k))
	}
	return out
}

// spec turns the flags into what is to be run.
func (o *testOptions) spec(stdin io.Reader) (release.Spec, error) {
	var s release.Spec
	if err := o.check(); err != nil {
		return s, err
	}
	budget, err := verdict.Parse(o.budget)
	if err != nil {
		return s, err
	}
	plan, err := o.plan(stdin)
	if err != nil {
		return s, err
	}
	c := record.Config{
		Trigger: o.trigger, Path: o.path, Vantage: o.vantage,
		Traffic: &record.Traffic{
			Mode: o.mode, Rate: o.rate, Users: o.users, Workers: o.clients, URL: o.shownURL(plan.Target), Method: plan.Target.Method, Expect: o.expectOrDefault(),
			HeaderCount: len(plan.Target.Headers), BodyBytes: len(plan.Target.Body), InsecureTLS: o.insecure,
			DNSNs: plan.Limits.DNSNs, ConnectNs: plan.Limits.ConnectNs, TLSNs: plan.Limits.TLSNs, FirstByteNs: plan.Limits.FirstByteNs, WholeNs: plan.Limits.WholeNs,
			BeforeNs: int64(o.before), AfterNs: int64(o.after), WaitFor: o.waitFor, WaitNs: int64(o.timeout), TriggerCount: o.count,
		},
	}
	if o.url != "" {
		c.Path = "url"
	}
	if err := trial.ValidateTraffic(c); err != nil {
		return s, err
	}
	return release.Spec{Spec: trial.Spec{Config: c}, Service: o.service, Port: o.port, Pod: o.pod, Container: o.container, Plan: plan, Budget: budget}, nil
}

// fits refuses triggers and waits that a kind of workload does not know, and fills what to wait for.
func (o *testOptions) fits(kind string) error {
	t, pod := trigger.Kind(o.trigger), kind == "Pod"
	ends := t == trigger.Delete || t == trigger.Evict || t == trigger.ForceDelete || t == trigger.Drain
	if o.waitFor == "" {
		switch {
		case t == trigger.Rollout:
			o.waitFor = string(kube.RolledOut)
		case t == trigger.None:
			o.waitFor = string(kube.Nothing)
		case pod && ends:
			o.waitFor = string(kube.Gone) // it is made again once the test is over
		default:
			o.waitFor = string(kube.Ready)
		}
	}
	w := kube.Condition(o.waitFor)
	switch {
	case pod && t == trigger.Rollout:
		return fault.Usagef("choose --trigger delete, evict, force-delete, drain, kill or none", "a Pod has no rollout to restart")
	case pod && t == trigger.Scale, kind == "DaemonSet" && t == trigger.Scale:
		return fault.Usagef("choose another trigger", "a %s has no replicas to scale", kind)
	case kind == "DaemonSet" && t == trigger.Drain:
		return fault.Usagef("choose --trigger delete", "a drain leaves the Pods of DaemonSets where they are, and would evict everybody else's")
	case pod && w == kube.RolledOut:
		return fault.Usagef("choose --wait-for gone, ready or none", "a Pod has no rollout to wait for")
	case pod && ends && w == kube.Ready:
		return fault.Usagef("choose --wait-for gone", "nothing makes a bare Pod again before the test is over")
	case w == kube.Gone && (t == trigger.Scale || t == trigger.Kill || t == trigger.None):
		return fault.Usagef("choose --wait-for ready", "with --trigger %s no Pod is known whose end could be waited for", t)
	}
	return nil
}

// check sees to the flags that are words, and fills those that follow from others.
func (o *testOptions) check() error {
	if o.vantage == "" {
		o.vantage = "pod"
		if o.url != "" {
			o.vantage = "host"
		}
	}
	var conditions []string
	for _, c := range kube.Conditions() {
		conditions = append(conditions, string(c))
	}
	for _, err := range []error{
		oneOf("output", o.output, "table", "markdown", "json"),
		o.agentFlag.check(),
		oneOf("trigger", o.trigger, testTriggers()...),
		oneOf("vantage", o.vantage, "pod", "host"),
		oneOf("path", o.path, "clusterip", "nodeport", "pod"),
		oneOf("mode", o.mode, modes()...),
		oneOf("wait-for", o.waitFor, conditions...),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case !namespaceForm.MatchString(o.namespace):
		return fault.Usagef("give the name of a namespace", "--namespace %q is none", o.namespace)
	case o.image != "" && !imageForm.MatchString(o.image):
		return fault.Usagef("give a reference such as registry.example/drainproof:1", "--image %q is no image", o.image)
	case o.repeat < 1 || o.repeat > 1000:
		return fault.Usagef("give a number between 1 and 1000", "--repeat %d is out of range", o.repeat)
	case o.count < 0 || o.count > 1000:
		return fault.Usagef("give a number between 1 and 1000", "--count %d is out of range", o.count)
	case o.clients < 1 || o.clients > 100:
		return fault.Usagef("give a number between 1 and 100", "--clients %d is out of range", o.clients)
	case o.clients > 1 && o.vantage == "host":
		return fault.Usagef("add --vantage pod", "--clients %d share the load among Pods, and the clients stand on this machine", o.clients)
	case o.clients > o.users:
		return fault.Usagef("give at least as many users as clients", "--clients %d cannot share %d users", o.clients, o.users)
	case o.repeat > 1 && o.force:
		return fault.Usagef("go on with --resume, or choose another folder with --out", "--force overwrites the record of a single trial, and this is a set")
	case o.repeat == 1 && o.resume:
		return fault.Usagef("leave it out", "--resume goes on with a set, and this is a single trial")
	case o.container != "" && trigger.Kind(o.trigger) != trigger.Kill:
		return fault.Usagef("leave it out", "--container has no meaning for the trigger %s", o.trigger)
	case strings.TrimSpace(o.budget) == "":
		return fault.Usagef("give limits such as failed=0,p99=500ms", "--budget is empty: everything would pass")
	case o.count > 0 && !counted(trigger.Kind(o.trigger)):
		return fault.Usagef("leave it out", "--count has no meaning for the trigger %s", o.trigger)
	}
	return nil
}

func counted(k trigger.Kind) bool {
	return k == trigger.Delete || k == trigger.Evict || k == trigger.ForceDelete || k == trigger.Scale
}

// shownURL is the address as it is recorded: without what may be secret in it. Empty where the Service's address is not known yet.
func (o *testOptions) shownURL(t request.Target) string {
	if o.url == "" {
		return ""
	}
	path, _, _ := strings.Cut(t.Path, "?")
	return (&url.URL{Scheme: t.Scheme, Host: t.Authority, Path: path}).String()
}

func (o *testOptions) expectOrDefault() string { return cmp.Or(o.expect, trial.DefaultExpect(o.mode)) }

// plan is what each client sends, without its share of rate and users.
func (o *testOptions) plan(stdin io.Reader) (request.Plan, error) {
	mode := request.Mode(o.mode)
	p := request.Plan{Mode: mode, Rate: o.rate, Users: o.users, InstanceHeader: o.instance}
	var err error
	if p.Expect, err = trial.ParseExpect(mode, o.expectOrDefault()); err != nil {
		return p, err
	}
	p.Limits = request.Limits{
		DNSNs: int64(o.dnsTimeout), ConnectNs: int64(o.connectTimeout), TLSNs: int64(o.tlsTimeout),
		FirstByteNs: int64(o.firstByteTimeout), WholeNs: int64(o.answerTimeout),
	}
	t := &p.Target
	t.Method = strings.ToUpper(o.method)
	t.Scheme, t.Path = "http", "/"
	switch {
	case o.tls:
		t.Scheme = "https"
	case mode == request.TCP, mode == request.UDP:
		t.Scheme = o.mode
	}
	if mode == request.GRPC || mode == request.GRPCStream {
		t.Path, t.Method = trial.DefaultPath(o.mode), "POST"
	}
	if o.url != "" {
		if err := o.target(t); err != nil {
			return p, err
		}
	}
	if o.httpPath != "" {
		if err := trial.ValidatePath(o.mode, o.httpPath); err != nil {
			return p, err
		}
		t.Path = o.httpPath
	}
	headers, err := parseHeaders(o.headers)
	if err != nil {
		return p, err
	}
	for _, h := range headers {
		if strings.EqualFold(h.Name, "Host") {
			t.Authority = h.Value
			continue
		}
		t.Headers = append(t.Headers, h)
	}
	if t.Body, err = o.body(stdin); err != nil {
		return p, err
	}
	if mode == request.UDP && len(t.Body) == 0 {
		return p, fault.Usagef("give it with --data", "mode udp needs something to send that the server answers")
	}
	t.TLS.ServerName, t.TLS.Insecure = o.server, o.insecure
	if o.ca != "" {
		if t.TLS.CA, err = readBounded(o.ca); err != nil {
			return p, fault.Usagef("give a PEM file", "reading --ca: %v", err)
		}
	}
	return p, traffic.CheckPlan(p)
}

// target reads --url.
func (o *testOptions) target(t *request.Target) error {
	u, err := url.Parse(o.url)
	bad := func(why string) error {
		shown := o.url
		if u != nil {
			shown = u.Redacted()
		} else if _, after, found := strings.Cut(shown, "@"); found {
			shown = after // what is before it may be secret
		}
		return fault.Usagef("give an address such as https://shop.example/cart or tcp://192.0.2.1:5432", "--url %q %s", shown, why)
	}
	if err != nil || u.Hostname() == "" {
		return bad("is no address with a scheme and a host")
	}
	want := []string{"http", "https"}
	if request.Mode(o.mode) == request.TCP || request.Mode(o.mode) == request.UDP {
		want = []string{o.mode}
	}
	if u.Scheme != want[0] && u.Scheme != want[len(want)-1] {
		return bad("does not begin with " + strings.Join(want, ":// or ") + "://, which mode " + o.mode + " needs")
	}
	if u.User != nil {
		return bad("holds a user; give an Authorization header with -H")
	}
	t.Scheme, t.Host, t.Authority = u.Scheme, u.Hostname(), u.Host
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return bad("has no port")
	}
	t.Port = uint16(n)
	if _, err := netip.ParseAddr(t.Host); err != nil && strings.ContainsAny(t.Host, " /_") {
		return bad("has no valid host")
	}
	if p := u.RequestURI(); p != "/" || !strings.HasPrefix(o.mode, "grpc") {
		t.Path = p
	}
	return nil
}

// parseHeaders reads NAME: VALUE.
func parseHeaders(lines []string) ([]request.Header, error) {
	var out []request.Header
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fault.Usagef("give it as NAME: VALUE", "--header %q is no header", name)
		}
		out = append(out, request.Header{Name: name, Value: value})
	}
	return out, nil
}

func (o *testOptions) body(stdin io.Reader) ([]byte, error) {
	b := []byte(o.data)
	switch {
	case o.dataFile == "-":
		var err error
		if b, err = io.ReadAll(io.LimitReader(stdin, maxBody+1)); err != nil {
			return nil, fault.Usagef("check the command before the pipe", "reading the body from standard input: %v", err)
		}
	case o.dataFile != "":
		var err error
		if b, err = readBounded(o.dataFile); err != nil {
			return nil, fault.Usagef("give a file that can be read", "reading --data-file: %v", err)
		}
	}
	if encoded, ok := strings.CutPrefix(string(b), "base64:"); ok && o.dataFile == "" {
		var err error
		if b, err = base64.StdEncoding.DecodeString(strings.TrimSpace(encoded)); err != nil {
			return nil, fault.Usagef("give base64 after base64:", "--data is no base64: %v", err)
		}
	}
	if len(b) > maxBody {
		return nil, fault.Usagef("send less", "a body of over %d bytes is not sent", maxBody)
	}
	return b, nil
}

// readBounded reads a file of at most maxBody bytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err == nil && len(b) > maxBody {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxBody)
	}
	return b, err
}
