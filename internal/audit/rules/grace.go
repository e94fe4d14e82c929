package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/images"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// Sources that several rules of a termination rest on.
const (
	fromKillContainer = "kubernetes/kubernetes pkg/kubelet/kuberuntime: killContainer"
	fromLostRequests  = "kubernetes/kubernetes#43576"
	fromSleepAction   = "KEP-3960 (preStop.sleep: 1.29 alpha, on by default since 1.30, GA 1.34)"
	fromSleepZero     = "KEP-4818 (a sleep of 0: on by default since 1.33, GA 1.34)"
)

var graceRules = []Rule{
	{
		ID: "DP101", Topic: finding.Grace, Severity: finding.Error,
		Title: "The preStop hook uses the grace period up",
		Physics: "The grace period runs from the delete, and the preStop hook is charged to it. The kubelet runs the hook with the grace period as its time limit and subtracts what it took; " +
			"then it sends the stop signal and leaves the application what remains, but at least 2 s. A hook as long as the grace period is cut off, and the application has those 2 s to finish its requests before SIGKILL. " +
			"Of a command that does more than sleep, the sleeps that surely run in it count.",
		Sources: []string{fromKillContainer + " (minimumGracePeriodInSeconds)", "kubernetes/kubernetes#65496", "linkerd/linkerd2#10276", "Yelp/paasta#3909", "KEP-3960: the API server refuses a sleep longer than the grace period"},
		Remedy:  "Make terminationGracePeriodSeconds the sum of the hook and of the time that the application needs after its stop signal.", Workload: checkHookUsesGrace,
	},
	{
		ID: "DP102", Topic: finding.Grace, Severity: finding.Error,
		Title: "Hook and drain together do not fit into the grace period",
		Physics: "Hook and drain run one after the other inside one grace period: preStop, then the stop signal, then the application's drain, then its exit. Where their sum is greater than the grace period, SIGKILL comes while requests still run. " +
			"A drain that the user states is what the application takes; the timeout of a server is the longest that it may take, so the finding is then a warning.",
		Sources: []string{fromKillContainer, "spring-projects/spring-boot#26469", "kubernetes/kubernetes#65496"},
		Remedy:  "Raise terminationGracePeriodSeconds to hook + drain, or shorten the server's own timeout.", Workload: checkHookAndDrain,
	},
	{
		ID: "DP103", Topic: finding.Grace, Severity: finding.Warning,
		Title: "The preStop hook is shorter than the time for which new traffic goes on arriving",
		Physics: "A delete tells the kubelet and the endpoints at the same time. The kubelet sends the stop signal within milliseconds; kube-proxy on every node, ingress controllers and load balancers learn of it later, and send new connections to the dying Pod until then. " +
			"Most servers stop accepting on their stop signal, so these connections are refused. A preStop hook holds the stop signal back and lets the application serve on while the news travels. " +
			"The times are field reports, each of one cluster, and are replaced by measured ones where there are records. " +
			"Silent where nothing could take the traffic over anyhow (one replica that is never surged), where the clients know the members themselves, and where DP301 or DP843 names the cause more closely.",
		Sources: []string{fromLostRequests, "zalando/skipper#652", "kubernetes-sigs/aws-load-balancer-controller#1064", "kubernetes/ingress-gce#769", "kubernetes-sigs/aws-load-balancer-controller#3270", "spring-projects/spring-boot#19593"},
		Remedy:  "Hold the container with a preStop sleep that is longer than the slowest path takes, and raise the grace period by as much; or let the application go on accepting for that long after its stop signal.", Workload: checkHookBelowFloor,
	},
	{
		ID: "DP104", Topic: finding.Grace, Severity: finding.Info,
		Title: "How long the preStop hook holds the container cannot be read",
		Physics: "A hook that calls a program or a URL takes as long as the program or the answer takes. The manifest does not tell whether that is longer than the time for which new traffic goes on arriving. " +
			"An httpGet hook ends with the response, and a hook that fails ends at once: the stop signal follows either way.",
		Sources: []string{fromKillContainer, fromLostRequests, "kubernetes/kubernetes#39170"},
		Remedy:  "Put a sleep in front of what the hook does, or measure what a termination costs.", Workload: checkHookUnknown,
	},
	{
		ID: "DP105", Topic: finding.Grace, Severity: finding.Error,
		Title: "The grace period is 0: no hook runs and nothing can drain",
		Physics: "A grace period of 0 means stop at once: by the API's own words the application has no opportunity to shut down. The kubelet skips the preStop hook; at best its floor of 2 s lies between the stop signal and SIGKILL. " +
			"The Pod is gone from the API before its containers are, and new traffic goes on arriving.",
		Sources: []string{fromKillContainer, "kubernetes/kubernetes#49449", "Kubernetes API: PodSpec.terminationGracePeriodSeconds"},
		Remedy:  "Remove terminationGracePeriodSeconds, which gives 30 s, or set what hook and drain need.", Workload: checkGraceZero,
	},
	{
		ID: "DP106", Topic: finding.Grace, Severity: finding.Error,
		Title:   "The preStop hook calls a program that the image does not have",
		Physics: "An exec hook runs inside the container, so the shell or the sleep program must be in its image. Distroless and scratch-built images have neither. The hook fails with an event FailedPreStopHook, and the stop signal follows at once, as if there were no hook.",
		Sources: []string{fromSleepAction, "linkerd/linkerd2#8912", "GoogleCloudPlatform/cloud-sql-proxy#1333"},
		Remedy:  "Use the kubelet's own sleep (lifecycle.preStop.sleep, on by default since 1.30), which needs nothing from the image.", Workload: checkHookWithoutShell,
	},
	{
		ID: "DP107", Topic: finding.Grace, Severity: finding.Error,
		Title:   "preStop.sleep is newer than the cluster",
		Physics: "preStop.sleep is alpha in 1.29 and on by default since 1.30. An older API server does not know the field: it drops it, and then refuses the hook that is left without a handler. A sleep of 0 is allowed by default since 1.33; before, the API server refuses it.",
		Sources: []string{fromSleepAction, fromSleepZero},
		Remedy:  "Use an exec hook with the sleep program of the image until the cluster is upgraded.", Workload: checkSleepTooNew,
	},
	{
		ID: "DP108", Topic: finding.Grace, Severity: finding.Info,
		Title:   "The hook was taken out of an unchanged grace period",
		Physics: "A sleep that is added without raising the grace period takes its time from the application: of the default 30 s, only what the hook leaves remains between the stop signal and SIGKILL. Requests that finished in time before may be cut now.",
		Sources: []string{fromKillContainer, "spring-projects/spring-boot#26469"},
		Remedy:  "Raise terminationGracePeriodSeconds by what the hook takes.", Workload: checkGraceUnchanged,
	},
	{
		ID: "DP109", Topic: finding.Grace, Severity: finding.Info,
		Title: "The grace period is longer than those who remove nodes wait",
		Physics: "A grace period binds the kubelet, not whoever takes the node away. The cluster autoscaler waits 10 minutes by default (--max-graceful-termination-sec 600) and then removes the node with the Pods that still drain; a spot instance goes after its notice. " +
			"A drain that counts on more is cut there, and one that is really used keeps node upgrades waiting.",
		Sources: []string{"kubernetes/kubernetes#94435", "kubernetes/autoscaler: cluster-autoscaler --max-graceful-termination-sec", "livekit/livekit#1032"},
		Remedy:  "Drain within 10 minutes, or raise the limit of whoever removes the nodes.", Workload: checkGraceTooLong,
	},
}

// knownOf says what is known of a container's server and image.
func knownOf(k *model.Container) images.Known {
	return images.Identify(k.Image, k.Command, k.Args)
}

// hookText is an exec hook's command in one line.
func hookText(h *model.Hook) string {
	if h == nil {
		return ""
	}
	return strings.Join(h.Exec, " ")
}

// hold is how long a container surely goes on accepting after the delete.
type hold struct {
	took time.Duration
	// known is false where it may be longer.
	known bool
	// words say what holds it, as a clause: "no preStop hook holds the container".
	words string
	facts []finding.Fact
}

// holdOf works a hold out from the hook and from the arguments of a known server.
func holdOf(k *model.Container, s *images.Server) hold {
	h := k.PreStop
	took, known := budget.HookOf(k)
	at := k.Path + ".lifecycle.preStop"
	var r hold
	drain, drains := s.Drains(hookText(h))
	switch {
	case h == nil:
		r = hold{known: true, words: "no preStop hook holds the container"}
		at += " (absent)"
	case h.Broken != "":
		r = hold{known: true, words: fmt.Sprintf("its preStop hook fails (%s) and holds the container for 0 s", h.Broken)}
	case drains:
		r = hold{took: h.SleepsFirst, known: true, words: fmt.Sprintf("its preStop hook itself tells %s to stop after %s (%s)", s.Name, spell(h.SleepsFirst), drain.Part)}
	case known:
		r = hold{took: took, known: true, words: fmt.Sprintf("its preStop hook holds the container for %s", spell(took))}
	default:
		r = hold{took: h.SleepsFirst, words: fmt.Sprintf("its preStop hook surely holds the container for %s only", spell(h.SleepsFirst))}
	}
	value := spell(r.took)
	if !r.known {
		value = "at least " + value
	}
	r.facts = append(r.facts, finding.Fact{Name: "preStop hook", Value: value, From: at})
	if d, set := s.Delay(k.Command, k.Args); set {
		r.took += d
		r.words += fmt.Sprintf(", and %s goes on accepting for %s more", s.Name, spell(d))
		r.facts = append(r.facts, finding.Fact{Name: "accepts after its stop signal", Value: spell(d), From: k.Path + ".args (" + s.DelayFlag + ")"})
	}
	return r
}

// arrival is the slowest path by which new connections go on arriving. A registry is
// left out: its clients do not go by endpoints, and rules of their own say so.
func arrival(sum budget.Sum) *budget.Floor {
	var slowest *budget.Floor
	for i, f := range sum.All {
		if f.Path != budget.Registry && f.Least > 0 && (slowest == nil || f.Least > slowest.Least) {
			slowest = &sum.All[i]
		}
	}
	return slowest
}

func floorName(f *budget.Floor) string {
	if f.Variant != "" {
		return f.Path + ", " + f.Variant
	}
	return f.Path
}

// arriving says how long new connections come, as the start of a sentence.
func arriving(f *budget.Floor) string {
	about := "about "
	if f.Measured {
		about = "up to "
	}
	return fmt.Sprintf("new connections go on arriving for %s%s after the delete (%s)", about, spell(f.Least), floorName(f))
}

func floorFact(f *budget.Floor) finding.Fact {
	return finding.Fact{Name: "new connections after the delete (" + floorName(f) + ")", Value: spell(f.Least), From: f.Source}
}

// neverRelieved: no other Pod can take the traffic over while this one ends, so a longer hook
// would only move the gap.
func neverRelieved(w *model.Workload) bool {
	switch w.Object.Kind {
	case "Pod":
		return true
	case "DaemonSet", "Job", "CronJob":
		return false
	}
	if len(w.HPAs) > 0 || w.Replicas.N != 1 {
		return false
	}
	surge, _ := w.RollingUpdate(1)
	return surge == 0
}

// clientsOf gives the containers that clients talk to. Where the manifest does not tell and all hooks are
// alike, any of them stands for all.
func clientsOf(c *Context, w *model.Workload) []*model.Container {
	serving := w.Serving()
	if len(serving) == 0 && c.Sum(w).HookKnown {
		return w.Pod.Containers
	}
	return serving
}

// exposed gives the containers whose listener may be gone before new connections cease, with the
// path that decides. Nothing where a longer hook could not help, nor where all clients
// go by DNS: DP761 asks about those.
func exposed(c *Context, w *model.Workload) (containers []*model.Container, floor *budget.Floor) {
	if !carries(w) || w.Pod.Grace.N == 0 || neverRelieved(w) || onlyHeadless(w) {
		return nil, nil
	}
	floor = arrival(c.Sum(w))
	if floor == nil {
		return nil, nil
	}
	for _, k := range clientsOf(c, w) {
		s := knownOf(k).Server
		// A native sidecar gets its stop signal after the application's exit.
		if k.Sidecar || s != nil && s.Clustered || losesSignal(w, k) {
			continue
		}
		if holdOf(k, s).took < floor.Least {
			containers = append(containers, k)
		}
	}
	return containers, floor
}

// sleepFor is a hook that covers a path with a margin: whole steps of 5 s.
func sleepFor(f *budget.Floor) time.Duration {
	const step = 5 * time.Second
	return (f.Least + 2*time.Second + step - 1) / step * step
}

// sleepText writes a hook that sleeps, as this cluster and this image can run it.
func sleepText(c *Context, k *model.Container, d time.Duration) string {
	seconds := fmt.Sprint(wholeSeconds(d))
	switch {
	case c.Server >= 30:
		return "lifecycle.preStop.sleep.seconds: " + seconds
	case knownOf(k).Shell == "no":
		return fmt.Sprintf("a delay of %s s in the application itself, because the image has no sleep program and Kubernetes 1.%d no preStop.sleep", seconds, c.Server)
	}
	return fmt.Sprintf(`lifecycle.preStop.exec.command: ["sleep", "%s"]`, seconds)
}

// graceText says how the grace period grows with a hook.
func graceText(sum budget.Sum, more time.Duration) string {
	if more <= 0 {
		return ""
	}
	return fmt.Sprintf("terminationGracePeriodSeconds: %d instead of %d, so that the application keeps its time", wholeSeconds(sum.Grace+more), wholeSeconds(sum.Grace))
}

// holdRemedy is the patch in words: a hook, and the grace period with it.
func holdRemedy(c *Context, w *model.Workload, k *model.Container, f *budget.Floor, h hold) string {
	sleep := sleepFor(f)
	text := "set " + sleepText(c, k, sleep)
	if grace := graceText(c.Sum(w), sleep-h.took); grace != "" {
		text += " and " + grace
	}
	return text
}

func gracePath(w *model.Workload) string { return w.SpecPath() + ".terminationGracePeriodSeconds" }

func checkHookUsesGrace(c *Context, w *model.Workload) {
	sum := c.Sum(w)
	if !carries(w) || sum.Grace == 0 {
		return
	}
	for _, k := range clientsOf(c, w) {
		took, known := budget.HookOf(k)
		if !known {
			took = k.PreStop.AtLeast
		}
		left := sum.Grace - took
		if k.PreStop == nil || k.PreStop.Broken != "" || took == 0 || left >= budget.KubeletFloor {
			continue
		}
		if startsDrain(k) && sum.Grace-k.PreStop.SleepsFirst >= budget.KubeletFloor {
			continue // the server has had that time
		}
		atLeast := ""
		if !known {
			atLeast = "at least "
		}
		f := finding.Finding{
			Facts: []finding.Fact{
				graceFact(w, sum.Grace),
				{Name: "preStop hook", Value: atLeast + spell(took), From: k.PreStop.At},
				{Name: "least time for the application", Value: spell(budget.KubeletFloor), From: fromKillContainer},
			},
			Remedy: fmt.Sprintf("set terminationGracePeriodSeconds: %d (hook %s + %s for the application), or shorten the hook", wholeSeconds(took+restAfter(sum)), atLeast+spell(took), spell(restAfter(sum))),
		}
		switch {
		case took == model.Endless:
			f.Facts[1].Value = "no end"
			f.Message = fmt.Sprintf("the preStop hook of container %s never ends by itself: it is cut when the grace period of %s is over, and the application has the kubelet's floor of %s before SIGKILL",
				k.Name, spell(sum.Grace), spell(budget.KubeletFloor))
			f.Remedy = "give the hook an end: no grace period is long enough for it"
			if floor := arrival(sum); floor != nil {
				f.Remedy = fmt.Sprintf("give the hook an end: no grace period is long enough for it, and a sleep of %s covers the %s for which new connections go on arriving (%s)", spell(sleepFor(floor)), spell(floor.Least), floorName(floor))
			}
		case left < 0 && k.PreStop.How == "sleep":
			f.Message = fmt.Sprintf("the preStop sleep of container %s lasts %s, but the grace period is %s: the API server refuses a sleep longer than the grace period", k.Name, spell(took), spell(sum.Grace))
		case left < 0:
			f.Message = fmt.Sprintf("the preStop hook of container %s lasts %s%s, but the grace period is %s: the hook is cut at %s, and the application has the kubelet's floor of %s before SIGKILL",
				k.Name, atLeast, spell(took), spell(sum.Grace), spell(sum.Grace), spell(budget.KubeletFloor))
		case left == 0:
			f.Message = fmt.Sprintf("the preStop hook of container %s lasts %sas long as the grace period (%s): nothing is left for the application but the kubelet's floor of %s before SIGKILL",
				k.Name, atLeast, spell(took), spell(budget.KubeletFloor))
		default:
			f.Severity = finding.Warning
			f.Message = fmt.Sprintf("the preStop hook of container %s takes %s%s of the %s grace period, which leaves %s: the kubelet gives the application its floor of %s, and SIGKILL ends what is not done by then",
				k.Name, atLeast, spell(took), spell(sum.Grace), spell(left), spell(budget.KubeletFloor))
		}
		if !known && k.PreStop.SleepsFirst < sum.Grace {
			f.Severity = finding.Warning // what it runs before it is cut may drain the application
		}
		c.Report(At(w.PodObject, k.PreStop.At), f)
	}
}

// startsDrain: the hook itself tells the server to stop, so that what it takes after that is no time
// taken from the server.
func startsDrain(k *model.Container) bool {
	_, drains := knownOf(k).Server.Drains(hookText(k.PreStop))
	return drains || sendsSignal(k.PreStop)
}

// restAfter is the time that an application should have after its hook: its drain where
// that is known, else what Kubernetes gives by default.
func restAfter(sum budget.Sum) time.Duration {
	if sum.Drain.Known {
		return max(sum.Drain.Took, budget.KubeletFloor)
	}
	return 30 * time.Second
}

func checkHookAndDrain(c *Context, w *model.Workload) {
	sum := c.Sum(w)
	left, known := sum.Fits()
	if !sum.LongHookKnown && slices.ContainsFunc(clientsOf(c, w), startsDrain) {
		return
	}
	hook := spell(sum.LongHook)
	if !sum.LongHookKnown {
		hook = "at least " + hook
	}
	if !carries(w) || sum.Grace == 0 || !known || left >= 0 || sum.Grace-sum.LongHook < budget.KubeletFloor && sum.LongHook > 0 {
		return
	}
	f := finding.Finding{
		Message: fmt.Sprintf("the preStop hook takes %s and the application drains for %s, but the grace period is %s: SIGKILL comes %s before the application is done",
			hook, spell(sum.Drain.Took), spell(sum.Grace), spell(-left)),
		Facts: []finding.Fact{
			graceFact(w, sum.Grace),
			{Name: "preStop hook", Value: hook, From: hookFrom(w)},
			{Name: "drain", Value: spell(sum.Drain.Took), From: sum.Drain.From},
			{Name: "left", Value: spell(left), From: "grace period - hook - drain"},
		},
		Remedy: fmt.Sprintf("set terminationGracePeriodSeconds: %d (%s + %s), or drain within %s", wholeSeconds(sum.LongHook+sum.Drain.Took), hook, spell(sum.Drain.Took), spell(sum.Grace-sum.LongHook)),
	}
	if !strings.Contains(sum.Drain.From, budget.DrainAnnotation) {
		// A server's timeout is a bound: it is gone sooner when its clients are done.
		f.Severity = finding.Warning
		f.Message = fmt.Sprintf("the preStop hook takes %s and the server may drain for up to %s, but the grace period is %s: requests that need more than the %s that are left are cut by SIGKILL, %s before the server's own limit",
			hook, spell(sum.Drain.Took), spell(sum.Grace), spell(sum.Grace-sum.LongHook), spell(-left))
	}
	c.Report(At(w.PodObject, gracePath(w)), f)
}

// hookFrom names the longest hook of the serving containers.
func hookFrom(w *model.Workload) string {
	from, longest := w.SpecPath()+" (no preStop hook)", time.Duration(-1)
	for _, k := range w.Serving() {
		if k.PreStop != nil && k.PreStop.AtLeast > longest {
			from, longest = k.PreStop.At, k.PreStop.AtLeast
		}
	}
	return from
}

func checkHookBelowFloor(c *Context, w *model.Workload) {
	containers, floor := exposed(c, w)
	uneven := unevenHooks(w)
	var shortest *model.Container
	var least hold
	for _, k := range containers {
		s := knownOf(k).Server
		h := holdOf(k, s)
		// The listener rule knows better where the server is known, and DP843 where another container has the hook.
		if !h.known || s != nil && s.ClosesListener || slices.Contains(uneven, k) {
			continue
		}
		if shortest == nil || h.took < least.took {
			shortest, least = k, h
		}
	}
	if shortest == nil {
		return
	}
	gap := floor.Least - least.took
	c.Report(At(w.PodObject, shortest.Path+".lifecycle.preStop"), finding.Finding{
		Message: fmt.Sprintf("%s, but %s: if container %s stops accepting on SIGTERM, as most servers do, up to %s of new connections are refused for each Pod that ends",
			arriving(floor), least.words, shortest.Name, spell(gap)),
		Facts:  append([]finding.Fact{floorFact(floor)}, append(least.facts, graceFact(w, c.Sum(w).Grace))...),
		Remedy: holdRemedy(c, w, shortest, floor, least),
	})
}

func checkHookUnknown(c *Context, w *model.Workload) {
	containers, floor := exposed(c, w)
	for _, k := range containers {
		h := holdOf(k, knownOf(k).Server)
		if h.known {
			continue
		}
		what := "runs " + shorten(hookText(k.PreStop))
		remedy := fmt.Sprintf("let the hook sleep for %s before it does anything else", spell(sleepFor(floor)))
		if k.PreStop.How == "http" {
			what = "calls " + k.PreStop.Path + " and ends with the answer"
			remedy = fmt.Sprintf("let %s answer after %s, or make the call from an exec hook that sleeps first", k.PreStop.Path, spell(sleepFor(floor)))
		}
		c.Report(At(w.PodObject, k.PreStop.At), finding.Finding{
			Message: fmt.Sprintf("%s; the preStop hook of container %s %s: whether that holds the container for %s cannot be read from here", arriving(floor), k.Name, what, spell(floor.Least)),
			Facts:   append([]finding.Fact{floorFact(floor)}, h.facts...),
			Remedy:  remedy,
			Ask:     fmt.Sprintf("does the hook hold the container for at least %s, with the application still accepting? %s", spell(floor.Least), askTell(w, "rollout")),
		})
	}
}

// shorten keeps a command readable in a message.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:57]) + "..."
	}
	return text
}

func checkGraceZero(c *Context, w *model.Workload) {
	if !carries(w) || !w.Pod.Grace.Set || w.Pod.Grace.N != 0 {
		return
	}
	facts := []finding.Fact{graceFact(w, 0), {Name: "least time for the application", Value: spell(budget.KubeletFloor), From: fromKillContainer}}
	hook, arrive := "", ""
	for _, k := range w.Serving() {
		if k.PreStop != nil {
			hook = fmt.Sprintf("the preStop hook of container %s is skipped and ", k.Name)
			facts = append(facts, finding.Fact{Name: "preStop hook", Value: "skipped", From: k.PreStop.At})
			break
		}
	}
	if floor := arrival(c.Sum(w)); floor != nil {
		arrive = ", while " + arriving(floor)
		facts = append(facts, floorFact(floor))
	}
	c.Report(At(w.PodObject, gracePath(w)), finding.Finding{
		Message: fmt.Sprintf("the grace period is 0 s, which means stop at once: %srequests in flight have the kubelet's floor of %s at best%s", hook, spell(budget.KubeletFloor), arrive),
		Facts:   facts,
		Remedy:  "remove terminationGracePeriodSeconds: 0 (the default is 30 s)",
	})
}

func checkHookWithoutShell(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, k := range clientsOf(c, w) {
		h := k.PreStop
		if h == nil || h.How != "exec" || !h.Shell && !h.Sleeper || knownOf(k).Shell != "no" {
			continue
		}
		needs := "a sleep program"
		if h.Shell {
			needs = "a shell"
		}
		took, _ := budget.HookOf(k)
		early, remedy := spell(took)+" too early", "use "+sleepText(c, k, took)
		if took == model.Endless {
			early, remedy = "though the hook was to hold it back without an end", "give the hook an end that needs no program, such as a preStop.sleep"
			if floor := arrival(c.Sum(w)); floor != nil {
				remedy = "use " + sleepText(c, k, sleepFor(floor)) + ": a hook needs an end"
			}
		}
		c.Report(At(w.PodObject, h.At), finding.Finding{
			Message: fmt.Sprintf("the preStop hook of container %s needs %s, and the image %s has none: the hook fails and SIGTERM comes at once, %s", k.Name, needs, k.Image, early),
			Facts: []finding.Fact{
				{Name: "preStop hook", Value: shorten(hookText(h)), From: h.At},
				{Name: "image", Value: k.Image, From: k.Path + ".image"},
			},
			Remedy: remedy,
		})
	}
}

func checkSleepTooNew(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, k := range everyContainer(w) {
		h := k.PreStop
		if h == nil || h.How != "sleep" || h.Broken != "" {
			continue
		}
		f := finding.Finding{Facts: []finding.Fact{
			{Name: "server", Value: fmt.Sprintf("1.%d", c.Server), From: "the version that the audit assumes"},
			{Name: "preStop.sleep", Value: spell(h.Took), From: h.At},
		}}
		switch {
		case c.Server < 30:
			f.Message = fmt.Sprintf("container %s sleeps with preStop.sleep, which Kubernetes 1.%d does not have (on by default since 1.30): the API server drops the field and refuses a hook without a handler", k.Name, c.Server)
			f.Remedy = "use " + sleepText(c, k, h.Took)
		case h.Took == 0 && c.Server < 33:
			f.Message = fmt.Sprintf("the preStop sleep of container %s is 0 s, which Kubernetes 1.%d refuses (allowed by default since 1.33)", k.Name, c.Server)
			f.Remedy = "remove the hook, or give it the seconds that the slowest path needs"
		default:
			continue
		}
		c.Report(At(w.PodObject, h.At), f)
	}
}

// largePart is the hook from which the default grace period is worth a question: a third of its 30 s.
const largePart = 10 * time.Second

func checkGraceUnchanged(c *Context, w *model.Workload) {
	sum := c.Sum(w)
	left := sum.Grace - sum.LongHook
	if !carries(w) || sum.GraceSet || !sum.LongHookKnown || sum.LongHook < largePart || left < budget.KubeletFloor || sum.Drain.Known {
		return
	}
	c.Report(At(w.PodObject, gracePath(w)), finding.Finding{
		Message: fmt.Sprintf("the preStop hook takes %s of the default grace period of %s: the application has %s from SIGTERM to SIGKILL", spell(sum.LongHook), spell(sum.Grace), spell(left)),
		Facts: []finding.Fact{
			graceFact(w, sum.Grace),
			{Name: "preStop hook", Value: spell(sum.LongHook), From: hookFrom(w)},
			{Name: "left for the application", Value: spell(left), From: "grace period - hook"},
		},
		Remedy: fmt.Sprintf("set terminationGracePeriodSeconds: %d (hook + 30 s)", wholeSeconds(sum.LongHook+sum.Grace)),
		Ask:    fmt.Sprintf("is the application done within %s of SIGTERM? Say how long it takes with the annotation %s", spell(left), budget.DrainAnnotation),
	})
}

// autoscalerWaits is the default of the cluster autoscaler's --max-graceful-termination-sec.
const autoscalerWaits = 600 * time.Second

func checkGraceTooLong(c *Context, w *model.Workload) {
	sum := c.Sum(w)
	switch w.Object.Kind {
	case "DaemonSet", "Job", "CronJob":
		return
	}
	if !carries(w) || sum.Grace <= autoscalerWaits {
		return
	}
	c.Report(At(w.PodObject, gracePath(w)), finding.Finding{
		Message: fmt.Sprintf("the grace period is %s, but the cluster autoscaler removes a node after %s by default: what drains longer is cut there", spell(sum.Grace), spell(autoscalerWaits)),
		Facts: []finding.Fact{
			graceFact(w, sum.Grace),
			{Name: "wait before a node is removed", Value: spell(autoscalerWaits), From: "cluster autoscaler, --max-graceful-termination-sec, default"},
		},
		Remedy: fmt.Sprintf("drain within %s, or set --max-graceful-termination-sec=%d", spell(autoscalerWaits), wholeSeconds(sum.Grace)),
		Ask:    "who removes nodes here (cluster autoscaler, Karpenter, spot interruptions, upgrades), and how long do they wait?",
	})
}
