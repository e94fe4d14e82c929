package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/record"
)

func published(t *testing.T, pattern string) []record.Record {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("../../results", pattern))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no records at %s (%v)", pattern, err)
	}
	var all []record.Record
	for _, d := range dirs {
		if st, err := os.Stat(d); err != nil || !st.IsDir() {
			continue
		}
		paths, err := record.Find(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			r, err := record.Read(p)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
	}
	return all
}

// TestMeasured works on the published records: their propagation is below the default floor and above nothing.
func TestMeasured(t *testing.T) {
	floors, trials := Measured(published(t, "iptables/drain-delete"), "results")
	f := floors[budget.ClusterIP]
	if trials != 5 || !f.Measured || f.Least < 200*time.Millisecond || f.Least > 3*time.Second || !strings.Contains(f.Source, "worst of 5 trials in results") {
		t.Errorf("%d trials, floor %+v", trials, f)
	}
	if floors[budget.NodePort].Least != f.Least {
		t.Errorf("nodeport %+v", floors[budget.NodePort])
	}
	more, n := Measured(published(t, "iptables/*"), "results")
	if n <= trials || more[budget.ClusterIP].Least < f.Least {
		t.Errorf("of all records %d trials show it, and the worst is %v: less than of five", n, more[budget.ClusterIP].Least)
	}
}

func TestMeasuredOnce(t *testing.T) {
	for _, r := range published(t, "iptables/drain-delete") {
		floors, trials := Measured([]record.Record{r}, "one")
		if trials != 1 || !strings.HasPrefix(floors[budget.ClusterIP].Source, "measured: worst of 1 trial in one, ") {
			t.Errorf("%d trials, source %q", trials, floors[budget.ClusterIP].Source)
		}
	}
}

// TestMeasuredIsSilent: what does not show the lag is not taken for it.
func TestMeasuredIsSilent(t *testing.T) {
	for _, arm := range []string{"control", "drain-scale", "drain-ready-scale", "drain-ready-delete"} {
		for _, mode := range []string{"iptables/", "nftables/"} {
			if floors, n := Measured(published(t, mode+arm), "x"); n != 0 || floors != nil {
				t.Errorf("%s: %d trials are said to show the data plane's lag", mode+arm, n)
			}
		}
	}
	rs := published(t, "iptables/drain-delete")
	for i := range rs {
		rs[i].Completeness = record.Incomplete
	}
	if _, n := Measured(rs, "x"); n != 0 {
		t.Errorf("%d incomplete trials count", n)
	}
}

// TestMeasuredFloorsReplaceDefaults: they win over the configuration as well.
func TestMeasuredFloorsReplaceDefaults(t *testing.T) {
	floors, _ := Measured(published(t, "iptables/drain-delete"), "results")
	c, err := ParseConfig("c.yaml", []byte("apiVersion: drainproof.dev/v1\nkind: AuditConfig\nfloors: {clusterip: 7s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := Run(build(t, "{}", "{}"), Options{Server: DefaultServer, Config: c, Measured: floors}).Workloads[0]
	if w.Budget.PropagationNs == nil || *w.Budget.PropagationNs != int64(floors[budget.ClusterIP].Least) || !strings.Contains(w.Budget.PropagationFrom, "measured") {
		t.Errorf("budget %+v", w.Budget)
	}
}
