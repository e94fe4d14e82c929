package trial

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/trigger"
)

// Limits of what a trial of requests may be asked for.
const (
	// MaxRate is in requests per second.
	MaxRate     = 20_000
	MaxUsers    = 100_000
	MaxClients  = 100
	MaxReplicas = 100
	// MaxCount bounds how many Pods a trigger ends, or replicas it takes away.
	MaxCount = 1000
	// MaxBefore and MaxAfter bound the time before the trigger and after the disruption.
	MaxBefore = 10 * time.Minute
	MaxAfter  = 10 * time.Minute
	// MaxWait bounds the wait for the disruption's end.
	MaxWait       = time.Hour
	MaxStartDelay = 10 * time.Minute
	// MinLimit and MaxLimit bound the time that a phase of one request may take.
	MinLimit = time.Millisecond
	MaxLimit = 10 * time.Minute
)

// DefaultTraffic is 50 requests a second of 20 users. What it leaves empty (Method, Expect, WaitFor) follows from
// the rest, and Complete fills it; URL is known only once the workload is.
func DefaultTraffic() record.Traffic {
	limits := request.DefaultLimits()
	return record.Traffic{
		Mode: string(request.NewConnection), Rate: 50, Users: 20, Workers: 1,
		DNSNs: limits.DNSNs, ConnectNs: limits.ConnectNs, TLSNs: limits.TLSNs, FirstByteNs: limits.FirstByteNs, WholeNs: limits.WholeNs,
		BeforeNs: int64(3 * time.Second), AfterNs: int64(5 * time.Second), WaitNs: int64(5 * time.Minute),
	}
}

// DefaultProbe is one replica that announces its end, as Kubernetes would roll it.
func DefaultProbe() record.ProbeConfig {
	return record.ProbeConfig{Replicas: 1, Strategy: rollingUpdate, DrainHookNs: -1, Announce: true}
}

// Kubernetes' names of a Deployment's strategies.
const (
	rollingUpdate = "RollingUpdate"
	recreate      = "Recreate"
)

// DefaultExpect is what a good answer says in a mode, as ParseExpect reads it.
func DefaultExpect(mode string) string {
	if isGRPC(mode) {
		return "0"
	}
	return "2xx"
}

// DefaultPath is what the bundled probe is asked for in a mode.
func DefaultPath(mode string) string {
	switch request.Mode(mode) {
	case request.GRPC:
		return "/grpc.health.v1.Health/Check"
	case request.GRPCStream:
		return "/grpc.health.v1.Health/Watch"
	case request.WebSocket:
		return "/ws"
	default:
		return probe.PathWho
	}
}

func isGRPC(mode string) bool {
	return mode == string(request.GRPC) || mode == string(request.GRPCStream)
}

// completeTraffic fills what follows from the mode and the trigger.
func completeTraffic(t record.Traffic, by trigger.Kind) record.Traffic {
	grpc := isGRPC(t.Mode)
	if t.Method == "" {
		t.Method = "GET"
		if grpc {
			t.Method = "POST"
		}
	}
	if t.Expect == "" {
		t.Expect = DefaultExpect(t.Mode)
	}
	if t.WaitFor == "" {
		switch by {
		case trigger.Rollout:
			t.WaitFor = string(kube.RolledOut)
		case trigger.None:
			t.WaitFor = string(kube.Nothing)
		default:
			t.WaitFor = string(kube.Ready)
		}
	}
	return t
}

// validateRequests refuses what belongs to flows alone, and what cannot be measured.
func validateRequests(c record.Config) error {
	switch {
	case c.Traffic == nil && c.Probe != nil:
		return fault.Usagef("add requests, or leave it out", "probe: it describes the workload of requests, and there are none")
	case c.Traffic == nil:
		return nil
	case c.TCP != 0 || c.UDP != 0:
		return fault.Usagef("leave out tcp and udp, or requests", "tcp %d and udp %d: a trial sends requests or holds flows, not both", c.TCP, c.UDP)
	}
	if err := ValidateTraffic(c); err != nil {
		return err
	}
	if c.Probe == nil {
		return nil
	}
	return validateProbe(*c.Probe, c)
}

// ValidateTraffic refuses requests that cannot be sent or judged. c.Traffic must be complete.
func ValidateTraffic(c record.Config) error {
	t := c.Traffic
	for _, err := range []error{
		known("mode of requests", t.Mode, request.Modes()),
		known("condition to wait for", t.WaitFor, kube.Conditions()),
		count("number of users", t.Users, 1, MaxUsers),
		count("number of clients", t.Workers, 1, MaxClients),
		count("number of Pods or replicas to end", t.TriggerCount, 0, MaxCount),
		span("time before the trigger", t.BeforeNs, time.Second, MaxBefore),
		span("time after the disruption", t.AfterNs, 0, MaxAfter),
		span("time to wait for the disruption's end", t.WaitNs, time.Second, MaxWait),
		span("limit for finding the address", t.DNSNs, MinLimit, MaxLimit),
		span("limit for connecting", t.ConnectNs, MinLimit, MaxLimit),
		span("limit for the TLS handshake", t.TLSNs, MinLimit, MaxLimit),
		span("limit for the first byte", t.FirstByteNs, MinLimit, MaxLimit),
		span("limit for the whole request", t.WholeNs, MinLimit, MaxLimit),
	} {
		if err != nil {
			return err
		}
	}
	// Written so that what is no number is refused, too.
	if !(t.Rate > 0 && t.Rate <= MaxRate) {
		return fault.Usagef(fmt.Sprintf("give a number above 0 and at most %d", MaxRate), "rate %v is out of range", t.Rate)
	}
	if !methodForm.MatchString(t.Method) {
		return fault.Usagef("give a method such as GET", "method %q is none", t.Method)
	}
	_, err := ParseExpect(request.Mode(t.Mode), t.Expect)
	return err
}

var methodForm = regexp.MustCompile(`^[A-Z][A-Z-]{0,31}$`)

// ParseExpect reads statuses of HTTP such as 2xx, 301, 400-404, or, in the gRPC modes, of gRPC such as 0, 5.
func ParseExpect(m request.Mode, text string) ([]request.StatusRange, error) {
	low, high, example := 100, 999, "2xx, 301, 400-404"
	if isGRPC(string(m)) {
		low, high, example = 0, 16, "0, 5, 12-14"
	}
	var ranges []request.StatusRange
	for part := range strings.SplitSeq(strings.ToLower(text), ",") {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, "-")
		if class, ok := strings.CutSuffix(part, "xx"); ok && len(class) == 1 {
			from, to, isRange = class+"00", class+"99", true
		}
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a < low || b > high || a > b {
			return nil, fault.Usagef(fmt.Sprintf("give statuses from %d to %d, such as %s", low, high, example), "expected status %q is not understood", part)
		}
		ranges = append(ranges, request.StatusRange{From: a, To: b})
	}
	return ranges, nil
}

// ValidatePath refuses what is no path for requests in a mode.
func ValidatePath(mode, path string) error {
	switch {
	case !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }):
		return fault.Usagef("give a path such as /slow?for=8s, percent-encoded where need be", "path of requests %q is none", path)
	case isGRPC(mode) && strings.Count(path, "/") != 2:
		return fault.Usagef("give a path such as "+DefaultPath(mode), "path of requests %q is not /service/method", path)
	}
	return nil
}

var shareForm = regexp.MustCompile(`^((0|[1-9][0-9]{0,3})|(0|[1-9][0-9]?|100)%)$`)

func validateProbe(p record.ProbeConfig, c record.Config) error {
	for _, err := range []error{
		count("probe: replicas", p.Replicas, 1, MaxReplicas),
		known("probe: strategy", p.Strategy, []string{rollingUpdate, recreate}),
		share("probe: maxUnavailable", p.MaxUnavailable),
		share("probe: maxSurge", p.MaxSurge),
		span("probe: startDelay", p.StartDelayNs, 0, MaxStartDelay),
	} {
		if err != nil {
			return err
		}
	}
	if p.BudgetMinAvailable != nil {
		if err := count("probe: budgetMinAvailable", *p.BudgetMinAvailable, 0, MaxReplicas); err != nil {
			return err
		}
	}
	hook, mode := time.Duration(p.DrainHookNs), request.Mode(c.Traffic.Mode)
	switch {
	case mode == request.TCP || mode == request.UDP:
		return fault.Usagef("hold flows to the probe, with the settings tcp and udp", "mode of requests %s is for other workloads than the probe", mode)
	case p.Strategy == recreate && (p.MaxUnavailable != "" || p.MaxSurge != ""):
		return fault.Usagef("they bound a rolling update: leave them out", "probe: strategy Recreate excludes maxUnavailable and maxSurge")
	case isZero(p.MaxUnavailable) && isZero(p.MaxSurge):
		return fault.Usagef("raise one of them", "probe: with maxUnavailable %s and maxSurge %s no Pod could ever be replaced", p.MaxUnavailable, p.MaxSurge)
	case p.DrainHookNs < 0: // no hook
	case c.PreStopSleepNs > 0:
		return fault.Usagef("leave one out", "probe: drainHook excludes preStopSleep: a container has one preStop hook")
	case p.DrainHookNs > c.GraceNs:
		return fault.Usagef("the grace period starts before the hook: raise grace", "probe: drainHook %v is longer than grace %v", hook, time.Duration(c.GraceNs))
	}
	return nil
}

func isZero(share string) bool { return share == "0" || share == "0%" }

func share(name, s string) error {
	if s == "" || shareForm.MatchString(s) {
		return nil
	}
	return fault.Usagef("give a number such as 1 or a share such as 25%", "%s %q is neither", name, s)
}

func known[T ~string](name, value string, allowed []T) error {
	if slices.Contains(allowed, T(value)) {
		return nil
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	last := len(words) - 1
	return fault.Usagef("choose "+strings.Join(words[:last], ", ")+" or "+words[last], "%s %q is not known", name, value)
}

func count(name string, n, low, high int) error {
	if n < low || n > high {
		return fault.Usagef(fmt.Sprintf("give a number between %d and %d", low, high), "%s %d is out of range", name, n)
	}
	return nil
}

func span(name string, ns int64, low, high time.Duration) error {
	if d := time.Duration(ns); d < low || d > high {
		return fault.Usagef(fmt.Sprintf("give a duration between %v and %v, such as 5s", low, high), "%s %v is out of range", name, d)
	}
	return nil
}
