// Package records makes records of trials that never took place, for tests of
// what reads them. Times and names are those of a usual run, but nobody measured them.
//
// No program imports it, only tests do.
package records

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/drainproof/drainproof/internal/record"
)

const (
	oldPod, oldUID = "probe-7c9f6d5b8-4xk2p", "3f6b1c52-0a41-4c5e-9d3e-6f1f0c7a9b10"
	newPod, newUID = "probe-7c9f6d5b8-q8zrm", "a81d7e04-53c9-4b0e-8a6f-2e4b7f90cd22"
	oldNode        = "demo-worker"
	newNode        = "demo-worker2"
)

// builder collects one trial; times are milliseconds from the trigger.
type builder struct {
	r record.Record
	// jitter is added to every time after the trigger, so that repeats differ.
	jitter float64
	// nodes holds the node of each Pod, by UID.
	nodes map[string]string
	// workload is the subject of what is about all of it.
	workload string
}

func ns(ms float64) int64 { return int64(math.Round(ms * 1e6)) }

func newBuilder(id string, jitterMs float64) *builder {
	at := time.Date(2026, 11, 29, 16, 0, 0, 0, time.UTC)
	mode, image := "iptables", "drainproof.local/probe@sha256:4d0c"
	b := &builder{jitter: jitterMs, nodes: map[string]string{oldUID: oldNode, newUID: newNode}, workload: "workload/probe"}
	b.r = record.Record{
		Schema: record.Schema, ID: id, StartedAt: at,
		Tool: record.Tool{Name: "drainproof", Version: "v0.1.0", Sha256: "5d1f0e7c", Go: "go1.26.8"},
		Environment: record.Environment{
			Kubernetes: "v1.37.2", ProxyMode: &mode, ProxyModeFrom: "kube-proxy's /proxyMode", Cluster: "demo",
			ClusterUID: "9f3e", Namespace: "drainproof-k3v9", NamespaceUID: "71ab", Image: "drainproof.local/probe:v0.1.0", ImageID: &image,
			Nodes: []record.Node{
				{Name: "demo-control-plane", Kubelet: "v1.37.2", Kernel: "6.18.44", ContainerRuntime: "containerd://1.6.20", OSImage: "Debian", BootID: "b00t"},
				{Name: oldNode, Kubelet: "v1.37.2", Kernel: "6.18.44", ContainerRuntime: "containerd://1.6.20", OSImage: "Debian", BootID: "b00t"},
				{Name: newNode, Kubelet: "v1.37.2", Kernel: "6.18.44", ContainerRuntime: "containerd://1.6.20", OSImage: "Debian", BootID: "b00t"},
			},
			Kernel: "6.18.44", CPUs: 2, OS: "linux", Arch: "amd64", BootID: "b00t",
		},
		Config: record.Config{
			Arm: "drain", Trigger: "delete", GraceNs: ns(30e3), DrainWindowNs: ns(25e3), ReadinessOnTerm: "fail", TCP: 10, UDP: 10,
			Path: "clusterip", Vantage: "host", HeartbeatNs: ns(500), ReadTimeoutNs: ns(3e3), SettleNs: ns(5e3), ObserveNs: ns(45e3),
			ReadinessEveryNs: ns(1e3), Image: "drainproof.local/probe:v0.1.0",
		},
		Trigger: &record.Trigger{Kind: "delete", Subject: "pod/" + oldPod, At: at.Add(12 * time.Second), AtMonoNs: 88_000_000_000, AcceptedNs: new(ns(6.2))},
		Events:  []record.Event{}, Flows: []record.Flow{}, Notes: []string{}, Missing: []string{},
		Clocks:       []record.Clock{{Name: "harness", BootID: "b00t", OffsetNs: new(int64(0)), UncertaintyNs: new(int64(0)), Method: "same-kernel"}},
		Client:       &record.ClientHealth{LateP999Ns: 410_000, LateMaxNs: 1_900_000, Limits: map[string]int{}},
		Completeness: record.Complete,
	}
	b.kube(-9800, record.PodAdded, "pod/"+oldPod, oldUID, nil)
	b.kube(-7100, record.ContainerStarted, "container/"+oldPod+"/probe", oldUID, nil)
	b.probe(-7050, record.ProbeStarted, nil)
	b.kube(-6020, record.PodReady, "pod/"+oldPod, oldUID, nil)
	b.kube(-5990, record.EndpointReady, "endpoint/"+oldPod, oldUID, nil)
	b.event(0, record.FromHarness, record.TriggerSent, "pod/"+oldPod, record.Exact, "", map[string]any{"kind": "delete"})
	b.event(6.2, record.FromHarness, record.TriggerAccepted, "pod/"+oldPod, record.Exact, "", nil)
	return b
}

func (b *builder) event(ms float64, from record.EventFrom, kind record.EventKind, subject string, bound record.Bound, uid string, detail map[string]any) {
	if ms > 10 {
		ms += b.jitter
	}
	b.r.Events = append(b.r.Events, record.Event{
		TNs: ns(ms), Source: from, Kind: kind, Subject: subject, UncertaintyNs: new(int64(0)), Bound: bound, PodUID: uid, Node: b.nodes[uid], Detail: detail,
	})
}

func (b *builder) kube(ms float64, kind record.EventKind, subject, uid string, detail map[string]any) {
	b.event(ms, record.FromKube, kind, subject, record.Upper, uid, detail)
}

func (b *builder) probe(ms float64, kind record.EventKind, detail map[string]any) {
	b.event(ms, record.FromProbe, kind, "pod/"+oldPod, record.Exact, oldUID, detail)
}

// deleted adds what the API and the probe show when the Pod is deleted.
func (b *builder) deleted(sigtermMs float64) {
	b.kube(7.9, record.PodTerminating, "pod/"+oldPod, oldUID, map[string]any{"grace_seconds": int64(b.r.Config.GraceNs / 1e9)})
	b.kube(19, record.EndpointTerminating, "endpoint/"+oldPod, oldUID, nil)
	b.kube(19, record.EndpointNotReady, "endpoint/"+oldPod, oldUID, nil)
	b.probe(sigtermMs, record.ProbeSigterm, nil)
}

// gone adds the container's exit and the removal of Pod and endpoint.
func (b *builder) gone(exitMs, removedMs float64, code int, reason string) {
	b.kube(exitMs, record.ContainerExited, "container/"+oldPod+"/probe", oldUID, map[string]any{record.DetailExitCode: code, record.DetailReason: reason})
	b.kube(removedMs, record.EndpointRemoved, "endpoint/"+oldPod, oldUID, nil)
	b.kube(removedMs+4, record.PodRemoved, "pod/"+oldPod, oldUID, nil)
}

// replaced adds the new Pod that the Deployment makes.
func (b *builder) replaced(readyMs float64) {
	b.kube(14, record.PodAdded, "pod/"+newPod, newUID, nil)
	b.kube(readyMs-1100, record.ContainerStarted, "container/"+newPod+"/probe", newUID, nil)
	b.kube(readyMs, record.PodReady, "pod/"+newPod, newUID, nil)
	b.kube(readyMs+20, record.EndpointReady, "endpoint/"+newPod, newUID, nil)
}

// flows adds n flows of one fate, the first ending at endMs, the others stepMs later each.
func (b *builder) flows(n int, p record.Protocol, o record.Outcome, m record.Mechanism, raw, errno string, endMs, stepMs float64) {
	for range n {
		k := len(b.r.Flows) + 1
		f := record.Flow{
			ID: fmt.Sprintf("%s-%02d", p, count(b.r.Flows, p)+1), Protocol: p, Outcome: o, Mechanism: m, OpenedTNs: new(ns(-5500 + float64(k)*3)),
			UncertaintyNs: new(int64(0)), FirstInstance: new(oldPod), LastInstance: new(oldPod), FirstPodUID: new(oldUID), LastPodUID: new(oldUID),
			LastSeq: new(uint64(12 + max(0, endMs)/500)), Sent: 13 + uint64(max(0, endMs)/500), Answered: 12 + uint64(max(0, endMs)/500),
			Local: fmt.Sprintf("198.18.0.1:%d", 40100+k), Remote: "198.18.64.17:7001",
			Detail: record.FlowDetail{End: raw, Errno: errno, Promised: p == record.TCP, Announced: o == record.Drained},
		}
		if p == record.UDP {
			f.Remote = "198.18.64.17:7002"
		}
		subject := "flow/" + f.ID
		b.event(f0(f.OpenedTNs), record.FromClient, record.FlowOpened, subject, record.Exact, oldUID, nil)
		switch o {
		case record.Survived:
		case record.Rehomed:
			f.LastInstance, f.LastPodUID, f.AfterRehome = new(newPod), new(newUID), &record.AfterRehome{}
			b.event(endMs, record.FromClient, record.FlowRehomed, subject, record.Upper, newUID, nil)
			f.EndedTNs = &b.r.Events[len(b.r.Events)-1].TNs
		default:
			bound := record.Exact
			if p == record.UDP {
				bound = record.Upper // noticed at the next heartbeat
			}
			b.event(endMs, record.FromClient, record.FlowEnded, subject, bound, oldUID, nil)
			f.EndedTNs = &b.r.Events[len(b.r.Events)-1].TNs
		}
		if f.EndedTNs != nil {
			f.EndedTNs, f.EndedAfterTNs = new(*f.EndedTNs), new(*f.EndedTNs-ns(137))
		}
		if m == record.ICMPPort {
			f.Detail.ICMP = &record.ICMP{From: "198.18.0.3", Type: 3, Code: 3}
		}
		b.r.Flows = append(b.r.Flows, f)
		endMs += stepMs
	}
}

func f0(t *int64) float64 { return float64(*t) / 1e6 }

func count(flows []record.Flow, p record.Protocol) (n int) {
	for _, f := range flows {
		if f.Protocol == p {
			n++
		}
	}
	return n
}

// done orders and numbers the events and derives the rest.
func (b *builder) done(observeMs float64) record.Record {
	b.event(observeMs, record.FromHarness, record.ObserveEnded, b.workload, record.Exact, "", nil)
	slices.SortStableFunc(b.r.Events, func(x, y record.Event) int { return cmp.Compare(x.TNs, y.TNs) })
	bySource := map[record.EventFrom]int{}
	for i := range b.r.Events {
		b.r.Events[i].ID = i + 1
		bySource[b.r.Events[i].Source]++
	}
	for _, s := range record.EventSources() {
		if bySource[s] == 0 && s.AtNodes() {
			continue // no agent was there
		}
		b.r.Sources = append(b.r.Sources, record.Source{Name: string(s), Events: bySource[s], Gaps: []record.Gap{}})
	}
	for _, f := range b.r.Flows {
		b.r.Client.HeartbeatsSent += f.Sent
		b.r.Client.HeartbeatsAnswered += f.Answered
	}
	record.Derive(&b.r)
	return b.r
}
