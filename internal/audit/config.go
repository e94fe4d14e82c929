package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/rules"
	"github.com/drainproof/drainproof/internal/fault"
)

// Config is the configuration file: what a team decided once for all its manifests.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Kubernetes is the version that the manifests are for, e.g. v1.34; the flag wins.
	Kubernetes string `json:"kubernetes,omitempty"`
	// FailOn is the severity from which on the command fails; the flag wins.
	FailOn finding.Severity `json:"failOn,omitempty"`
	// Rules changes single rules by their ID.
	Rules map[string]RuleConfig `json:"rules,omitempty"`
	// Floors replaces the floor of a path by what was measured on the team's own clusters, e.g. clusterip: 5s.
	Floors map[string]string `json:"floors,omitempty"`
	// Ignore suppresses findings by object.
	Ignore []Ignore `json:"ignore,omitempty"`

	parsed map[string]time.Duration
	file   string
}

// RuleConfig changes one rule.
type RuleConfig struct {
	// Severity is error, warning, info, or ignore.
	Severity finding.Severity `json:"severity"`
	// Reason is needed for ignore.
	Reason string `json:"reason,omitempty"`
}

// ignored stands in a configuration only. It is not "off", which YAML 1.1 takes for false.
const ignored finding.Severity = "ignore"

// Ignore suppresses one rule on the objects that match. Empty fields match all;
// name and namespace are shell patterns.
type Ignore struct {
	Rule      string `json:"rule"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Reason    string `json:"reason"`
}

var paths = []string{budget.ClusterIP, budget.NodePort, budget.LoadBalancer, budget.Ingress, budget.Gateway, budget.Headless, budget.HostPort, budget.Registry}

// kinds are those that findings are on.
var kinds = []string{
	"CronJob", "DaemonSet", "Deployment", "GRPCRoute", "HTTPRoute", "HorizontalPodAutoscaler", "Ingress", "Job", "Pod", "PodDisruptionBudget",
	"ReplicaSet", "ReplicationController", "Rollout", "ScaledObject", "Service", "StatefulSet", "TCPRoute", "TLSRoute", "UDPRoute",
}

// misspelt names the first key that is a field's name but for its case. The JSON decoder takes it for the field.
func misspelt(at string, written any, t reflect.Type) string {
	switch v := written.(type) {
	case []any:
		for i, e := range v {
			if wrong := misspelt(fmt.Sprintf("%s[%d]", at, i), e, t.Elem()); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			path := strings.TrimPrefix(at+"."+key, ".")
			if t.Kind() == reflect.Map {
				if wrong := misspelt(path, v[key], t.Elem()); wrong != "" {
					return wrong
				}
				continue
			}
			for i := range t.NumField() {
				f := t.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				switch {
				case name == "" || !strings.EqualFold(name, key):
				case name != key:
					return fmt.Sprintf("there is no field %s; it is written %s", path, name)
				default:
					if wrong := misspelt(path, v[key], f.Type); wrong != "" {
						return wrong
					}
				}
			}
		}
	}
	return ""
}

// several says whether a text holds more than one YAML document; one that is empty is none.
func several(text []byte) bool {
	d := yamlv3.NewDecoder(bytes.NewReader(text))
	n := 0
	for {
		var document any
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return n > 1
		}
		if err != nil || document != nil {
			n++
		}
		if err != nil {
			return n > 1
		}
	}
}

// ParseConfig reads a configuration file's text. Unknown fields and rules are errors:
// a spelling mistake must not switch a check off.
func ParseConfig(file string, text []byte) (Config, error) {
	const next = "see docs/audit.md for its fields"
	bad := func(format string, args ...any) (Config, error) {
		return Config{}, fault.Usagef(next, "configuration %s: %s", file, fmt.Sprintf(format, args...))
	}
	var c Config
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return bad("%v", err)
	}
	var written map[string]any
	if err := yaml.Unmarshal(text, &written); err != nil {
		return bad("%v", err)
	}
	if wrong := misspelt("", written, reflect.TypeOf(c)); wrong != "" {
		return bad("%s", wrong)
	}
	if v, ok := written["kubernetes"]; ok && v != nil {
		if _, ok := v.(string); !ok {
			return bad("kubernetes is a number, and 1.30 is 1.3 as a number: write it in quotes, as in \"1.30\"")
		}
	}
	if several(text) {
		return bad("has more than one YAML document, and only the first would count")
	}
	if c.APIVersion != "drainproof.dev/v1" || c.Kind != "AuditConfig" {
		return bad("wants apiVersion drainproof.dev/v1 and kind AuditConfig, has %q and %q", c.APIVersion, c.Kind)
	}
	known := knownRules()
	for id, r := range c.Rules {
		switch {
		case !known[id]:
			return bad("there is no rule %q", id)
		case r.Severity != ignored && r.Severity.Rank() == 0:
			return bad("rules.%s.severity is %q: error, warning, info or ignore", id, r.Severity)
		case r.Severity == ignored && r.Reason == "":
			return bad("rules.%s is ignored and has no reason", id)
		}
	}
	for i, g := range c.Ignore {
		switch {
		case !known[g.Rule]:
			return bad("ignore[%d]: there is no rule %q", i, g.Rule)
		case g.Reason == "":
			return bad("ignore[%d] has no reason", i)
		}
		if g.Kind != "" && !slices.Contains(kinds, g.Kind) {
			return bad("ignore[%d]: no finding is on a %q; the kinds are %s", i, g.Kind, strings.Join(kinds, ", "))
		}
		for _, pattern := range []string{g.Name, g.Namespace} {
			if _, err := path.Match(pattern, ""); err != nil {
				return bad("ignore[%d]: pattern %q: %v", i, pattern, err)
			}
		}
	}
	if c.FailOn != "" && c.FailOn != "never" && c.FailOn.Rank() == 0 {
		return bad("failOn is %q: error, warning, info or never", c.FailOn)
	}
	if c.Kubernetes != "" {
		if _, err := ParseServer(c.Kubernetes); err != nil {
			return bad("kubernetes: %v", err)
		}
	}
	c.parsed = map[string]time.Duration{}
	for p, text := range c.Floors {
		d, err := time.ParseDuration(text)
		switch {
		case !slices.Contains(paths, p):
			return bad("floors: there is no path %q (%v)", p, paths)
		case err != nil || d < 0 || d > 24*time.Hour:
			return bad("floors.%s is %q: a duration such as 5s", p, text)
		}
		c.parsed[p] = d
	}
	c.file = file
	return c, nil
}

// knownRules are the IDs of all rules.
func knownRules() map[string]bool {
	known := map[string]bool{}
	for _, r := range rules.All() {
		known[r.ID] = true
	}
	return known
}

// Floored gives the floors that replace the defaults: measured ones before configured ones.
func (c Config) Floored(measured map[string]budget.Floor) budget.Floors {
	all := map[string]budget.Floor{}
	for p, d := range c.parsed {
		all[p] = budget.Floor{Path: p, Least: d, Measured: true, Source: "configuration " + c.file}
	}
	maps.Copy(all, measured)
	return budget.Floors{Measured: all}
}

// apply gives the finding as the configuration wants it, and who suppresses it and why; by is "" if nobody.
func (c Config) apply(f finding.Finding) (changed finding.Finding, by, reason string) {
	if r, ok := c.Rules[f.Rule]; ok {
		if r.Severity == ignored {
			return f, "config", r.Reason
		}
		f.Severity = r.Severity
	}
	for _, g := range c.Ignore {
		if g.on(f) {
			return f, "config", g.Reason
		}
	}
	return f, "", ""
}

// on says whether the entry is about a finding.
func (g Ignore) on(f finding.Finding) bool {
	return g.Rule == f.Rule && (g.matches(f.Object) || f.Workload != nil && g.matches(*f.Workload))
}

// notes name the entries of ignore that match nothing that was found: a spelling mistake in one looks the same as a
// finding that is gone, and either way it would hide what comes later.
func (c Config) notes(found []finding.Finding) []string {
	var notes []string
	for i, g := range c.Ignore {
		if !slices.ContainsFunc(found, g.on) {
			notes = append(notes, fmt.Sprintf("configuration %s: ignore[%d] matches nothing: %s", c.file, i, g))
		}
	}
	return notes
}

// String writes the entry as a note does.
func (g Ignore) String() string {
	text := g.Rule
	for _, part := range [][2]string{{"kind", g.Kind}, {"namespace", g.Namespace}, {"name", g.Name}} {
		if part[1] != "" {
			text += ", " + part[0] + " " + part[1]
		}
	}
	return text
}

func (g Ignore) matches(o finding.Object) bool {
	return (g.Kind == "" || g.Kind == o.Kind) && matches(g.Namespace, o.Namespace) && matches(g.Name, o.Name)
}

func matches(pattern, s string) bool {
	ok, err := path.Match(pattern, s)
	return pattern == "" || err == nil && ok
}
