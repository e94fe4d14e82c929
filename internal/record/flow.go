package record

// Outcome is how one flow ended, as its client saw it. A closed list.
type Outcome string

const (
	// Drained: the server announced the end, then closed.
	Drained Outcome = "drained"
	// Closed: orderly but unannounced, at a message boundary, by a server that promised nothing.
	Closed Outcome = "closed"
	// Severed: cut; Mechanism says by what.
	Severed Outcome = "severed"
	// Rehomed: answered by another instance than the one that the flow was opened to.
	Rehomed Outcome = "rehomed"
	// ReadTimeout: the connection stood, but answers stopped for longer than the read timeout.
	ReadTimeout Outcome = "read-timeout"
	// Survived: alive when the observation ended; its fate is unknown.
	Survived Outcome = "survived"
	// NotMeasured: the client could not tell (its own limit, an interrupted trial).
	NotMeasured Outcome = "not-measured"
)

// Outcomes lists every outcome, best first.
func Outcomes() []Outcome {
	return []Outcome{Drained, Closed, Survived, Rehomed, ReadTimeout, Severed, NotMeasured}
}

// Mechanism is what carried the end to the client. A closed list; None for survived flows.
type Mechanism string

const (
	None Mechanism = ""
	// AnnouncedFIN: an announcement, then the server's FIN.
	AnnouncedFIN Mechanism = "announced-fin"
	// FIN: the server's FIN at a message boundary.
	FIN Mechanism = "fin"
	// FINMidMessage: a FIN inside a message: bytes of an unfinished one had
	// arrived, or the server had promised to announce its end and did not.
	FINMidMessage Mechanism = "fin-mid-message"
	RST           Mechanism = "rst"
	BrokenPipe    Mechanism = "broken-pipe"
	// ICMPPort and ICMPHost: destination unreachable, code 3 and codes 0, 1 and the prohibitions.
	ICMPPort Mechanism = "icmp-port-unreachable"
	ICMPHost Mechanism = "icmp-host-unreachable"
	// Silence: nothing came back any more.
	Silence Mechanism = "silence"
	// OtherInstance: the answer named another Pod.
	OtherInstance Mechanism = "other-instance"
	// ClientLimit: the client's own failure.
	ClientLimit Mechanism = "client-limit"
	// WindowClosed: the trial stopped looking before the flow's fate was known.
	WindowClosed Mechanism = "window-closed"
)

// Mechanisms lists every mechanism except None.
func Mechanisms() []Mechanism {
	return []Mechanism{AnnouncedFIN, FIN, FINMidMessage, RST, BrokenPipe, ICMPPort, ICMPHost, Silence, OtherInstance, ClientLimit, WindowClosed}
}

// Protocol of a flow.
type Protocol string

const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// Protocols lists every protocol.
func Protocols() []Protocol { return []Protocol{TCP, UDP} }

// RawEnds lists the raw kinds of end that FlowDetail.End holds.
func RawEnds() []string {
	return []string{"eof", "read-error", "write-error", "no-answer", "other-instance", "window-closed", "client-limit", "client-lost", "not-opened"}
}

// Flow is one long-lived conversation and what became of it.
type Flow struct {
	ID       string   `json:"id"`
	Protocol Protocol `json:"protocol"`
	Outcome  Outcome  `json:"outcome"`
	// Mechanism is "" for survived flows.
	Mechanism Mechanism `json:"mechanism"`
	OpenedTNs *int64    `json:"opened_t_ns"`
	// EndedTNs is when the client knew; null for flows that survived.
	EndedTNs *int64 `json:"ended_t_ns"`
	// EndedAfterTNs is the last proof of life before the end: the end lies between the two.
	EndedAfterTNs *int64 `json:"ended_after_t_ns"`
	// UncertaintyNs bounds the client's clock against the harness's; null where unknown.
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	// FirstInstance and LastInstance are Pod names as the answers gave them; null without any answer.
	FirstInstance *string `json:"first_instance"`
	LastInstance  *string `json:"last_instance"`
	FirstPodUID   *string `json:"first_pod_uid"`
	LastPodUID    *string `json:"last_pod_uid"`
	// LastSeq is the sequence number of the last answer; null without any.
	LastSeq *uint64 `json:"last_seq"`
	// Sent and Answered count heartbeats.
	Sent     uint64 `json:"heartbeats_sent"`
	Answered uint64 `json:"heartbeats_answered"`
	// Local and Remote are the addresses as the client's socket had them.
	Local  string `json:"local_address"`
	Remote string `json:"remote_address"`
	// AfterRehome says how a rehomed flow went on; null for all others.
	AfterRehome *AfterRehome `json:"after_rehome"`
	Detail      FlowDetail   `json:"detail"`
	// Cause is null until causes are looked for.
	Cause *Cause `json:"cause"`
}

// AfterRehome is the later life of a flow that another instance took over.
type AfterRehome struct {
	// Ended is the mechanism that ended it, "" while it was still answered when the observation closed.
	Mechanism Mechanism `json:"mechanism"`
	EndedTNs  *int64    `json:"ended_t_ns"`
}

// FlowDetail keeps what the classification was made from, so that it can be made again.
type FlowDetail struct {
	// End is the raw kind of end: eof, read-error, write-error, no-answer, other-instance, window-closed, client-limit, client-lost or not-opened.
	End string `json:"end"`
	// Errno is the symbol of the error, such as ECONNRESET; "" without one.
	Errno string `json:"errno"`
	// PartialBytes of an unfinished message had been received.
	PartialBytes int `json:"partial_bytes"`
	// Promised: the server had said that it announces an orderly end; Announced: it did.
	Promised  bool `json:"promised"`
	Announced bool `json:"announced"`
	// Unanswered heartbeats at the end.
	Unanswered uint64 `json:"unanswered"`
	// ICMP is who sent the ICMP error, its type and code; null without one.
	ICMP *ICMP `json:"icmp"`
}

// ICMP is an error message as the socket's error queue gave it (ip(7), IP_RECVERR).
type ICMP struct {
	// From is the offender's address: the machine that sent the message.
	From string `json:"from"`
	Type int    `json:"type"`
	Code int    `json:"code"`
}

// Cause is why a flow or request was lost, with the events that prove it.
type Cause struct {
	Kind     string `json:"kind"`
	Evidence []int  `json:"evidence"`
	Sentence string `json:"sentence"`
}
