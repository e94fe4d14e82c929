package localcluster

import (
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

func TestDecide(t *testing.T) {
	want := Options{Name: "blue", Workers: 2, ProxyMode: ProxyIptables, Parts: parts.Options{Version: "v1.37.2"}}
	have := state{Name: "blue", Phase: PhaseRunning, BootID: "now", Workers: 2, ProxyMode: ProxyIptables, Version: "v1.37.2"}
	with := func(change func(*state)) *state { s := have; change(&s); return &s }
	dead := func(names ...string) (ps []process) {
		for _, n := range names {
			ps = append(ps, process{"blue-worker", n})
		}
		return ps
	}
	for name, c := range map[string]struct {
		have *state
		dead []process
		want action
	}{
		"nothing is there":                  {nil, nil, actCreate},
		"healthy":                           {&have, nil, actKeep},
		"a program died":                    {&have, dead(procKubelet, procEtcd), actRepair},
		"a holder died":                     {&have, dead(procKubelet, procNode), actRebuild},
		"half made":                         {with(func(s *state) { s.Phase = PhaseCreating }), nil, actRebuild},
		"from before a boot":                {with(func(s *state) { s.BootID = "then" }), nil, actRebuild},
		"half made with other options":      {with(func(s *state) { s.Phase, s.Workers = PhaseCreating, 1 }), nil, actRebuild},
		"from before a boot, other options": {with(func(s *state) { s.BootID, s.ProxyMode = "then", ProxyNftables }), nil, actRebuild},
	} {
		if got, err := decide(want, c.have, "now", c.dead); err != nil || got != c.want {
			t.Errorf("%s: action %v, error %v", name, got, err)
		}
	}
	for difference, s := range map[string]*state{
		"3 workers, not 2":                  with(func(s *state) { s.Workers = 3 }),
		"proxy mode nftables, not iptables": with(func(s *state) { s.ProxyMode = ProxyNftables }),
		"Kubernetes v1.34.4, not v1.37.2":   with(func(s *state) { s.Version = "v1.34.4" }),
	} {
		_, err := decide(want, s, "now", dead(procKubelet))
		if fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), difference) || !strings.Contains(fault.NextOf(err), "cluster down blue") {
			t.Errorf("%s: %v (%s)", difference, err, fault.NextOf(err))
		}
	}
}

func TestNormalize(t *testing.T) {
	o, err := Options{StateDir: "/nowhere/at/all"}.normalize()
	if err != nil || o.Name != DefaultName || o.Workers != 2 || o.ProxyMode != ProxyIptables || o.Parts.Version != parts.DefaultVersion || o.StateDir != "/nowhere/at/all" {
		t.Errorf("defaults are %+v, %v", o, err)
	}
	if o, err := (Options{Parts: parts.Options{Version: "1.34.4"}}).normalize(); err != nil || o.Parts.Version != "v1.34.4" {
		t.Errorf("version is %q, %v", o.Parts.Version, err)
	}
	if o, err := (Options{Parts: parts.Options{From: "./mine"}}).normalize(); err != nil || o.Parts.Version != "" {
		t.Errorf("a folder's version is not its own: %q, %v", o.Parts.Version, err)
	}
	for _, bad := range []Options{
		{Name: "Blue"}, {Name: "-a"}, {Name: "a.b"}, {Name: "../a"}, {Name: strings.Repeat("a", 41)},
		{Workers: -1}, {Workers: MaxWorkers + 1}, {ProxyMode: "ipvs"},
	} {
		if _, err := bad.normalize(); fault.CodeOf(err) != fault.Usage || fault.NextOf(err) == "" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
