package testview

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/testkit"
)

// servers are what docs/servers.md tells of, in its order: a folder of results/servers each, with one of each variant, from as it comes to repaired.
var servers = []struct {
	name, text string
	// pkg is the line of packages.txt with its version.
	pkg      string
	variants []serverVariant
}{
	{"nginx", "nginx", "nginx", []serverVariant{
		{"term", "as it comes: SIGTERM"}, {"quit", "STOPSIGNAL SIGQUIT"}, {"quit-sleep", "and preStop sleep 5 s"},
	}},
	{"haproxy", "HAProxy", "haproxy", []serverVariant{
		{"term", "as it comes: SIGTERM"}, {"usr1", "STOPSIGNAL SIGUSR1"}, {"usr1-sleep", "and preStop sleep 5 s, idle-close-on-response, hard-stop-after"},
	}},
	{"httpd", "Apache httpd", "apache2-bin", []serverVariant{
		{"term", "as it comes: SIGTERM"}, {"winch", "STOPSIGNAL SIGWINCH"}, {"winch-sleep", "and preStop sleep 5 s"},
	}},
	{"node", "Node", "nodejs", []serverVariant{
		{"pid1", "as it comes: no handler, the first process"}, {"init", "no handler, under an init"}, {"close", "server.close(), closeIdleConnections()"},
		{"announce-sleep", "and Connection: close from SIGTERM on, preStop sleep 5 s"},
	}},
	{"gunicorn", "gunicorn", "gunicorn", []serverVariant{{"term", "as it comes: SIGTERM"}, {"sleep", "preStop sleep 5 s"}}},
	{"go", "Go net/http", "go", []serverVariant{
		{"plain", "as it comes: no handler"}, {"shutdown", "Server.Shutdown on SIGTERM"}, {"shutdown-sleep", "and preStop sleep 5 s"},
	}},
	{"dnsmasq", "dnsmasq", "dnsmasq-base", []serverVariant{
		{"term", "as it comes: SIGTERM"}, {"sleep", "preStop sleep 5 s"}, {"unready-sleep", "preStop: not ready, sleep 8 s"},
	}},
}

type serverVariant struct{ name, text string }

// TestServersPageHoldsThePublishedTests: the table of docs/servers.md is exactly what the published records give, and no record is left out.
func TestServersPageHoldsThePublishedTests(t *testing.T) {
	page := testkit.ReadPage(t, "../../../docs/servers.md")
	page.Put(t, "<!-- made by: make update, of results/servers -->\n", endOfTables, serversTable(t))
	page.Hold(t)
}

func serversTable(t *testing.T) string {
	versions := packageVersions(t)
	shown := 0
	var b strings.Builder
	b.WriteString("\n| server | variant | traffic | failed | users hurt | how | why |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range servers {
		version := versions[s.pkg]
		if version == "" {
			t.Errorf("packages.txt has no version of %s", s.pkg)
		}
		label := s.text + " " + version // once, in its first row
		for _, v := range s.variants {
			for _, mode := range []string{"new-connection", "keep-alive", "udp"} {
				folder := filepath.Join("servers", s.name, v.name, mode)
				if _, err := os.Stat(filepath.Join("../../../results", folder)); err != nil {
					continue
				}
				set := publishedSet(t, folder)
				shown += len(set)
				cells := serverCells(t, folder, set)
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", page.Markdown(label), page.Markdown(v.text), mode, strings.Join(cells, " | "))
				label = ""
			}
		}
	}
	if all := len(publishedSet(t, "servers")); shown != all || shown == 0 {
		t.Errorf("the table shows %d records of %d", shown, all)
	}
	return b.String() + "\n"
}

// packageVersions reads what was in the image that was measured.
func packageVersions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../results/servers/packages.txt")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		versions[name] = version
	}
	return versions
}

// serverCells are the numbers of one variant under one kind of traffic.
func serverCells(t *testing.T, folder string, set []render.Input) []string {
	t.Helper()
	groups, err := render.Groups(set)
	if err != nil || len(groups) != 1 || len(groups[0].Arms) != 1 {
		t.Fatalf("%s is not one set of one arm: %v", folder, err)
	}
	arm := groups[0].Arms[0]
	row := matrixRow(arm)
	outcomes, causes := map[string]int{}, map[string]int{}
	for _, r := range arm.Trials {
		for _, f := range r.FailuresFrom() {
			outcomes[string(f.Outcome)]++
			if f.Cause == nil {
				t.Errorf("%s: a failure without a cause", folder)
				continue
			}
			causes[f.Cause.Kind]++
		}
		if r.Verdict == nil || r.Verdict.Result == record.Inconclusive {
			t.Errorf("%s, trial %d: no verdict", folder, r.Set.Repeat)
		}
	}
	return []string{row[2], row[4], figure.Counts(outcomes), figure.Counts(causes)}
}
