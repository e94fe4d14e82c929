package record

// Event is one timestamped fact.
type Event struct {
	// ID counts from 1 in order of time, so that causes and windows can name it.
	ID int `json:"id"`
	// TNs is nanoseconds from the trigger, negative before it.
	TNs     int64     `json:"t_ns"`
	Source  EventFrom `json:"source"`
	Kind    EventKind `json:"kind"`
	Subject string    `json:"subject"`
	// UncertaintyNs bounds the clock's error; 0 on one kernel; null where no offset could be measured.
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	// Bound is upper for receipt times: the fact itself happened then or earlier.
	Bound  Bound  `json:"bound"`
	PodUID string `json:"pod_uid,omitempty"`
	Node   string `json:"node,omitempty"`
	// Detail holds raw values of this kind of event (exit code, errno, peer, condition).
	Detail map[string]any `json:"detail,omitempty"`
}

// EventFrom names a source of events.
type EventFrom string

const (
	FromHarness EventFrom = "harness"
	FromClient  EventFrom = "client"
	FromKube    EventFrom = "kube-watch"
	FromProbe   EventFrom = "probe"
	// A node's agent: what its kernel did, its connection tracking told, its data plane's rules said. Subject: node/NAME, or
	// what of a Pod it was. The node is in Node.
	FromKernel    EventFrom = "kernel"
	FromConntrack EventFrom = "conntrack"
	FromDataplane EventFrom = "dataplane"
)

// Bound says on which side of the recorded time the fact may lie.
type Bound string

const (
	Exact Bound = "exact"
	Upper Bound = "upper"
	Lower Bound = "lower"
	// Either is for windows only: one end pulls up, the other down.
	Either Bound = "either"
)

// AtNodes reports whether the source is a node's agent: evidence that adds to a trial, which is complete without it.
func (f EventFrom) AtNodes() bool { return f == FromKernel || f == FromConntrack || f == FromDataplane }

// EventSources lists every source of events.
func EventSources() []EventFrom {
	return []EventFrom{
		FromHarness, FromClient, FromKube, FromProbe, FromKernel, FromConntrack, FromDataplane,
	}
}

// Bounds lists every bound of an event; windows know Either too.
func Bounds() []Bound { return []Bound{Exact, Upper, Lower} }

// EventKind is a closed list: what can happen in a trial.
type EventKind string

const (
	// The harness.
	TriggerSent     EventKind = "trigger-sent"
	TriggerAccepted EventKind = "trigger-accepted"
	TriggerFailed   EventKind = "trigger-failed"
	ObserveEnded    EventKind = "observe-ended"
	Interrupted     EventKind = "interrupted"
	// ProcessKilled: the test itself sent SIGKILL. Subject: container/ID.
	ProcessKilled EventKind = "process-killed"

	// The client. Subject: flow/ID.
	FlowOpened    EventKind = "flow-opened"
	FlowAnnounced EventKind = "flow-announced"
	FlowRefused   EventKind = "flow-refused" // an ICMP error; the flow may live on
	FlowRehomed   EventKind = "flow-rehomed"
	FlowEnded     EventKind = "flow-ended"

	// Kubernetes' watch. Subject: pod/NAME, endpoint/POD, workload/NAME or container/POD/NAME.
	PodAdded            EventKind = "pod-added"
	PodScheduled        EventKind = "pod-scheduled"
	PodReady            EventKind = "pod-ready"
	PodNotReady         EventKind = "pod-not-ready"
	PodTerminating      EventKind = "pod-terminating"
	PodRemoved          EventKind = "pod-removed"
	ContainerStarted    EventKind = "container-started"
	ContainerExited     EventKind = "container-exited"
	KubeletKilling      EventKind = "kubelet-killing"
	EndpointAdded       EventKind = "endpoint-added"
	EndpointReady       EventKind = "endpoint-ready"
	EndpointNotReady    EventKind = "endpoint-not-ready"
	EndpointTerminating EventKind = "endpoint-terminating"
	EndpointServing     EventKind = "endpoint-serving"
	EndpointNotServing  EventKind = "endpoint-not-serving"
	EndpointRemoved     EventKind = "endpoint-removed"
	WorkloadScaled      EventKind = "workload-scaled"

	// The probe's own log. Subject: pod/NAME.
	ProbeStarting     EventKind = "probe-starting" // it lives, and does not listen yet
	ProbeStarted      EventKind = "probe-started"
	ProbeHookDrain    EventKind = "probe-hook-drain" // its preStop hook called /drain
	ProbeSigterm      EventKind = "probe-sigterm"
	ProbeReadyFlipped EventKind = "probe-readiness-flipped"
	ProbeListenClosed EventKind = "probe-listener-closed"
	ProbeDrainBegan   EventKind = "probe-drain-began"
	ProbeDrainEnded   EventKind = "probe-drain-ended"
	ProbeForcedRST    EventKind = "probe-forced-rst"
	ProbeExiting      EventKind = "probe-exiting"
	// A slow request, by the server's own account.
	ProbeRequestAccepted EventKind = "probe-request-accepted"
	ProbeRequestDone     EventKind = "probe-request-done"

	// The kernel of a node. Subject: container/POD/NAME for a process, pod/NAME for a socket or packet in a Pod's network namespace, node/NAME else.
	// SignalSent: detail signal (a number) and signal_name, result (delivered, ignored, already-pending), sender_pid, sender_comm, from_kernel,
	// first_process. ProcessExited: exit_code, signal and signal_name, comm, first_process.
	SignalSent    EventKind = "signal-sent"
	ProcessExited EventKind = "process-exited"
	// Detail address, the one listened on, with its port; protocol.
	ListenerOpened EventKind = "listener-opened"
	ListenerClosed EventKind = "listener-closed"
	// A connection's end at the server. Detail local, remote, how: fin (the server sent its FIN first), reset, or answered-fin.
	SocketClosed EventKind = "socket-closed"
	// A reset that left or reached a namespace. Detail local, remote; for one that left, socket: whether one was there, by_rule: a rule
	// of the node sent it, reason: the kernel's own name for why.
	ResetSent     EventKind = "reset-sent"
	ResetReceived EventKind = "reset-received"
	// An ICMP error. Detail type, code, to, and protocol, source, destination of the packet that it is about.
	ICMPSent EventKind = "icmp-sent"

	// A node's connection tracking, for connections under test. Detail protocol, original_source, original_destination, reply_source,
	// reply_destination; deleted: by_comm, by_pid and by, one of process, timeout, kernel.
	ConntrackNew     EventKind = "conntrack-new"
	ConntrackUpdated EventKind = "conntrack-updated"
	ConntrackDeleted EventKind = "conntrack-deleted"

	// A node's rules for new connections to a Service. Subject: endpoint/POD. Detail front, backend, proxy, by_comm, by_pid; and not_before_t_ns,
	// the last time at which it was still otherwise.
	RuleAdded   EventKind = "rule-added"
	RuleRemoved EventKind = "rule-removed"
	// A front without any endpoint: its connections are rejected or dropped from here on, or no more. Subject: node/NAME. Detail front, verdict.
	RuleRejects       EventKind = "rule-rejects"
	RuleRejectRemoved EventKind = "rule-reject-removed"
)

// EventKinds lists every kind, in the order of this file.
func EventKinds() []EventKind {
	return []EventKind{
		TriggerSent, TriggerAccepted, TriggerFailed, ObserveEnded, Interrupted, ProcessKilled,
		FlowOpened, FlowAnnounced, FlowRefused, FlowRehomed, FlowEnded,
		PodAdded, PodScheduled, PodReady, PodNotReady, PodTerminating, PodRemoved, ContainerStarted, ContainerExited, KubeletKilling,
		EndpointAdded, EndpointReady, EndpointNotReady, EndpointTerminating, EndpointServing, EndpointNotServing, EndpointRemoved, WorkloadScaled,
		ProbeStarting, ProbeStarted, ProbeHookDrain, ProbeSigterm, ProbeReadyFlipped, ProbeListenClosed, ProbeDrainBegan, ProbeDrainEnded, ProbeForcedRST, ProbeExiting,
		ProbeRequestAccepted, ProbeRequestDone,
		SignalSent, ProcessExited, ListenerOpened, ListenerClosed, SocketClosed, ResetSent, ResetReceived, ICMPSent,
		ConntrackNew, ConntrackUpdated, ConntrackDeleted, RuleAdded, RuleRemoved, RuleRejects, RuleRejectRemoved,
	}
}
