package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/fault"
)

const configHead = "apiVersion: drainproof.dev/v1\nkind: AuditConfig\n"

func TestConfigMistakesThatYAMLHides(t *testing.T) {
	for text, want := range map[string]string{
		"kubernetes: 1.30\n":                                     `kubernetes is a number, and 1.30 is 1.3 as a number: write it in quotes`,
		"kubernetes: 1.34\n":                                     "write it in quotes",
		"kubernetes: \"1.3\"\n":                                  "is older than v1.16",
		"failon: error\n":                                        "there is no field failon; it is written failOn",
		"ignore: [{Rule: DP501, reason: x}]\n":                   "there is no field ignore[0].Rule; it is written rule",
		"rules: {DP501: {severity: ignore, Reason: x}}\n":        "there is no field rules.DP501.Reason; it is written reason",
		"ignore: [{rule: DP501, kind: deployment, reason: x}]\n": `ignore[0]: no finding is on a "deployment"; the kinds are CronJob, DaemonSet, Deployment,`,
		"---\n" + configHead + "rules: {DP501: {severity: ignore, reason: x}}\n": "more than one YAML document",
		"---\na: b: c\n": "more than one YAML document",
	} {
		_, err := ParseConfig("c.yaml", []byte(configHead+text))
		if err == nil || fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, wanted %q", text, err, want)
		}
	}
	for _, text := range []string{"kubernetes: \"1.30\"\n", "kubernetes: v1.30\n", "kubernetes:\n", "---\n# nothing more\n", "rules: {DP501: {severity: info}}\nfloors: {clusterip: 5s}\n"} {
		if _, err := ParseConfig("c.yaml", []byte(configHead+text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestConfigNotesWhatMatchesNothing(t *testing.T) {
	c, err := ParseConfig("c.yaml", []byte(configHead+`ignore:
  - {rule: DP103, name: web, reason: x}
  - {rule: DP501, kind: Deployment, namespace: shop, name: wbe, reason: x}
  - {rule: DP103, kind: Deployment, reason: the workload of a finding counts}
  - {rule: DP451, reason: x}
`))
	if err != nil {
		t.Fatal(err)
	}
	web := finding.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}
	found := []finding.Finding{
		{Rule: "DP103", Object: web},
		{Rule: "DP501", Object: web},
		{Rule: "DP103", Object: finding.Object{Kind: "Service", Name: "other"}, Workload: &web},
	}
	want := []string{
		"configuration c.yaml: ignore[1] matches nothing: DP501, kind Deployment, namespace shop, name wbe",
		"configuration c.yaml: ignore[3] matches nothing: DP451",
	}
	if diff := cmp.Diff(want, c.notes(found)); diff != "" {
		t.Error(diff)
	}
	if notes := (Config{}).notes(found); notes != nil {
		t.Errorf("no configuration gives the notes %q", notes)
	}
}

func TestServersThatAreTooOld(t *testing.T) {
	for _, text := range []string{"1.3", "v1.15", "1.15.9", "1.0"} {
		if s, err := ParseServer(text); err == nil || !strings.Contains(err.Error(), "older than v1.16") {
			t.Errorf("%q gives %v, %v", text, s, err)
		}
	}
	if s, err := ParseServer("1.16"); err != nil || s.Minor != 16 {
		t.Errorf("1.16 gives %v, %v", s, err)
	}
}
