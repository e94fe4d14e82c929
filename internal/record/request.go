package record

import "slices"

// RequestOutcome is how one request ended, as its client saw it. A closed list.
type RequestOutcome string

const (
	// OK: answered whole, with an expected status.
	OK RequestOutcome = "ok"
	// HTTPError: answered whole, with a status that was not expected.
	HTTPError RequestOutcome = "http-error"
	// GRPCError: answered whole, with a gRPC status that was not expected.
	GRPCError RequestOutcome = "grpc-error"
	// Refused: the connection was refused (a RST for the SYN, or ICMP port unreachable).
	Refused RequestOutcome = "refused"
	// Unreachable: an ICMP error or the own routing table said that there is no way.
	Unreachable RequestOutcome = "unreachable"
	// ResetBeforeResponse and ResetMidResponse: the connection was reset before, or after, the response's first byte.
	ResetBeforeResponse RequestOutcome = "reset-before-response"
	ResetMidResponse    RequestOutcome = "reset-mid-response"
	// EOFBeforeResponse: the server closed in order, without a byte of a response.
	EOFBeforeResponse RequestOutcome = "eof-before-response"
	// Truncated: the server closed in order, before the response was whole.
	Truncated RequestOutcome = "truncated"
	// ConnectTimeout and ResponseTimeout: no connection, or no whole response, in time.
	ConnectTimeout  RequestOutcome = "connect-timeout"
	ResponseTimeout RequestOutcome = "response-timeout"
	// DNSFailure: the name could not be resolved (in time).
	DNSFailure RequestOutcome = "dns-failure"
	// TLSFailure: the handshake failed, timed out included.
	TLSFailure RequestOutcome = "tls-failure"
	// GoawayUnprocessed: the server announced its end and that it had not taken this request on (RFC 9113, 6.8).
	GoawayUnprocessed RequestOutcome = "goaway-unprocessed"
	// ProtocolError: what came back is no answer of the protocol that was spoken.
	ProtocolError RequestOutcome = "protocol-error"
	// ClientLimited: the client's own failure (descriptors, ports, its own end). Excluded from every verdict, and counted.
	ClientLimited RequestOutcome = "client-limit"
)

// RequestOutcomes lists every outcome of a request, the good one first.
func RequestOutcomes() []RequestOutcome {
	return []RequestOutcome{
		OK, HTTPError, GRPCError, Refused, Unreachable, ResetBeforeResponse, ResetMidResponse, EOFBeforeResponse, Truncated,
		ConnectTimeout, ResponseTimeout, DNSFailure, TLSFailure, GoawayUnprocessed, ProtocolError, ClientLimited,
	}
}

// Failed reports whether o counts against the workload.
func (o RequestOutcome) Failed() bool { return o != OK && o != ClientLimited }

// Answered reports whether a whole answer came, whatever it said: only these have a latency.
func (o RequestOutcome) Answered() bool { return o == OK || o == HTTPError || o == GRPCError }

// Connection says whether a request was the first on its connection.
type Connection string

const (
	NewConnection    Connection = "new"
	ReusedConnection Connection = "reused"
)

// Connections lists both.
func Connections() []Connection { return []Connection{NewConnection, ReusedConnection} }

// RequestPhase is how far a request had come. A closed list.
type RequestPhase string

const (
	PhaseDNS       RequestPhase = "dns"
	PhaseConnect   RequestPhase = "connect"
	PhaseTLS       RequestPhase = "tls"
	PhaseSend      RequestPhase = "send"
	PhaseFirstByte RequestPhase = "first-byte" // sent, nothing of the response yet
	PhaseBody      RequestPhase = "body"       // some of the response, not all
	PhaseDone      RequestPhase = "done"
)

// RequestPhases lists every phase, in order.
func RequestPhases() []RequestPhase {
	return []RequestPhase{PhaseDNS, PhaseConnect, PhaseTLS, PhaseSend, PhaseFirstByte, PhaseBody, PhaseDone}
}

// Workload is what was ended under traffic: the user's own, or the probe as experiments deploy it.
type Workload struct {
	// Kind is Deployment, StatefulSet, DaemonSet or Pod.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Replicas wanted before the trigger.
	Replicas int `json:"replicas"`
	// Strategy is RollingUpdate, Recreate or OnDelete; empty for a bare Pod. MaxUnavailable and MaxSurge are as written.
	Strategy       string `json:"strategy"`
	MaxUnavailable string `json:"max_unavailable"`
	MaxSurge       string `json:"max_surge"`
	GraceNs        int64  `json:"grace_ns"`
	// PreStop describes the hooks, a container each, such as "web: sleep 5s"; empty without any.
	PreStop string `json:"pre_stop"`
	// PreStopSleepNs is how long the hooks take where that is written (sleep, exec sleep N); 0 without a hook, null where only a run would tell.
	PreStopSleepNs *int64 `json:"pre_stop_sleep_ns"`
	// Images are those of its containers, in order, as written.
	Images []string `json:"images"`
	// ReadinessProbe: every container that serves has one.
	ReadinessProbe bool `json:"readiness_probe"`
	// Budgets are the PodDisruptionBudgets that select its Pods, as name (minAvailable 1).
	Budgets []string `json:"budgets"`
	// Service that the clients went through, and its port; empty where a URL was given.
	Service string `json:"service"`
	Port    int    `json:"port"`
	// Pods are those that it had when the trigger was sent.
	Pods []WorkloadPod `json:"pods"`
}

// WorkloadPod is one Pod of the workload before the trigger.
type WorkloadPod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	IP   string `json:"ip"`
	Node string `json:"node"`
	// NodeIP is the node's internal address; empty where it was not read.
	NodeIP string `json:"node_ip"`
}

// Traffic is what the clients were asked to send. Headers and bodies are not recorded, only that there were any.
type Traffic struct {
	// Mode is one of request.Modes: new-connection, keep-alive, http2, grpc, grpc-stream, websocket, tcp, udp.
	Mode  string  `json:"mode"`
	Rate  float64 `json:"rate"`
	Users int     `json:"users"`
	// Workers is how many clients shared the load.
	Workers int    `json:"workers"`
	URL     string `json:"url"`
	Method  string `json:"method"`
	// Expect are the expected statuses, as given: 2xx, 200-204, 301.
	Expect       string `json:"expect"`
	HeaderCount  int    `json:"header_count"`
	BodyBytes    int    `json:"body_bytes"`
	InsecureTLS  bool   `json:"insecure_tls"`
	DNSNs        int64  `json:"dns_timeout_ns"`
	ConnectNs    int64  `json:"connect_timeout_ns"`
	TLSNs        int64  `json:"tls_timeout_ns"`
	FirstByteNs  int64  `json:"first_byte_timeout_ns"`
	WholeNs      int64  `json:"whole_timeout_ns"`
	BeforeNs     int64  `json:"before_ns"`
	AfterNs      int64  `json:"after_ns"`
	WaitFor      string `json:"wait_for"`
	WaitNs       int64  `json:"wait_timeout_ns"`
	TriggerCount int    `json:"trigger_count"`
}

// Requests are the counts over all requests, and their course.
type Requests struct {
	// Total were sent, Outcomes of client-limit included.
	Total    int64                    `json:"total"`
	Outcomes map[RequestOutcome]int64 `json:"outcomes"`
	// Failed counts failures that ended at or after the trigger, also of requests that were under way by then, FailedBefore those that ended before it.
	Failed       int64 `json:"failed"`
	FailedBefore int64 `json:"failed_before"`
	// Reconnects counts connections that were opened because the server had ended the one before, in order or by a reset, while nothing was under way.
	Reconnects int64 `json:"reconnects"`
	// Instances counts per answering instance, in order of name; requests whose instance is not known stand under "", and
	// beyond MaxInstances all others, those with the fewest requests, under OtherInstances.
	Instances []InstanceCount `json:"instances"`
	// Series is the course over time; null where there was no request.
	Series *Series `json:"series"`
}

const (
	// MaxInstances is how many instances a record tells apart.
	MaxInstances = 200
	// OtherInstances stands for all instances beyond them. No Pod can have that name.
	OtherInstances = "(others)"
)

// InstanceCount is what one instance answered, or failed to: Failed counts as requests.failed does, from the trigger on.
type InstanceCount struct {
	Instance string `json:"instance"`
	Total    int64  `json:"total"`
	Failed   int64  `json:"failed"`
}

// Series counts requests by planned time. Every list has the same length.
type Series struct {
	// FromTNs is where the first bucket begins; it may be negative. A bucket is BucketNs long.
	FromTNs  int64   `json:"from_t_ns"`
	BucketNs int64   `json:"bucket_ns"`
	Sent     []int64 `json:"sent"`
	Failed   []int64 `json:"failed"`
	// P50Ns and P99Ns are latencies of the answered ones, null where a bucket had none.
	P50Ns []*int64 `json:"p50_ns"`
	P99Ns []*int64 `json:"p99_ns"`
	// Instances are the answers of each named instance.
	Instances []InstanceSeries `json:"instances"`
}

// InstanceSeries is one instance's part of a series.
type InstanceSeries struct {
	Instance string  `json:"instance"`
	Answered []int64 `json:"answered"`
}

// Users are the virtual users that the requests belonged to.
type Users struct {
	Total int `json:"total"`
	// Hurt had at least one failed request that ended at or after the trigger.
	Hurt int `json:"hurt"`
	// HurtIDs are their numbers, from 0, in order.
	HurtIDs []int `json:"hurt_ids"`
}

// Failure is one request that failed, kept whole.
type Failure struct {
	// TNs is when the client knew. PlannedTNs is when it was due, SentTNs when it began; null where it never did.
	TNs        int64          `json:"t_ns"`
	PlannedTNs int64          `json:"planned_t_ns"`
	SentTNs    *int64         `json:"sent_t_ns"`
	Outcome    RequestOutcome `json:"outcome"`
	Phase      RequestPhase   `json:"phase"`
	Connection Connection     `json:"connection"`
	// Instance that answered, or that the connection had been answered by before; null where that cannot be known.
	Instance *string `json:"instance"`
	User     int     `json:"user"`
	// Worker is the client's name where there were several; empty otherwise.
	Worker string `json:"worker"`
	// Status is the HTTP status or the gRPC status; null without an answer.
	Status *int `json:"status"`
	// Errno is the symbol, such as ECONNRESET; empty without one. Message is the library's or protocol's word, never a body.
	Errno         string `json:"errno"`
	Message       string `json:"message"`
	BytesReceived int64  `json:"bytes_received"`
	Local         string `json:"local_address"`
	Remote        string `json:"remote_address"`
	// ConnectionAgeNs and ConnectionRequests say how old the connection was when the request began, and how many it had carried before.
	ConnectionAgeNs    int64 `json:"connection_age_ns"`
	ConnectionRequests int   `json:"connection_requests"`
	// Retryable: nothing of a response had come and the connection or the server's word shows that the
	// request may be sent again (RFC 9110, 9.2.2; RFC 9113, 8.7): a client that retries would not have shown it to its user.
	Retryable bool `json:"retryable"`
	// UncertaintyNs bounds the client's clock against the harness's; null where unknown.
	UncertaintyNs *int64 `json:"uncertainty_ns"`
	Cause         *Cause `json:"cause"`
}

// Latency of the answered requests, counted from the planned time (no coordinated omission): before had ended by
// the trigger, during were under way then or planned until the end of the disruption, after were planned later. Null where none was answered.
type Latency struct {
	Before *Quantiles `json:"before"`
	During *Quantiles `json:"during"`
	After  *Quantiles `json:"after"`
	// DuringToTNs is where during ends and after begins: the end of the disruption as Kubernetes told it.
	DuringToTNs *int64             `json:"during_to_t_ns"`
	Instances   []InstanceQuantile `json:"instances"`
}

// InstanceQuantile is the latency of what one instance answered, from the trigger on and before.
type InstanceQuantile struct {
	Instance  string     `json:"instance"`
	Quantiles *Quantiles `json:"quantiles"`
}

// Quantiles of a sample of latencies.
type Quantiles struct {
	Count  int64 `json:"count"`
	MinNs  int64 `json:"min_ns"`
	P50Ns  int64 `json:"p50_ns"`
	P90Ns  int64 `json:"p90_ns"`
	P99Ns  int64 `json:"p99_ns"`
	P999Ns int64 `json:"p999_ns"`
	MaxNs  int64 `json:"max_ns"`
	// Histogram is the whole distribution: HdrHistogram's V2 compressed encoding in base64, values in nanoseconds, 3 significant digits.
	Histogram string `json:"histogram"`
}

// VerdictResult is what a trial says about a budget. A closed list.
type VerdictResult string

const (
	Pass         VerdictResult = "pass"
	Fail         VerdictResult = "fail"
	Inconclusive VerdictResult = "inconclusive"
)

// VerdictResults lists them.
func VerdictResults() []VerdictResult { return []VerdictResult{Pass, Fail, Inconclusive} }

// Verdict judges one trial against a budget.
type Verdict struct {
	Result VerdictResult `json:"result"`
	// Reason is one sentence.
	Reason string `json:"reason"`
	// Budget is the text as it was given.
	Budget string  `json:"budget"`
	Checks []Check `json:"checks"`
}

// Check is one line of a budget.
type Check struct {
	// Name is the budget's word, such as failed or p99.
	Name string `json:"name"`
	// Limit and Seen are in the unit that the name says (counts, shares from 0 to 1, nanoseconds); Seen is null where it was not measured.
	Limit float64  `json:"limit"`
	Seen  *float64 `json:"seen"`
	OK    bool     `json:"ok"`
}

// CauseKinds lists every kind of cause.
func CauseKinds() []string {
	return []string{
		"dead-endpoint", "listener-closed-early", "cut-by-exit", "cut-by-sigkill", "keepalive-race", "rehomed-by-dataplane", "no-endpoints",
		"stale-conntrack", "not-ready-yet", "proxy-error", "capacity", "client-limit", "unattributed",
	}
}

// IsTest reports whether the trial was one of requests, also where it ended before it sent any.
func (r Record) IsTest() bool { return r.Requests != nil || r.Config.Traffic != nil }

// FailuresFrom gives the failures that ended at or after the trigger and count against the workload.
func (r Record) FailuresFrom() []Failure {
	return slices.DeleteFunc(slices.Clone(r.Failures), func(f Failure) bool { return f.TNs < 0 || !f.Outcome.Failed() })
}
