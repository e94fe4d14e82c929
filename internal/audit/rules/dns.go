package rules

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var dnsRules = []Rule{
	{
		ID: "DP761", Topic: finding.DNS, Severity: finding.Info,
		Title: "Clients find the Pods by DNS, and the hook is shorter than what they cache",
		Physics: "Behind a headless Service no kube-proxy stands between: clients resolve the name to the Pods' own addresses and connect to them. A deleted Pod leaves the answers at once, but an answer that was given lives on: for its TTL (5 s by default in CoreDNS's plugin kubernetes, " +
			"30 s in many Corefiles), and for as long as the client's own resolver, connection pool or channel keeps it. In that time clients go on dialling an address whose server may be gone, and later one that may belong to another Pod.",
		Sources: []string{"CoreDNS documentation: plugin kubernetes, ttl", "kubernetes/kubernetes#129617", "grpc/grpc-java#11351"},
		Remedy:  "Let a preStop sleep last longer than the TTL, and make clients resolve again when a connection ends; or give them a Service with a cluster IP.",

		Set: checkHeadlessClients,
	},
}

// How long a DNS answer lives.
const (
	shortTTL = 5 * time.Second
	longTTL  = 30 * time.Second
)

// checkHeadlessClients looks at all workloads at once: who names a Service is found in the
// others, in one walk over them.
func checkHeadlessClients(c *Context) {
	names := map[string]bool{}
	for _, s := range c.Model.Services {
		if s.Headless && len(s.Workloads) > 0 {
			names[s.Object.Name] = true
		}
	}
	if len(names) == 0 {
		return
	}
	index := hostsNamed(c.Model, names)
	for _, w := range c.Model.Workloads {
		if carries(w) {
			checkHeadless(c, w, index)
		}
	}
}

func checkHeadless(c *Context, w *model.Workload, index map[string][]mention) {
	sum := c.Sum(w)
	short, long := shortTTL, longTTL
	ttl, fact := spell(short)+" to "+spell(long), finding.Fact{Name: "TTL of the answer", Value: "5 s, often 30 s", From: "CoreDNS plugin kubernetes: default, and many Corefiles"}
	if m, ok := c.Floors.Measured[budget.Headless]; ok {
		short, long = m.Least, m.Least
		ttl, fact = spell(long), finding.Fact{Name: "a deleted Pod is still dialled for", Value: spell(long), From: m.Source}
	}
	if !sum.HookKnown || sum.Hook >= long {
		return
	}
	for _, s := range w.Services {
		if !s.Headless {
			continue
		}
		sign, found := dnsClients(index, w, s)
		if !found {
			continue
		}
		tail := fmt.Sprintf("for %s to %s they may dial an address whose server is gone", spell(short-sum.Hook), spell(long-sum.Hook))
		switch {
		case short == long:
			tail = fmt.Sprintf("for up to %s they may dial an address whose server is gone", spell(long-sum.Hook))
		case sum.Hook >= short:
			tail = fmt.Sprintf("if the TTL is %s, for up to %s they may dial an address whose server is gone", spell(long), spell(long-sum.Hook))
		}
		object := ObjectOf(w.Object)
		c.Report(At(s.Object, "spec.clusterIP"), finding.Finding{
			Workload: &object,
			Message: fmt.Sprintf("clients resolve this headless Service to the Pods' addresses and may use that of a deleted Pod for the TTL of the answer, %s, while %s: %s",
				ttl, keeps(sum), tail),
			Facts: []finding.Fact{
				sign,
				fact,
				holdFact(c, w),
				periodFact(w),
			},
			Remedy: fmt.Sprintf("Give the serving container a preStop sleep of the TTL of the cluster's DNS and a little more (up to %s), or the clients a Service with a cluster IP.", spell(long)),
			Ask:    "What TTL does the cluster's DNS give (kubectl -n kube-system get configmap coredns -o yaml), and do the clients resolve again when a connection fails?",
		})
	}
}

// keeps is the hook in a sentence in which the Pod is not the subject.
func keeps(s budget.Sum) string {
	if s.Hook == 0 {
		return "no preStop hook keeps its server up"
	}
	return "the preStop hook keeps its server up for " + spell(s.Hook)
}

// dnsClients looks for a sign that clients resolve a headless Service: another workload that
// names it as a host, or gRPC, whose clients balance over what they resolve. Discovery among a Service's own
// Pods is none, and neither are scrapers, which ask the API.
func dnsClients(index map[string][]mention, w *model.Workload, s *model.Service) (finding.Fact, bool) {
	for _, m := range index[s.Object.Name] {
		if m.names(s) && !slices.Contains(s.Workloads, m.by) {
			return finding.Fact{Name: "a client", Value: m.by.Object.Kind + " " + m.by.Object.Name, From: m.from}, true
		}
	}
	for _, beside := range w.Services {
		if !beside.Headless {
			return finding.Fact{}, false // gRPC clients may use that one
		}
	}
	if at, how := grpcPort(s, w); at != "" {
		return finding.Fact{Name: "clients that balance by DNS", Value: "gRPC", From: how}, true
	}
	return finding.Fact{}, false
}

// mention is a place where a workload writes a host name that begins with a Service's name.
type mention struct {
	by *model.Workload
	// rest is what follows the name: "" or a namespace and more.
	rest, from string
}

func (m mention) names(s *model.Service) bool {
	space := namespaceOf(s.Object.Namespace)
	if m.rest == "" {
		return namespaceOf(m.by.Object.Namespace) == space
	}
	return m.rest == space || strings.HasPrefix(m.rest, space+".svc")
}

// hostsNamed walks all settings and command lines once for hosts that begin with one of the names.
func hostsNamed(m *model.Model, names map[string]bool) map[string][]mention {
	index := map[string][]mention{}
	for _, w := range m.Workloads {
		for _, k := range everyContainer(w) {
			for _, key := range cmdline.Sorted(k.Env) {
				value := k.Env[key]
				if names[value] && isHostKey(key) {
					index[value] = append(index[value], mention{w, "", "env " + key})
					continue
				}
				for name, rest := range hosts(value) {
					if names[name] {
						index[name] = append(index[name], mention{w, rest, "env " + key})
					}
				}
			}
			for _, word := range cmdline.Of(k.Command, k.Args) {
				for name, rest := range hosts(word) {
					if names[name] {
						index[name] = append(index[name], mention{w, rest, k.Path + ": " + word})
					}
				}
			}
		}
	}
	return index
}

// isHostKey says that a variable of this name holds a host and nothing else.
func isHostKey(key string) bool {
	key = strings.ToUpper(key)
	for _, end := range []string{"HOST", "HOSTNAME", "ADDR", "ADDRESS", "SERVER", "URL", "ENDPOINT"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// hosts yields what may be host names in a text, cut after their first label. A single label counts
// where a port follows or "//" or "@" stands before it; any other word may be anything.
func hosts(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		inName := func(i int) bool {
			b := text[i]
			return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.'
		}
		for i := 0; i < len(text); {
			if !inName(i) {
				i++
				continue
			}
			start := i
			for i < len(text) && inName(i) {
				i++
			}
			name, rest, _ := strings.Cut(text[start:i], ".")
			if rest == "" {
				port := i+1 < len(text) && text[i] == ':' && text[i+1] >= '0' && text[i+1] <= '9'
				before := strings.HasSuffix(text[:start], "@")
				if strings.HasSuffix(text[:start], "//") {
					// In "//user:password@host" it is a user.
					end := strings.IndexAny(text[i:], "@/")
					before = end < 0 || text[i+end] != '@'
				}
				if !port && !before {
					continue
				}
			}
			if !yield(name, rest) {
				return
			}
		}
	}
}
