package trial

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// requests is a valid trial of requests, changed by edit.
func requests(edit func(*record.Config)) record.Config {
	c := Defaults()
	c.TCP, c.UDP = 0, 0
	c.Arm, c.Trigger = "finish", "rollout"
	c.Traffic, c.Probe = new(DefaultTraffic()), new(DefaultProbe())
	edit(&c)
	return Complete(c)
}

func TestRequestsAreCompleted(t *testing.T) {
	for _, c := range []struct {
		mode, trigger, method, expect, waitFor, path string
	}{
		{"new-connection", "rollout", "GET", "2xx", "rolled-out", "/"},
		{"keep-alive", "delete", "GET", "2xx", "ready", "/"},
		{"http2", "none", "GET", "2xx", "none", "/"},
		{"grpc", "drain", "POST", "0", "ready", "/grpc.health.v1.Health/Check"},
		{"grpc-stream", "kill", "POST", "0", "ready", "/grpc.health.v1.Health/Watch"},
		{"websocket", "force-delete", "GET", "2xx", "ready", "/ws"},
	} {
		got := requests(func(r *record.Config) { r.Traffic.Mode, r.Trigger = c.mode, c.trigger })
		tr := got.Traffic
		if tr.Method != c.method || tr.Expect != c.expect || tr.WaitFor != c.waitFor || DefaultPath(c.mode) != c.path {
			t.Errorf("%s, %s: %s %s expects %s, waits for %s", c.mode, c.trigger, tr.Method, DefaultPath(c.mode), tr.Expect, tr.WaitFor)
		}
		if err := Validate(got); err != nil {
			t.Errorf("%s, %s: %v", c.mode, c.trigger, err)
		}
		if err := ValidatePath(c.mode, c.path); err != nil {
			t.Errorf("%s: %v", c.mode, err)
		}
	}
	given := requests(func(r *record.Config) {
		r.Traffic.Method, r.Traffic.Expect, r.Traffic.WaitFor = "HEAD", "204", "gone"
	}).Traffic
	if given.Method != "HEAD" || given.Expect != "204" || given.WaitFor != "gone" {
		t.Errorf("what was given became %+v", given)
	}
}

// Complete gives a copy: an arm's configuration is not shared with the caller's.
func TestCompleteLeavesTheCallersTraffic(t *testing.T) {
	c := Defaults()
	c.Traffic = new(DefaultTraffic())
	if Complete(c); c.Traffic.WaitFor != "" {
		t.Errorf("the caller's traffic waits for %s", c.Traffic.WaitFor)
	}
}

func TestRequestsThatCannotBeMeasured(t *testing.T) {
	traffic := func(edit func(*record.Traffic)) func(*record.Config) {
		return func(c *record.Config) { edit(c.Traffic) }
	}
	probe := func(edit func(*record.ProbeConfig)) func(*record.Config) {
		return func(c *record.Config) { edit(c.Probe) }
	}
	for _, c := range []struct {
		edit func(*record.Config)
		want string
	}{
		{func(c *record.Config) { c.TCP = 3 }, "tcp 3 and udp 0"},
		{func(c *record.Config) { c.Traffic = nil; c.Arm, c.Trigger, c.TCP = "drain", "delete", 1 }, "probe: "},
		{func(c *record.Config) { c.Arm = "finnish" }, `--arm "finnish"`},
		{func(c *record.Config) { c.Trigger = "reboot" }, `--trigger "reboot"`},
		{traffic(func(r *record.Traffic) { r.Mode = "http3" }), `mode of requests "http3"`},
		{traffic(func(r *record.Traffic) { r.Mode = "tcp" }), "mode of requests tcp"},
		{traffic(func(r *record.Traffic) { r.Rate = 0 }), "rate 0"},
		{traffic(func(r *record.Traffic) { r.Rate = 20_000.5 }), "rate 20000.5"},
		{traffic(func(r *record.Traffic) { r.Rate = math.NaN() }), "rate NaN"},
		{traffic(func(r *record.Traffic) { r.Users = 0 }), "number of users 0"},
		{traffic(func(r *record.Traffic) { r.Users = 100_001 }), "number of users 100001"},
		{traffic(func(r *record.Traffic) { r.Workers = 0 }), "number of clients 0"},
		{traffic(func(r *record.Traffic) { r.TriggerCount = -1 }), "to end -1"},
		{traffic(func(r *record.Traffic) { r.WaitFor = "tea" }), `condition to wait for "tea"`},
		{traffic(func(r *record.Traffic) { r.WaitNs = 0 }), "the disruption's end 0s"},
		{traffic(func(r *record.Traffic) { r.BeforeNs = 0 }), "before the trigger 0s"},
		{traffic(func(r *record.Traffic) { r.AfterNs = -1 }), "after the disruption -1ns"},
		{traffic(func(r *record.Traffic) { r.DNSNs = 0 }), "finding the address 0s"},
		{traffic(func(r *record.Traffic) { r.ConnectNs = 0 }), "connecting 0s"},
		{traffic(func(r *record.Traffic) { r.TLSNs = 0 }), "TLS handshake 0s"},
		{traffic(func(r *record.Traffic) { r.FirstByteNs = int64(time.Hour) }), "first byte 1h0m0s"},
		{traffic(func(r *record.Traffic) { r.WholeNs = 0 }), "whole request 0s"},
		{traffic(func(r *record.Traffic) { r.Method = "GET /" }), `method "GET /"`},
		{traffic(func(r *record.Traffic) { r.Expect = "2xx,many" }), `"many"`},
		{probe(func(p *record.ProbeConfig) { p.Replicas = 0 }), "replicas 0"},
		{probe(func(p *record.ProbeConfig) { p.Strategy = "BlueGreen" }), `strategy "BlueGreen"`},
		{probe(func(p *record.ProbeConfig) { p.MaxSurge = "101%" }), `maxSurge "101%"`},
		{probe(func(p *record.ProbeConfig) { p.MaxSurge = "00" }), `maxSurge "00"`},
		{probe(func(p *record.ProbeConfig) { p.MaxUnavailable = "-1" }), `maxUnavailable "-1"`},
		{probe(func(p *record.ProbeConfig) { p.MaxUnavailable, p.MaxSurge = "0", "0%" }), "no Pod could ever be replaced"},
		{probe(func(p *record.ProbeConfig) { p.Strategy, p.MaxSurge = "Recreate", "1" }), "Recreate excludes"},
		{probe(func(p *record.ProbeConfig) { p.BudgetMinAvailable = new(-1) }), "budgetMinAvailable -1"},
		{probe(func(p *record.ProbeConfig) { p.StartDelayNs = -1 }), "startDelay -1ns"},
		{probe(func(p *record.ProbeConfig) { p.DrainHookNs = int64(time.Minute) }), "drainHook 1m0s is longer than grace 30s"},
		{func(c *record.Config) { c.Probe.DrainHookNs, c.PreStopSleepNs = 0, int64(time.Second) }, "drainHook excludes preStopSleep"},
	} {
		err := Validate(requests(c.edit))
		if fault.CodeOf(err) != fault.Usage || err == nil || !strings.Contains(err.Error(), c.want) || fault.NextOf(err) == "" {
			t.Errorf("want %q: %v; next: %q", c.want, err, fault.NextOf(err))
		}
	}
}

// What only requests know stays unknown to flows.
func TestFlowsKnowNoRequests(t *testing.T) {
	for _, edit := range []func(*record.Config){
		func(c *record.Config) { c.Arm = "finish" },
		func(c *record.Config) { c.Trigger = "rollout" },
	} {
		c := Defaults()
		edit(&c)
		if err := Validate(Complete(c)); fault.CodeOf(err) != fault.Usage {
			t.Errorf("arm %s, trigger %s: %v", c.Arm, c.Trigger, err)
		}
	}
}

func TestParseExpect(t *testing.T) {
	type ranges = []request.StatusRange
	for _, c := range []struct {
		mode request.Mode
		text string
		want ranges
	}{
		{"http2", "2xx", ranges{{From: 200, To: 299}}},
		{"http2", " 2XX, 301 ,404-410", ranges{{From: 200, To: 299}, {From: 301, To: 301}, {From: 404, To: 410}}},
		{"grpc", "0,12-14", ranges{{From: 0, To: 0}, {From: 12, To: 14}}},
		{"http2", "0", nil}, {"http2", "", nil}, {"http2", "2xx,", nil}, {"http2", "xx", nil}, {"http2", "-xx", nil}, {"http2", "300-200", nil}, {"http2", "200-", nil},
		{"grpc", "2xx", nil}, {"grpc", "17", nil}, {"grpc", "-1", nil},
	} {
		got, err := ParseExpect(c.mode, c.text)
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.want != nil) {
			t.Errorf("%s %q: %v, %v", c.mode, c.text, got, err)
		}
	}
}

func TestPathsThatAreNone(t *testing.T) {
	for mode, path := range map[string]string{"keep-alive": "slow", "http2": "/a b", "websocket": "/ws#top", "new-connection": "/é", "grpc": "/", "grpc-stream": "/a/b/c"} {
		if err := ValidatePath(mode, path); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s %s: %v", mode, path, err)
		}
	}
}
