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

// EventSources lists every source of events.
func EventSources() []EventFrom { return []EventFrom{FromHarness, FromClient, FromKube, FromProbe} }

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
	}
}
