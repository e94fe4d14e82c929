package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var grpcRules = []Rule{
	{
		ID: "DP801", Topic: finding.GRPC, Severity: finding.Info,
		Title: "gRPC behind a cluster IP: connections leave a Pod only when it says so",
		Physics: "A gRPC client holds one HTTP/2 connection for all its calls. Behind a cluster IP kube-proxy picks the Pod once, when the connection is made, and the endpoint's removal does not move it: during the preStop hook all calls of such a client still go to the terminating Pod. " +
			"What ends it without loss is the server: GOAWAY on SIGTERM, then time for the calls under way. A server that just exits cuts all calls of all its clients. A maximum connection age makes connections move in normal times, which also spreads them over new Pods.",
		Sources: []string{"RFC 9113 section 6.8 (GOAWAY)", "gRPC proposal A9 (server-side connection management)", "grpc/grpc-go#2767", "grpc/grpc-java#11351"},
		Remedy:  "Stop gracefully on SIGTERM (GOAWAY, then wait for the calls) with a deadline inside the grace period, and set a maximum connection age with a grace of the longest call.",

		Workload: checkGRPC,
	},
	{
		ID: "DP802", Topic: finding.GRPC, Severity: finding.Warning,
		Title: "The grace of the maximum connection age cuts calls that a shutdown would let finish",
		Physics: "When a gRPC connection reaches its maximum age the server sends GOAWAY and, after the age's own grace, closes it with whatever calls are still on it. A grace shorter than the longest call cuts such calls again and again, in normal times and without any Pod ending: 0.5 s did so in a report. " +
			"The application's drain says how long calls may need at a shutdown; they need no less here.",
		Sources: []string{"gRPC proposal A9 (server-side connection management)", "grpc/grpc-go#4650"},
		Remedy:  "Set the grace of the maximum connection age to the longest call, as the drain does at a shutdown.",

		Workload: checkConnectionAge,
	},
}

// grpcPort gives the port of a Service that carries gRPC, as its path, and what says so.
func grpcPort(s *model.Service, w *model.Workload) (at, how string) {
	for _, p := range s.Ports {
		if p.Protocol != "TCP" {
			continue
		}
		switch p.AppProtocol {
		case "grpc", "kubernetes.io/h2c", "kubernetes.io/grpc":
			return p.At, p.At + ".appProtocol: " + p.AppProtocol
		}
		if grpcName(p.Name) {
			return p.At, p.At + ".name: " + p.Name
		}
	}
	for _, t := range s.TargetsOf(w) {
		if grpcName(t.Port.Name) {
			return t.ServicePort.At, t.Container.Path + ": port " + t.Port.Name
		}
		if r := t.Container.Readiness; r != nil && r.How == "grpc" && (r.Port == fmt.Sprint(t.Port.Number) || r.Port == t.Port.Name && r.Port != "") {
			return t.ServicePort.At, r.At + ": a gRPC probe of the same port"
		}
	}
	return "", ""
}

// grpcName goes by the usual names of ports: grpc, grpc-api, api-grpc. gRPC-Web is HTTP/1.1 to most servers.
func grpcName(name string) bool {
	if strings.HasPrefix(name, "grpc-web") {
		return false
	}
	return name == "grpc" || strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-grpc")
}

func checkGRPC(c *Context, w *model.Workload) {
	if !carries(w) || meshed(w) {
		return
	}
	sum := c.Sum(w)
	if sum.Drain.Known || statesAge(w) {
		return // whoever says that has thought of it
	}
	for _, s := range w.Services {
		if s.Headless || s.Type == "ExternalName" || len(s.Fronts) > 0 {
			continue
		}
		at, how := grpcPort(s, w)
		if at == "" {
			continue
		}
		facts := []finding.Fact{{Name: "gRPC", Value: "yes", From: how}, periodFact(w), holdFact(c, w)}
		rest := max(budget.KubeletFloor, sum.Grace-sum.LongHook)
		left, deadline := fmt.Sprintf("after SIGTERM %s are left for the calls under way", spell(rest)), spell(rest)
		if !sum.LongHookKnown {
			left = fmt.Sprintf("after SIGTERM what the hook leaves of %s is left for the calls under way", spell(sum.Grace))
			deadline = "what the hook leaves of " + spell(sum.Grace)
		}
		c.Report(At(s.Object, at), finding.Finding{
			Message: fmt.Sprintf("each client's HTTP/2 connection stays with one Pod until the Pod ends it: its delete moves no call, %s, and a server that exits without GOAWAY cuts them all", left),
			Facts:   facts,
			Remedy:  fmt.Sprintf("Stop gracefully on SIGTERM (GracefulStop or its like) with a deadline below %s, and say how long it takes with the annotation drainproof.dev/drain; a maximum connection age lets clients move in normal times.", deadline),
			Ask:     "Does the server send GOAWAY on SIGTERM and wait for its calls? " + askTest(w, "rollout") + " shows it.",
		})
		return
	}
}

// age is a setting of the maximum connection age.
type age struct {
	took time.Duration
	on   *Place
	from string
}

// ages reads settings whose name, in plain dress, ends with the given words.
func ages(w *model.Workload, word string) []age {
	var all []age
	for _, k := range w.Pod.Containers {
		for _, key := range cmdline.Sorted(k.Env) {
			if took, ok := ageOf(key, k.Env[key], word); ok {
				all = append(all, age{took, envPlace(w, k, key), "env " + key})
			}
		}
		for _, text := range cmdline.Of(k.Command, k.Args) {
			name, value, ok := strings.Cut(text, "=")
			if !ok || !strings.HasPrefix(name, "-") {
				continue
			}
			if took, ok := ageOf(name, value, word); ok {
				all = append(all, age{took, linePlace(w, k, name), k.Path + ": " + name})
			}
		}
	}
	return all
}

// ageOf reads a value whose unit is written: in it, or at the end of the name.
func ageOf(name, value, word string) (time.Duration, bool) {
	plain := cmdline.Plain(name)
	at := strings.Index(plain, word)
	if at < 0 {
		return 0, false
	}
	unit := time.Duration(0)
	switch plain[at+len(word):] {
	case "":
	case "ms", "millis", "milliseconds":
		unit = time.Millisecond
	case "s", "sec", "secs", "seconds":
		unit = time.Second
	default:
		return 0, false
	}
	return cmdline.Duration(value, unit)
}

func statesAge(w *model.Workload) bool {
	return len(ages(w, "maxconnectionage")) > 0
}

// briefest is an age's grace that a report shows to cut calls.
const briefest = 500 * time.Millisecond

func checkConnectionAge(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	sum := c.Sum(w)
	for _, a := range ages(w, "maxconnectionagegrace") {
		grace := finding.Fact{Name: "grace of the maximum connection age", Value: spell(a.took), From: a.from}
		switch {
		case sum.Drain.Known && a.took < sum.Drain.Took:
			c.Report(a.on, finding.Finding{
				Message: fmt.Sprintf("a connection that reaches its maximum age is closed %s after its GOAWAY, while a shutdown gives the same calls up to %s: calls between the two are cut at every turn of the connection", spell(a.took), spell(sum.Drain.Took)),
				Facts:   []finding.Fact{grace, drainFact(sum)},
				Remedy:  fmt.Sprintf("Set the grace of the maximum connection age to %s, like the drain.", spell(sum.Drain.Took)),
			})
		case a.took <= briefest:
			c.Report(a.on, finding.Finding{
				Message: fmt.Sprintf("a connection that reaches its maximum age is closed %s after its GOAWAY: calls that take longer are cut at every turn of the connection, with no Pod ending", spell(a.took)),
				Facts:   []finding.Fact{grace, {Name: "a grace that cut calls", Value: spell(briefest), From: "field report grpc/grpc-go#4650"}},
				Remedy:  "Set the grace of the maximum connection age to the longest call that must not fail.",
			})
		}
	}
}
