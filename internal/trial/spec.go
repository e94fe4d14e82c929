package trial

import (
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trigger"
)

// Limits of what a trial may be asked for. They keep a typing error from becoming an hour's wait.
const (
	MaxGrace     = 30 * time.Minute
	MaxObserve   = 45 * time.Minute
	MaxFlows     = 15000
	MinHeartbeat = 10 * time.Millisecond
)

// Defaults is the reference trial: ten TCP and ten UDP flows, grace 30 s.
func Defaults() record.Config {
	return record.Config{
		Arm: string(probe.Drain), Trigger: string(trigger.Delete), ForceRST: true,
		GraceNs: int64(30 * time.Second), DrainWindowNs: -1, ReadinessOnTerm: string(probe.Fail),
		TCP: 10, UDP: 10, Path: "clusterip", Vantage: "pod",
		HeartbeatNs: int64(500 * time.Millisecond), ReadTimeoutNs: int64(5 * time.Second),
		SettleNs: int64(3 * time.Second), ReadinessEveryNs: int64(time.Second),
	}
}

// Complete fills what follows from the rest: the drain window (five seconds
// less than the grace, two thirds of a short one), how long to observe, and of requests what follows from their mode and the trigger.
func Complete(c record.Config) record.Config {
	grace := time.Duration(c.GraceNs)
	if c.DrainWindowNs < 0 {
		window := grace - 5*time.Second
		if grace < 10*time.Second {
			window = grace * 2 / 3
		}
		c.DrainWindowNs = int64(window)
	}
	if c.ObserveNs == 0 {
		c.ObserveNs = int64(grace + time.Duration(c.ReadTimeoutNs) + 10*time.Second)
		if c.Trigger == string(trigger.None) {
			c.ObserveNs = int64(grace)
		}
	}
	if c.Traffic != nil {
		c.Traffic = new(completeTraffic(*c.Traffic, trigger.Kind(c.Trigger)))
	}
	return c
}

// Validate refuses a configuration that cannot be measured, before anything is touched.
func Validate(c record.Config) error {
	oneOf := func(flag, value string, allowed ...string) error { return known("--"+flag, value, allowed) }
	within := func(flag string, ns int64, low, high time.Duration) error { return span("--"+flag, ns, low, high) }
	arms, triggers := []string{string(probe.Drain), string(probe.Exit), string(probe.Ignore)}, trigger.Kinds()
	if c.Traffic != nil {
		arms, triggers = append(arms, string(probe.Finish)), trigger.KindsForTest()
	}
	for _, err := range []error{
		oneOf("arm", c.Arm, arms...),
		known("--trigger", c.Trigger, triggers),
		oneOf("readiness-on-term", c.ReadinessOnTerm, string(probe.Fail), string(probe.Keep)),
		oneOf("path", c.Path, "pod", "clusterip", "nodeport"),
		oneOf("vantage", c.Vantage, "host", "pod"),
		within("grace", c.GraceNs, time.Second, MaxGrace),
		within("drain-window", c.DrainWindowNs, 0, MaxGrace),
		within("pre-stop-sleep", c.PreStopSleepNs, 0, MaxGrace),
		within("readiness-every", c.ReadinessEveryNs, time.Second, 5*time.Minute),
		within("settle", c.SettleNs, 0, 10*time.Minute),
		within("observe", c.ObserveNs, time.Second, MaxObserve),
		within("heartbeat", c.HeartbeatNs, MinHeartbeat, time.Minute),
		within("read-timeout", c.ReadTimeoutNs, 100*time.Millisecond, 10*time.Minute),
	} {
		if err != nil {
			return err
		}
	}
	for flag, n := range map[string]int{"tcp": c.TCP, "udp": c.UDP} {
		if err := count("--"+flag, n, 0, MaxFlows); err != nil {
			return err
		}
	}
	if err := validateRequests(c); err != nil {
		return err
	}
	grace := time.Duration(c.GraceNs)
	switch {
	case c.TCP+c.UDP == 0 && c.Traffic == nil:
		return fault.Usagef("set --tcp or --udp to at least 1", "a trial without flows measures nothing")
	case grace%time.Second != 0:
		return fault.Usagef("Kubernetes counts the grace period in whole seconds", "--grace %v is not a whole number of seconds", grace)
	case c.ReadinessEveryNs%int64(time.Second) != 0:
		return fault.Usagef("Kubernetes counts a probe's period in whole seconds", "--readiness-every %v is not a whole number of seconds", time.Duration(c.ReadinessEveryNs))
	case c.Trigger != string(trigger.None) && c.ObserveNs < c.GraceNs+c.ReadTimeoutNs:
		return fault.Usagef("silence is known only after the read timeout, and a Pod may live for its whole grace period",
			"--observe %v is shorter than --grace %v + --read-timeout %v", time.Duration(c.ObserveNs), grace, time.Duration(c.ReadTimeoutNs))
	case c.PreStopSleepNs%int64(time.Second) != 0:
		return fault.Usagef("Kubernetes counts a preStop sleep in whole seconds", "--pre-stop-sleep %v is not a whole number of seconds", time.Duration(c.PreStopSleepNs))
	case c.Arm == string(probe.Drain) && c.DrainWindowNs > c.GraceNs:
		return fault.Usagef("the kubelet kills at the end of the grace period: raise --grace or shorten --drain-window",
			"--drain-window %v is longer than --grace %v", time.Duration(c.DrainWindowNs), grace)
	case c.PreStopSleepNs > c.GraceNs:
		return fault.Usagef("the grace period starts before the hook: raise --grace", "--pre-stop-sleep %v is longer than --grace %v",
			time.Duration(c.PreStopSleepNs), grace)
	case c.HeartbeatNs > c.ReadTimeoutNs:
		return fault.Usagef("a flow must get at least one heartbeat within its read timeout", "--heartbeat %v is longer than --read-timeout %v",
			time.Duration(c.HeartbeatNs), time.Duration(c.ReadTimeoutNs))
	case c.ExitCode < 0 || c.ExitCode > 255:
		return fault.Usagef("an exit code is between 0 and 255", "--exit-code %d is out of range", c.ExitCode)
	}
	return nil
}

// ProbeArgs is the probe's command line for c, after the image's entrypoint.
func ProbeArgs(c record.Config) []string {
	return []string{
		"probe",
		"--on-term=" + c.Arm,
		fmt.Sprintf("--force-rst=%t", c.ForceRST),
		"--readiness-on-term=" + c.ReadinessOnTerm,
		"--drain-window=" + time.Duration(c.DrainWindowNs).String(),
		fmt.Sprintf("--exit-code=%d", c.ExitCode),
		fmt.Sprintf("--tcp=:%d", probe.PortTCP),
		fmt.Sprintf("--udp=:%d", probe.PortUDP),
		fmt.Sprintf("--http=:%d", probe.PortHTTP),
	}
}

// minAfterHook is what the kubelet leaves a container after its preStop hook, whatever is left of the grace period.
const minAfterHook = 2 * time.Second

// causedByUs are the notes that a reader must know: what the harness brought about itself.
func causedByUs(c record.Config) []string {
	var notes []string
	switch {
	case c.Arm != string(probe.Exit):
	case c.ForceRST:
		notes = append(notes, "The resets are forced: the probe sets SO_LINGER to 0 on every TCP connection before it exits, and logs it (forced-rst). They do not show what a kernel does with a plain exit; --no-force-rst does.")
	default:
		notes = append(notes, "Nothing was forced: the probe exits without a word to its connections, as asked (--no-force-rst), and what the clients saw is what the kernel does with them.")
	}
	if c.ReadinessOnTerm == string(probe.Fail) {
		notes = append(notes, "The probe answers its readiness check with 503 from SIGTERM on, as asked (--readiness-on-term=fail).")
	} else {
		notes = append(notes, "The probe keeps answering its readiness check with 200 after SIGTERM, as asked (--readiness-on-term=keep).")
	}
	if c.Arm == string(probe.Drain) && c.PreStopSleepNs+c.DrainWindowNs > c.GraceNs {
		notes = append(notes, fmt.Sprintf("The budget does not add up, as asked: preStop sleep %v + drain window %v > grace %v.",
			time.Duration(c.PreStopSleepNs), time.Duration(c.DrainWindowNs), time.Duration(c.GraceNs)))
	}
	if left := c.GraceNs - c.PreStopSleepNs; c.PreStopSleepNs > 0 && left < int64(minAfterHook) && c.Trigger != string(trigger.None) {
		notes = append(notes, fmt.Sprintf("The preStop sleep of %v leaves %v of the grace period of %v. The kubelet leaves a container at least %v after its hook, so SIGKILL comes up to %v after the grace period.",
			time.Duration(c.PreStopSleepNs), time.Duration(left), time.Duration(c.GraceNs), minAfterHook, minAfterHook))
	}
	if c.Trigger == string(trigger.None) {
		notes = append(notes, "Control: nothing was triggered. t = 0 is the moment at which a trigger would have been sent.")
	}
	return notes
}
