package auditview

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// Where a reader of a finding learns more.
const (
	homepage  = "https://github.com/drainproof/drainproof"
	rulesPage = homepage + "/blob/main/docs/rules.md"
)

func ruleURL(id string) string {
	return rulesPage + "#" + url.PathEscape(strings.ToLower(id))
}

// The parts of a SARIF 2.1.0 log that an audit fills in.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string        `json:"id"`
		ShortDescription     sarifText     `json:"shortDescription"`
		FullDescription      sarifText     `json:"fullDescription"`
		Help                 sarifText     `json:"help"`
		HelpURI              string        `json:"helpUri"`
		DefaultConfiguration sarifLevel    `json:"defaultConfiguration"`
		Properties           sarifRuleTags `json:"properties"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifRuleTags struct {
		Tags            []string `json:"tags"`
		ProblemSeverity string   `json:"problem.severity"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool                `json:"executionSuccessful"`
		Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID              string             `json:"ruleId"`
		RuleIndex           int                `json:"ruleIndex"`
		Level               string             `json:"level"`
		Message             sarifText          `json:"message"`
		Locations           []sarifLocation    `json:"locations"`
		PartialFingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions        []sarifSuppression `json:"suppressions"`
		Properties          sarifFacts         `json:"properties"`
	}
	sarifFacts struct {
		Topic    string   `json:"topic"`
		Workload string   `json:"workload,omitempty"`
		Path     string   `json:"path"`
		Facts    []string `json:"facts"`
		Ask      string   `json:"ask,omitempty"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name               string `json:"name"`
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Status        string `json:"status"`
		Justification string `json:"justification,omitempty"`
	}
)

// SARIF writes a SARIF 2.1.0 log. The rules are those of docs, in their order, and any
// that a finding names beside them. File names should be relative to the repository's root.
func SARIF(w io.Writer, r *finding.Report, docs []finding.RuleDoc) error {
	r = cleaned(r)
	s := &sarifWriter{index: map[string]int{}, seen: map[string]int{}}
	for _, d := range docs {
		s.rule(cleanDoc(d))
	}
	for _, f := range r.Findings {
		s.result(f, []sarifSuppression{})
	}
	for _, x := range r.Suppressed {
		kind := "external"
		if x.By == "annotation" {
			kind = "inSource"
		}
		s.result(x.Finding, []sarifSuppression{{Kind: kind, Status: "accepted", Justification: x.Reason}})
	}
	invocation := sarifInvocation{ExecutionSuccessful: true}
	for _, n := range r.Notes {
		invocation.Notifications = append(invocation.Notifications, sarifNotification{Level: "note", Message: message(n)})
	}
	return writeJSON(w, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{
			Tool: sarifTool{sarifDriver{
				Name: "drainproof", Version: r.Tool.Version, InformationURI: homepage, Rules: append([]sarifRule{}, s.rules...),
			}},
			Invocations: []sarifInvocation{invocation},
			Results:     append([]sarifResult{}, s.results...),
		}},
	})
}

type sarifWriter struct {
	rules []sarifRule
	// index of a rule by its ID.
	index   map[string]int
	results []sarifResult
	// seen counts fingerprints within one file, so that twins are told apart.
	seen map[string]int
}

// rule adds a rule and gives its index; a rule that is there already stays as it is.
func (s *sarifWriter) rule(d finding.RuleDoc) int {
	if i, ok := s.index[d.ID]; ok {
		return i
	}
	help := d.Remedy
	if len(d.Sources) > 0 {
		help += " Sources: " + strings.Join(d.Sources, "; ") + "."
	}
	s.rules = append(s.rules, sarifRule{
		ID: d.ID, ShortDescription: message(cmp.Or(d.Title, d.ID)), FullDescription: message(cmp.Or(d.Physics, d.Title, d.ID)),
		Help: message(cmp.Or(strings.TrimSpace(help), d.Title, d.ID)), HelpURI: ruleURL(d.ID),
		DefaultConfiguration: sarifLevel{sarifLevelOf(d.Severity)},
		Properties:           sarifRuleTags{Tags: slices.DeleteFunc([]string{"kubernetes", "termination", string(d.Topic)}, func(t string) bool { return t == "" }), ProblemSeverity: problemSeverity(d.Severity)},
	})
	s.index[d.ID] = len(s.rules) - 1
	return len(s.rules) - 1
}

func (s *sarifWriter) result(f finding.Finding, suppressions []sarifSuppression) {
	i := s.rule(finding.RuleDoc{ID: f.Rule, Topic: f.Topic, Severity: f.Severity})
	text := f.Message
	if f.Remedy != "" {
		text += "\nFix: " + f.Remedy
	}
	if f.Ask != "" {
		text += "\nAsk: " + f.Ask
	}
	location := sarifLocation{Logical: []sarifLogical{{Name: f.Object.Name, FullyQualifiedName: strings.TrimSpace(describe(f.Object) + " " + f.Path), Kind: "object"}}}
	if f.File != "" {
		location.Physical = &sarifPhysical{Artifact: sarifArtifact{fileURI(f.File)}}
		if f.Line > 0 {
			location.Physical.Region = &sarifRegion{f.Line}
		}
	}
	workload := ""
	if f.Workload != nil {
		workload = describe(*f.Workload)
	}
	s.results = append(s.results, sarifResult{
		RuleID: f.Rule, RuleIndex: i, Level: sarifLevelOf(f.Severity), Message: message(text),
		Locations: []sarifLocation{location}, PartialFingerprints: s.fingerprints(f), Suppressions: suppressions,
		Properties: sarifFacts{Topic: string(f.Topic), Workload: workload, Path: f.Path, Facts: each(f.Facts, factText), Ask: f.Ask},
	})
}

// fingerprints identify a finding by what it is about, never by its line or its
// numbers: it stays the same finding while the file around it changes. Code scanning reads only the
// first name, a location within the file; it adds rule and file itself.
func (s *sarifWriter) fingerprints(f finding.Finding) map[string]string {
	parts := []string{f.Rule, f.Object.APIVersion, f.Object.Kind, f.Object.Namespace, f.Object.Name, f.Path}
	if w := f.Workload; w != nil {
		parts = append(parts, w.APIVersion, w.Kind, w.Namespace, w.Name)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	id := hex.EncodeToString(sum[:16])
	s.seen[f.File+"\x00"+id]++
	id = fmt.Sprintf("%s:%d", id, s.seen[f.File+"\x00"+id])
	return map[string]string{"primaryLocationLineHash": id, "drainproofFinding/v1": id}
}

// message escapes what SARIF reads in a plain text: braces are placeholders and are written
// double, and [words](place) would be a link.
func message(s string) sarifText {
	return sarifText{strings.NewReplacer("{", "{{", "}", "}}", "](", "] (").Replace(s)}
}

func sarifLevelOf(s finding.Severity) string {
	switch s {
	case finding.Error:
		return "error"
	case finding.Warning:
		return "warning"
	}
	return "note"
}

func problemSeverity(s finding.Severity) string {
	if s == finding.Error || s == finding.Warning {
		return string(s)
	}
	return "recommendation"
}

// fileURI is a reference relative to where the audit ran; an absolute file name stays absolute.
func fileURI(file string) string {
	p := path.Clean(file)
	if path.IsAbs(p) {
		return (&url.URL{Scheme: "file", Path: p}).String()
	}
	return (&url.URL{Path: p}).String()
}
