package records

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/record"
)

// Exit is the arm that exits at once: TCP flows reset, UDP flows answered by the replacement.
func Exit() record.Record { return exit(0) }

func exit(jitter float64) record.Record {
	b := newBuilder("20261129T160000Z-exit", jitter)
	b.r.Config.Arm, b.r.Config.DrainWindowNs, b.r.Config.ForceRST = "exit", 0, true
	b.deleted(36)
	b.probe(36.1, record.ProbeForcedRST, map[string]any{"connections": 10})
	b.probe(36.4, record.ProbeExiting, map[string]any{record.DetailExitCode: 0})
	b.flows(10, record.TCP, record.Severed, record.RST, "read-error", "ECONNRESET", 37.1, 0.3)
	b.gone(212, 266, 0, "Completed")
	b.replaced(2310)
	b.flows(10, record.UDP, record.Rehomed, record.OtherInstance, "other-instance", "", 2391, 47)
	b.r.Notes = append(b.r.Notes, "The probe reset its connections itself (forced RST): the resets are the arm's doing, not the kernel's choice.")
	return b.done(8000)
}

// Drain is the arm that serves on for its window, announces the end and closes.
func Drain() record.Record { return drain(0) }

func drain(jitter float64) record.Record {
	b := newBuilder("20261129T160100Z-drain", jitter)
	b.deleted(38)
	b.probe(38.2, record.ProbeReadyFlipped, nil)
	b.probe(38.3, record.ProbeListenClosed, nil)
	b.probe(38.4, record.ProbeDrainBegan, nil)
	b.replaced(2330)
	b.flows(10, record.UDP, record.Rehomed, record.OtherInstance, "other-instance", "", 2410, 45)
	b.probe(25038, record.ProbeDrainEnded, nil)
	b.flows(10, record.TCP, record.Drained, record.AnnouncedFIN, "eof", "", 25038.6, 0.2)
	b.probe(25041, record.ProbeExiting, map[string]any{record.DetailExitCode: 0})
	b.gone(25260, 25312, 0, "Completed")
	return b.done(31000)
}

// Ignore is the arm that only SIGKILL ends.
func Ignore() record.Record { return ignore(0) }

func ignore(jitter float64) record.Record {
	b := newBuilder("20261129T160200Z-ignore", jitter)
	b.r.Config.Arm, b.r.Config.DrainWindowNs = "ignore", 0
	b.deleted(37)
	b.replaced(2350)
	b.flows(10, record.UDP, record.Rehomed, record.OtherInstance, "other-instance", "", 2400, 46)
	b.flows(10, record.TCP, record.Severed, record.FINMidMessage, "eof", "", 30055, 0.4)
	b.gone(30290, 30340, 137, "Error")
	return b.done(36000)
}

// Scale is the drain arm ended by scaling to zero: nothing takes the UDP flows over.
func Scale() record.Record { return scale(0) }

func scale(jitter float64) record.Record {
	b := newBuilder("20261129T160300Z-scale", jitter)
	b.scaled()
	return b.done(31000)
}

// scaled adds what a scale to zero leaves.
func (b *builder) scaled() {
	b.r.Config.Trigger = "scale"
	b.r.Trigger.Kind, b.r.Trigger.Subject = "scale", "deployment/probe"
	b.deleted(52)
	b.kube(9, record.WorkloadScaled, "workload/probe", "", map[string]any{"replicas": 0})
	b.probe(52.3, record.ProbeDrainBegan, nil)
	b.probe(25052, record.ProbeDrainEnded, nil)
	b.flows(10, record.TCP, record.Drained, record.AnnouncedFIN, "eof", "", 25052.5, 0.2)
	b.probe(25055, record.ProbeExiting, map[string]any{record.DetailExitCode: 0})
	b.gone(25230, 25290, 0, "Completed")
	b.flows(10, record.UDP, record.Severed, record.ICMPPort, "read-error", "ECONNREFUSED", 25075, 46)
}

// Survived is the control: nothing was terminated and nothing was lost.
func Survived() record.Record { return survived(0) }

func survived(jitter float64) record.Record {
	b := newBuilder("20261129T160400Z-none", jitter)
	b.r.Config.Trigger = "none"
	b.r.Trigger = &record.Trigger{Kind: "none", Subject: "pod/" + oldPod, At: b.r.Trigger.At, AtMonoNs: b.r.Trigger.AtMonoNs, AcceptedNs: new(int64(0))}
	b.flows(10, record.TCP, record.Survived, record.None, "window-closed", "", 0, 0)
	b.flows(10, record.UDP, record.Survived, record.None, "window-closed", "", 0, 0)
	return b.done(30000)
}

// Incomplete is a drain trial whose watch broke: the container's exit and the endpoint's end were not seen.
func Incomplete() record.Record {
	b := newBuilder("20261129T160500Z-incomplete", 0)
	b.deleted(38)
	b.probe(38.4, record.ProbeDrainBegan, nil)
	b.flows(4, record.TCP, record.Severed, record.RST, "read-error", "ECONNRESET", 4100, 3)
	b.flows(6, record.TCP, record.NotMeasured, record.WindowClosed, "window-closed", "", 4800, 0)
	b.flows(10, record.UDP, record.NotMeasured, record.WindowClosed, "window-closed", "", 4800, 0)
	b.r.Completeness = record.Incomplete
	b.r.Missing = []string{"source kube-watch ended early: the API server went away", "the container's exit was not seen"}
	r := b.done(5000)
	for i := range r.Sources {
		if r.Sources[i].Name == string(record.FromKube) {
			r.Sources[i].Ended = "the API server went away"
			r.Sources[i].Gaps = []record.Gap{{FromTNs: ns(2000), Why: "connection refused"}}
		}
	}
	return r
}

// Named lists all samples with the names of their files, in a fixed order.
func Named() []Sample {
	return []Sample{
		{"exit", Exit()}, {"drain", Drain()}, {"ignore", Ignore()}, {"scale", Scale()}, {"survived", Survived()}, {"incomplete", Incomplete()},
	}
}

// Sample is a record and a name for it.
type Sample struct {
	Name   string
	Record record.Record
}

// Matrix is a whole experiment, five arms by repeats, on a cluster of that proxy mode.
func Matrix(proxyMode string, repeats int) []record.Record {
	makers := []struct {
		arm   string
		build func(float64) record.Record
	}{{"exit", exit}, {"drain", drain}, {"ignore", ignore}, {"drain-scale", scale}, {"control", survived}}
	var arms []string
	for _, m := range makers {
		arms = append(arms, m.arm)
	}
	var all []record.Record
	for _, m := range makers {
		for i := range repeats {
			r := m.build(float64(i*i*3 - i*2)) // 0, 1, 8, 21, 40 ms
			r.ID = fmt.Sprintf("%s-%s-%d", r.ID, proxyMode, i+1)
			r.Environment.ProxyMode = &proxyMode
			r.Set = &record.Set{Experiment: "shutdown-matrix", ExperimentSha256: "77aa", Arms: arms, Arm: m.arm, Repeat: i + 1, Repeats: repeats}
			all = append(all, r)
		}
	}
	return all
}
