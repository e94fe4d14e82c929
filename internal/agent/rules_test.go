package agent

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/agent/dataplane"
)

// told writes facts as "kind backend-or-verdict", with the bounds where there are any.
func told(facts []Fact) (list []string) {
	for _, f := range facts {
		what, _ := f.Event.Detail["backend"].(string)
		if what == "" {
			what, _ = f.Event.Detail["verdict"].(string)
		}
		line := fmt.Sprintf("%s %s", f.Event.Kind, what)
		if f.NotBeforeMonoNs != 0 {
			line += fmt.Sprintf(" in %d-%d", f.NotBeforeMonoNs, f.MonoNs)
		}
		if f.Event.Detail["first"] == true {
			line += " already"
		}
		list = append(list, line)
	}
	return list
}

func TestStatesOfRulesBecomeWhatCameAndWent(t *testing.T) {
	front := dataplane.Front{Protocol: TCP, Addr: ap("10.96.0.1:80")}
	a, b, c := ap("10.0.1.5:8080"), ap("10.0.2.6:8080"), ap("10.0.3.7:8080")
	state := func(verdict string, backends ...netip.AddrPort) dataplane.State {
		return dataplane.State{Front: front, Plane: dataplane.NFTables, Known: true, Verdict: verdict, Backends: backends}
	}
	r := &ruleStates{}
	var facts []Fact
	take := func(c dataplane.Change) { r.take(c, func(f Fact) { facts = append(facts, f) }) }

	take(dataplane.Change{First: true, MonoNs: 10, NotBeforeNs: 10, State: state("", a, b)})
	take(dataplane.Change{MonoNs: 30, NotBeforeNs: 20, Commits: 1, ByComm: "nft", ByPID: 7, State: state("", b, c)})
	take(dataplane.Change{MonoNs: 50, NotBeforeNs: 40, State: state(dataplane.Reject)})
	local := state("", a)
	local.LocalBackends = []netip.AddrPort{a, c}
	take(dataplane.Change{MonoNs: 70, NotBeforeNs: 60, State: local})
	take(dataplane.Change{MonoNs: 90, NotBeforeNs: 80, State: local}) // nothing that is told has changed

	want := []string{
		"rule-added 10.0.1.5:8080 already", "rule-added 10.0.2.6:8080 already",
		"rule-removed 10.0.1.5:8080 in 20-30", "rule-added 10.0.3.7:8080 in 20-30",
		"rule-removed 10.0.2.6:8080 in 40-50", "rule-removed 10.0.3.7:8080 in 40-50", "rule-rejects reject in 40-50",
		"rule-added 10.0.1.5:8080 in 60-70", "rule-added 10.0.3.7:8080 in 60-70", "rule-reject-removed reject in 60-70",
	}
	if d := cmp.Diff(want, told(facts)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	d := facts[2].Event.Detail
	if d["front"] != "10.96.0.1:80" || d["proxy"] != dataplane.NFTables || d["by_comm"] != "nft" || d["by_pid"] != uint32(7) || d["protocol"] != "tcp" {
		t.Errorf("detail %v", d)
	}
	if facts[0].Event.Bound != "upper" {
		t.Errorf("bound %q: the message comes after the commit", facts[0].Event.Bound)
	}
}
