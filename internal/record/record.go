package record

import (
	"fmt"
	"time"
)

// Schema names the format of a record; readers refuse what they do not know.
const Schema = "drainproof.dev/record/v1"

// FileName is the name of a record inside the folder of its trial.
const FileName = "record.json"

// Record is everything that one trial leaves.
type Record struct {
	Schema string `json:"schema"`
	// ID is unique per trial: UTC start and random suffix.
	ID          string      `json:"id"`
	StartedAt   time.Time   `json:"started_at"`
	Tool        Tool        `json:"tool"`
	Environment Environment `json:"environment"`
	// Config is what was asked for, every flag with its final value.
	Config Config `json:"config"`
	// Set places the trial in an experiment; null for a single run.
	Set *Set `json:"set"`
	// Trigger is null where the trial ended before it.
	Trigger *Trigger `json:"trigger"`
	Events  []Event  `json:"events"`
	Flows   []Flow   `json:"flows"`
	// Requests, Users, Failures, Latency and Verdict are what `drainproof test` adds; absent where no requests were
	// sent. Failures is an empty list where requests were sent and none failed.
	Requests *Requests `json:"requests,omitempty"`
	Users    *Users    `json:"users,omitempty"`
	Failures []Failure `json:"failures,omitzero"`
	Latency  *Latency  `json:"latency,omitempty"`
	Verdict  *Verdict  `json:"verdict,omitempty"`
	// Workload is what was ended under traffic; absent for a trial of flows.
	Workload *Workload `json:"workload,omitempty"`
	Summary  Summary   `json:"summary"`
	Windows  []Window  `json:"windows"`
	// Terminations say how each Pod that was ended came to its end, in order of time; absent where none was.
	Terminations []Termination `json:"terminations,omitempty"`
	Clocks       []Clock       `json:"clocks"`
	Sources      []Source      `json:"sources"`
	// Agents say what each node's kernel evidence covers; absent where no agent was asked.
	Agents []Agent `json:"agents,omitempty"`
	// Client says whether the instrument itself kept up; null before traffic began.
	Client *ClientHealth `json:"client"`
	// Notes are plain sentences: what the harness caused itself, what a reader must know.
	Notes        []string     `json:"notes"`
	Completeness Completeness `json:"completeness"`
	// Missing says what an incomplete record lacks and why; empty when complete.
	Missing []string `json:"missing"`
}

// Completeness says whether the trial ran to its end with every source alive.
type Completeness string

const (
	Complete   Completeness = "complete"
	Incomplete Completeness = "incomplete"
)

// Completenesses lists both.
func Completenesses() []Completeness { return []Completeness{Complete, Incomplete} }

// Tool is the program that measured.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Sha256 is the digest of the executable: one frozen binary per set.
	Sha256 string `json:"sha256"`
	Go     string `json:"go"`
}

// Environment is where it was measured.
type Environment struct {
	// Kubernetes is the API server's version, such as v1.37.2.
	Kubernetes string `json:"kubernetes"`
	// ProxyMode is the data plane's mode (iptables, nftables, ipvs ...); null where it could not be read.
	ProxyMode *string `json:"proxy_mode"`
	// ProxyModeFrom says where ProxyMode was read.
	ProxyModeFrom string `json:"proxy_mode_from"`
	// Cluster is the name of a local cluster, Context that of a kubeconfig's context; one is empty.
	Cluster string `json:"cluster"`
	Context string `json:"context"`
	// ClusterUID is the UID of the namespace kube-system: it names this very cluster.
	ClusterUID   string `json:"cluster_uid"`
	Namespace    string `json:"namespace"`
	NamespaceUID string `json:"namespace_uid"`
	Image        string `json:"image"`
	// ImageID is what the kubelet says it ran; null before the probe ran.
	ImageID *string `json:"image_id"`
	Nodes   []Node  `json:"nodes"`
	// Kernel, CPUs, OS and Arch are those of the machine that ran the tool.
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	BootID string `json:"boot_id"`
}

// Node is one node of the cluster, as its API object describes it.
type Node struct {
	Name             string `json:"name"`
	Kubelet          string `json:"kubelet"`
	Kernel           string `json:"kernel"`
	ContainerRuntime string `json:"container_runtime"`
	OSImage          string `json:"os_image"`
	BootID           string `json:"boot_id"`
}

// Config is the trial's request. Durations are nanoseconds.
type Config struct {
	Arm              string  `json:"arm"`
	Trigger          string  `json:"trigger"`
	ForceRST         bool    `json:"force_rst"`
	GraceNs          int64   `json:"grace_ns"`
	DrainWindowNs    int64   `json:"drain_window_ns"`
	ReadinessOnTerm  string  `json:"readiness_on_term"`
	PreStopSleepNs   int64   `json:"pre_stop_sleep_ns"`
	TCP              int     `json:"tcp"`
	UDP              int     `json:"udp"`
	Path             string  `json:"path"`
	Vantage          string  `json:"vantage"`
	HeartbeatNs      int64   `json:"heartbeat_ns"`
	ReadTimeoutNs    int64   `json:"read_timeout_ns"`
	SettleNs         int64   `json:"settle_ns"`
	ObserveNs        int64   `json:"observe_ns"`
	ReadinessEveryNs int64   `json:"readiness_every_ns"`
	ExitCode         int     `json:"exit_code"`
	Namespace        *string `json:"namespace"`
	Image            string  `json:"image"`
	// Traffic is what the clients sent where they sent requests; absent for flows alone.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Probe is how an experiment deploys the bundled workload for requests; absent otherwise.
	Probe *ProbeConfig `json:"probe,omitempty"`
}

// ProbeConfig is the bundled workload as an experiment with requests deploys it.
type ProbeConfig struct {
	Replicas int `json:"replicas"`
	// Strategy is RollingUpdate or Recreate; MaxUnavailable and MaxSurge are as Kubernetes writes them, empty for its defaults.
	Strategy       string `json:"strategy"`
	MaxUnavailable string `json:"max_unavailable"`
	MaxSurge       string `json:"max_surge"`
	// BudgetMinAvailable makes a PodDisruptionBudget; null for none.
	BudgetMinAvailable *int `json:"budget_min_available"`
	// StartDelayNs is how long the probe waits before it listens.
	StartDelayNs int64 `json:"start_delay_ns"`
	// NoReadinessProbe leaves the readiness probe out.
	NoReadinessProbe bool `json:"no_readiness_probe"`
	// DrainHookNs makes a preStop exec hook that calls /drain and then sleeps that long; -1 for no such hook.
	DrainHookNs int64 `json:"drain_hook_ns"`
	// Announce: a finishing server announces its end on kept connections (Connection: close, GOAWAY, WebSocket close).
	Announce bool `json:"announce"`
}

// Set places a trial in an experiment: which arm, which repeat.
type Set struct {
	Experiment string `json:"experiment"`
	// ExperimentSha256 is the digest of the experiment file as it was read.
	ExperimentSha256 string `json:"experiment_sha256"`
	// Arms are the names of all arms of the experiment, in its order, so that a missing one is noticed.
	Arms []string `json:"arms"`
	Arm  string   `json:"arm"`
	// Repeat counts from 1; Repeats is how many the experiment asks for.
	Repeat  int `json:"repeat"`
	Repeats int `json:"repeats"`
}

// Trigger is what ended the workload, and the zero of the record's time.
type Trigger struct {
	Kind string `json:"kind"`
	// Subject is the object it acted on, such as pod/probe-7d9 or deployment/probe.
	Subject string `json:"subject"`
	// At is the wall time of t_ns = 0, the instant just before the request was sent.
	At         time.Time `json:"at"`
	AtMonoNs   int64     `json:"at_mono_ns"`
	AcceptedNs *int64    `json:"accepted_t_ns"`
}

// Clock is one process whose clock took part, and how it was tied to ours.
type Clock struct {
	// Name is harness, client or probe/POD.
	Name   string `json:"name"`
	BootID string `json:"boot_id"`
	// OffsetNs was subtracted from its readings; null where it could not be measured.
	OffsetNs      *int64 `json:"offset_ns"`
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	Samples       int    `json:"samples"`
	// Method is same-kernel, round-trips or none.
	Method string `json:"method"`
}

// Source is the proof of life of one source of events, written even when all is well.
type Source struct {
	Name string `json:"name"`
	// Events is how many it gave.
	Events int `json:"events"`
	// Gaps are the times it was known not to be listening (a watch re-opened, a log cut).
	Gaps []Gap `json:"gaps"`
	// Ended says why it ended before the trial did; empty when it did not.
	Ended string `json:"ended"`
}

// Troubles says of sources that were not listening all the time what a record is to tell. What a trial lacks without it is missing; a node's
// agent only adds to a trial, so that its troubles are notes: what needs it is unattributed.
func Troubles(sources []Source) (missing, notes []string) {
	for _, s := range sources {
		to := &missing
		if EventFrom(s.Name).AtNodes() {
			to = &notes
		}
		for _, g := range s.Gaps {
			*to = append(*to, fmt.Sprintf("source %s was not listening for a time: %s", s.Name, g.Why))
		}
		if s.Ended != "" {
			*to = append(*to, fmt.Sprintf("source %s ended early: %s", s.Name, s.Ended))
		}
	}
	return missing, notes
}

// Gap is an interval in which a source may have missed events.
type Gap struct {
	FromTNs int64  `json:"from_t_ns"`
	ToTNs   *int64 `json:"to_t_ns"`
	Why     string `json:"why"`
}

// ClientHealth tells whether the client itself kept up (rule of evidence 4).
type ClientHealth struct {
	// HeartbeatsSent and Answered count over all flows.
	HeartbeatsSent     uint64 `json:"heartbeats_sent"`
	HeartbeatsAnswered uint64 `json:"heartbeats_answered"`
	// LateP999Ns and LateMaxNs say how long after its planned time a heartbeat left.
	LateP999Ns int64 `json:"late_p999_ns"`
	LateMaxNs  int64 `json:"late_max_ns"`
	// Limits are the client's own failures (EMFILE, EADDRNOTAVAIL ...), by errno.
	Limits map[string]int `json:"limits"`
	// FellBehind: lateness or limits were large enough to excuse no workload and blame none.
	FellBehind bool `json:"fell_behind"`
}

// Summary holds counts; the flows hold the truth.
type Summary struct {
	// TCP and UDP count flows per outcome; outcomes that did not occur are absent.
	TCP map[Outcome]int `json:"tcp"`
	UDP map[Outcome]int `json:"udp"`
	// ContainerExitCode is that of the probe's container; null where it was not seen.
	ContainerExitCode *int `json:"container_exit_code"`
	// ContainerExitReason is Kubernetes' word for it (Completed, Error, OOMKilled).
	ContainerExitReason *string `json:"container_exit_reason"`
}

// Window is an interval derived from events of this trial alone.
type Window struct {
	Name string `json:"name"`
	// Ns is its length, which may be negative where the order was the other way; null where an end was not observed.
	Ns *int64 `json:"ns"`
	// FromEvent and ToEvent are ids of events; 0 where that end was not observed.
	FromEvent int `json:"from_event"`
	ToEvent   int `json:"to_event"`
	// UncertaintyNs adds up the clocks' bounds of both ends.
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	// Bound is upper or lower where an end is a receipt time, either where the two pull apart.
	Bound Bound `json:"bound"`
	// Why is null's reason; empty otherwise.
	Why string `json:"why"`
}
