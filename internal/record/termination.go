package record

// Termination is how one Pod that was ended in the trial came to its end. It is derived: whatever it tells names the event that tells it,
// and what no event tells is null, with the reason.
type Termination struct {
	Pod string `json:"pod"`
	// UID is empty where it was not told.
	UID string `json:"uid"`
	// Node that it ran on; empty where it was not told.
	Node string `json:"node"`
	// Deleted: the API server had accepted its deletion, or shows it as terminating.
	Deleted Instant `json:"deleted"`
	Hook    Hook    `json:"hook"`
	// Containers are in order of their names. Those that had ended long before are left out.
	Containers []ContainerEnd `json:"containers"`
	// Listeners are what it listened on, by protocol and port.
	Listeners []ListenerEnd `json:"listeners"`
	// SandboxGone: the first process of its sandbox exited, and its network namespace went with it.
	SandboxGone Instant `json:"sandbox_gone"`
	// Removed: the API showed it no more.
	Removed Instant  `json:"removed"`
	Grace   GraceUse `json:"grace"`
	// Paths are in order of node, front and backend, one for each front whose rules on a node named the Pod.
	Paths []PathEnd `json:"paths"`
	// Conntrack are in order of node and protocol, where a node had entries that led to the Pod after it had exited.
	Conntrack []ConntrackEnd `json:"conntrack"`
	// Unseen says for each kind of evidence of which the lists above have nothing to say, or not of every node, what was missing; empty for nothing.
	Unseen []string `json:"unseen"`
}

// Instant is when something happened, as an event tells it.
type Instant struct {
	// TNs is that event's time; null where no event tells it.
	TNs *int64 `json:"t_ns"`
	// UncertaintyNs bounds the error of that event's clock; null where it could not be measured.
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	// Bound is upper where the event came at or after it: a receipt, or what can only follow it.
	Bound Bound `json:"bound"`
	// NotBeforeTNs is a time before which it had not happened, as surely as the event's clock is known; null where none is, and of an exact instant.
	NotBeforeTNs *int64 `json:"not_before_t_ns"`
	// Event is the id of that event; 0 without one.
	Event int `json:"event"`
	// Why is null's reason; empty otherwise.
	Why string `json:"why"`
}

// Span is the time between two events, which may be negative where they came in the other order.
type Span struct {
	// Ns is how far the two events lie apart; null where one was not seen.
	Ns *int64 `json:"ns"`
	// AtLeastNs and AtMostNs are what it surely was, by the bounds of both events and of their clocks; null where nothing bounds it on that side.
	AtLeastNs *int64 `json:"at_least_ns"`
	AtMostNs  *int64 `json:"at_most_ns"`
	// FromEvent and ToEvent are ids of events; 0 where that end was not seen.
	FromEvent int `json:"from_event"`
	ToEvent   int `json:"to_event"`
	// Why is null's reason; empty otherwise.
	Why string `json:"why"`
}

// Surely reports whether it was surely longer than nothing.
func (s Span) Surely() bool { return s.AtLeastNs != nil && *s.AtLeastNs > 0 }

// SurelyNone reports whether the two surely came in the other order, or together.
func (s Span) SurelyNone() bool { return s.AtMostNs != nil && *s.AtMostNs <= 0 }

// Hook is what is known of a Pod's preStop hooks.
type Hook struct {
	// Described tells them, such as "web: sleep 5s"; empty for a Pod without any.
	Described string  `json:"described"`
	Started   Instant `json:"started"`
	// Ended: they were over when the runtime sent the last container its first stop signal, if not before.
	Ended Instant `json:"ended"`
}

// ContainerEnd is how one container ended.
type ContainerEnd struct {
	Name string `json:"name"`
	// Term is the first signal to its first process that asks it to end, Kill the first SIGKILL.
	Term StopSignal  `json:"term"`
	Kill StopSignal  `json:"kill"`
	Exit ProcessExit `json:"exit"`
	// BeforeTerm is from the Pod's deletion to Term: the preStop hook, and what the kubelet and the runtime took. TermToExit is from there to Exit.
	BeforeTerm Span `json:"before_term"`
	TermToExit Span `json:"term_to_exit"`
	// Killed: SIGKILL ended it; null where that is not known.
	Killed *bool `json:"killed"`
}

// StopSignal is a signal to a container's first process.
type StopSignal struct {
	Instant
	// Signal is its name, such as SIGTERM; empty where none was seen.
	Signal string `json:"signal"`
	// Sender is the name of the process that sent it, or "the kernel"; empty where that was not told.
	Sender string `json:"sender"`
	// Result is delivered, ignored (the process has no handler for it), already-pending or overflowed; empty where that was not told.
	Result string `json:"result"`
}

// ProcessExit is the end of a container's first process.
type ProcessExit struct {
	Instant
	// Code is its exit code, as the runtime tells it where only the API did; null where it was not told, or a signal ended it.
	Code *int `json:"code"`
	// Signal that ended it, by name; empty where none did, or that was not told.
	Signal string `json:"signal"`
}

// ListenerEnd is when nothing listened on a port of the Pod any more.
type ListenerEnd struct {
	Protocol Protocol `json:"protocol"`
	Port     int      `json:"port"`
	Closed   Instant  `json:"closed"`
}

// GraceUse is the arithmetic of a Pod's grace period, as it happened.
type GraceUse struct {
	// GraceNs is what it had: as the API wrote on it when it was deleted, else as its workload says; null where it was not deleted.
	GraceNs *int64 `json:"grace_ns"`
	// Used is from the deletion to the exit of the last container; LeftNs what that leaves, negative where it took longer, null without one of the two.
	Used   Span   `json:"used"`
	LeftNs *int64 `json:"left_ns"`
}

// PathEnd is when a node ceased to send new connections to the Pod.
type PathEnd struct {
	Node string `json:"node"`
	// Front is the address and port that clients go to, Backend the Pod's.
	Front    string   `json:"front"`
	Backend  string   `json:"backend"`
	Protocol Protocol `json:"protocol"`
	// Proxy is the data plane, as the node's agent names it.
	Proxy       string  `json:"proxy"`
	RuleRemoved Instant `json:"rule_removed"`
	// DeadEndpoint is from when nothing listened there any more (without an event of that: from the exit) until the node's rules ceased to name it, it listened
	// again, or the observation ended. Negative: the rules had ceased before.
	DeadEndpoint Span `json:"dead_endpoint"`
	// Failed counts the requests and flows of cause dead-endpoint that this node sent there.
	Failed int `json:"failed"`
}

// ConntrackEnd is what a node's connection tracking went on to lead to the Pod after it had exited, as far as the record holds entries: those of
// requests that failed, and of all flows.
type ConntrackEnd struct {
	Node     string   `json:"node"`
	Protocol Protocol `json:"protocol"`
	// Entries led to it after its exit; Left of them were not deleted by the end of the observation.
	Entries int `json:"entries"`
	Left    int `json:"left"`
	// LastDeleted is when the last of the others was deleted, DeadConntrack from the exit to there.
	LastDeleted   Instant `json:"last_deleted"`
	DeadConntrack Span    `json:"dead_conntrack"`
}
