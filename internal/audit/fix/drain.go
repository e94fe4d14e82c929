package fix

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/images"
	"github.com/drainproof/drainproof/internal/audit/model"
)

const (
	// nativeSleep is the minor version since which preStop.sleep is on by default (KEP-3960, beta).
	nativeSleep = 30
	// usual is Kubernetes' default grace period, in seconds. It is what an application
	// gets after its hook where it had no time at all so far.
	usual = 30
	// endless is a hook that is not meant to end by itself, in seconds: nothing is fitted to it.
	endless   = 3600
	neverEnds = "its preStop hook hardly ends by itself, and no grace period fits it: let it sleep only for as long as traffic arrives"
)

// margin is what stays free of the grace period after hook and drain, in seconds: the kubelet
// counts whole seconds, and the runtime's SIGKILL comes when they are over.
var margin = seconds(budget.KubeletFloor)

// longer is the rule for how long a hook is, as the remedies of the rules have it: the floor is
// where loss has been seen, so the hook is 2 s longer, in whole steps of 5 s.
func longer(f *budget.Floor) int64 { return (seconds(f.Least) + margin + 4) / 5 * 5 }

// arrival is the slowest path by which new traffic goes on arriving. A registry is left out:
// its clients go on until the application deregisters, however long a hook sleeps.
func arrival(sum budget.Sum) *budget.Floor {
	var slowest *budget.Floor
	for i, f := range sum.All {
		if f.Path != budget.Registry && f.Least > 0 && (slowest == nil || f.Least > slowest.Least) {
			slowest = &sum.All[i]
		}
	}
	return slowest
}

// plannedHook is the length of a hook, in seconds, and the time that its container has after it.
type plannedHook struct {
	hook, app int64
	// because says where app comes from.
	because string
}

// drain holds the containers' sockets open until no new traffic arrives, and makes the
// grace period long enough for it.
//
// The grace period is one for hook and application together. A hook that is
// inserted or raised must take nothing from the application: it keeps the time that it had
// before the hook, unless it is known how long it needs. The grace period is never lowered, and a
// longer one costs nothing: it is a limit, not a wait.
func (p *planner) drain(w *model.Workload, fs []finding.Finding) []Change {
	var all, skipped []Change
	if written, ok := unreadGrace(w); ok {
		for _, f := range fs {
			skipped = append(skipped, p.skip(f, fmt.Sprintf("terminationGracePeriodSeconds is written as %s, which is no number of seconds: correct it first", written)))
		}
		return skipped
	}
	sum := budget.Of(w, p.Floors)
	floor := arrival(sum)
	hooks := map[*model.Container]plannedHook{}
	done := map[string]bool{} // rules that a hook answers
	var answered []finding.Finding
	hold := func(c *model.Container, need int64, what string, about []finding.Finding) (reason string) {
		e, how, reason := p.hook(w, c, need)
		if reason != "" {
			return reason
		}
		made := change(w.PodObject, c.Path+".lifecycle.preStop", fmt.Sprintf("hold container %s for %d s with %s: %s", c.Name, need, how, what), about, e)
		made.bond = "drain"
		all, answered = append(all, made), append(answered, about...)
		hooks[c] = p.after(w, sum, c, need, slices.ContainsFunc(fs, func(f finding.Finding) bool { return forGrace[f.Rule] }))
		for _, id := range made.Why {
			done[id] = true
		}
		return ""
	}
	for _, c := range slices.Concat(w.Pod.Containers, w.Pod.Sidecars) {
		about := p.wantsHook(w, c, floor, fs)
		if len(about) == 0 {
			continue
		}
		need, what := hookLength(c, floor)
		if reason := hold(c, need, what, about); reason != "" {
			for _, f := range about {
				if containerOf(w, f) == c && f.Rule != "DP322" {
					skipped = append(skipped, p.skip(f, reason))
				}
			}
		}
	}
	if len(hooks) > 0 {
		p.holdProxies(w, sum, hooks, func(c *model.Container, need int64, what string) bool { return hold(c, need, what, answered) == "" })
	}
	var graces []finding.Finding
	for _, f := range fs {
		switch {
		case forGrace[f.Rule]:
			graces = append(graces, f)
		case !done[f.Rule] && containerOf(w, f) == nil:
			skipped = append(skipped, p.skip(f, f.Remedy))
		}
	}
	if len(graces) > 0 {
		for _, c := range w.Pod.Containers {
			took, _ := budget.HookOf(c)
			if _, ok := hooks[c]; !ok && seconds(took) < endless {
				hooks[c] = p.after(w, sum, c, seconds(took), true)
			}
		}
	}
	n, because := w.Pod.Grace.N, ""
	for _, c := range w.Pod.Containers {
		// What the model cut to 32 bits may be longer as it is written.
		if h := hooks[c]; h.hook+h.app > n && w.Pod.Grace.N < math.MaxInt32 {
			n, because = h.hook+h.app, fmt.Sprintf("%d s of hook and %d s %s", h.hook, h.app, h.because)
		}
	}
	if n == w.Pod.Grace.N {
		for _, f := range graces {
			reason := f.Remedy
			if seconds(sum.LongHook) >= endless {
				reason = neverEnds
			}
			skipped = append(skipped, p.skip(f, reason))
		}
		return append(all, skipped...)
	}
	graces = append(graces, answered...)
	from := fmt.Sprintf("%d s", w.Pod.Grace.N)
	if !w.Pod.Grace.Set {
		from = "the default of " + from
	}
	path := w.SpecPath() + ".terminationGracePeriodSeconds"
	made := change(w.PodObject, path, fmt.Sprintf("raise the grace period from %s to %d s: %s", from, n, because), graces, edit{path: path, value: whole(n)})
	made.bond = "drain"
	return append(append(all, made), skipped...)
}

// unreadGrace says that a grace period is written which could not be read: what is not known must not be
// replaced, since it may be the longer one.
func unreadGrace(w *model.Workload) (written string, yes bool) {
	v := w.PodObject.Find(w.SpecPath() + ".terminationGracePeriodSeconds")
	if w.Pod.Grace.Set || !v.Exists() {
		return "", false
	}
	if text := v.Text(); text != "" && len(text) <= 40 {
		return strconv.Quote(text), true
	}
	return "something else", true
}

// hookLength is how long a container's hook should be, and why.
func hookLength(c *model.Container, floor *budget.Floor) (need int64, what string) {
	took, _ := budget.HookOf(c)
	if floor == nil {
		return seconds(took), "as its hook was meant to"
	}
	if need = longer(floor); seconds(took) > need {
		need = seconds(took)
	}
	return need, fmt.Sprintf("over %s new connections go on arriving for %d s", pathName(floor), seconds(floor.Least))
}

// holdProxies gives the proxies beside the containers that are held a hook too. Ordinary containers
// of a Pod are stopped in parallel: without it the proxy would be gone while the application serves on.
func (p *planner) holdProxies(w *model.Workload, sum budget.Sum, hooks map[*model.Container]plannedHook, hold func(c *model.Container, need int64, what string) bool) {
	longest := int64(0)
	for _, c := range w.Serving() {
		took, _ := budget.HookOf(c)
		longest = max(longest, seconds(took), hooks[c].hook)
	}
	if sum.Drain.Known {
		longest += seconds(sum.Drain.Took)
	}
	for _, c := range w.Pod.Containers {
		s := images.Identify(c.Image, c.Command, c.Args).Server
		took, known := budget.HookOf(c)
		if _, ok := hooks[c]; ok || s == nil || !s.Sidecar || slices.Contains(w.Serving(), c) || !known || seconds(took) >= longest {
			continue
		}
		if hold(c, longest, "the application beside it needs it that long") {
			// What the proxy itself needs after that is short; the application's time is in longest.
			h := hooks[c]
			h.app, h.because = margin, "to spare"
			hooks[c] = h
		}
	}
}

// wantsHook gives the findings that ask for a hook in a container. A rule may name one
// of several containers that clients talk to: the others would be named next.
func (p *planner) wantsHook(w *model.Workload, c *model.Container, floor *budget.Floor, fs []finding.Finding) []finding.Finding {
	var about []finding.Finding
	for _, f := range fs {
		on := containerOf(w, f)
		switch {
		case !forHook[f.Rule]:
		case f.Rule == "DP322":
			// Once the signal arrives, the server stops accepting on it.
			if _, _, _, ok := execable(c); ok && on == c && relieved(w) && p.lacksHook(w, c, floor) {
				about = append(about, f)
			}
		case f.Rule == "DP105":
			if relieved(w) && p.lacksHook(w, c, floor) {
				about = append(about, f)
			}
		case f.Rule == "DP106", f.Rule == "DP107":
			if on == c {
				about = append(about, f)
			}
		case on == c, p.lacksHook(w, c, floor):
			about = append(about, f)
		}
	}
	return about
}

// lacksHook says that clients talk to a container, and that nothing holds it as long as traffic arrives.
func (p *planner) lacksHook(w *model.Workload, c *model.Container, floor *budget.Floor) bool {
	if floor == nil || c.Sidecar || !slices.Contains(w.Serving(), c) {
		return false
	}
	s := images.Identify(c.Image, c.Command, c.Args).Server
	if s != nil && s.Clustered {
		return false
	}
	took, known := budget.HookOf(c)
	if goesOn, ok := s.Delay(c.Command, c.Args); ok {
		took += goesOn
	}
	return known && took < floor.Least && (c.PreStop == nil || c.PreStop.Broken == "")
}

// lasted is how long a container's hook has really held it, as far as is known.
func lasted(c *model.Container) time.Duration {
	h := c.PreStop
	if h != nil && (h.Shell || h.Sleeper) && images.Identify(c.Image, c.Command, c.Args).Shell == "no" {
		return 0 // its program is not there
	}
	took, _ := budget.HookOf(c)
	return took
}

// relieved says that another Pod can take over while one ends: else a hook only delays what is lost.
func relieved(w *model.Workload) bool {
	switch w.Object.Kind {
	case "Pod":
		return false
	case "DaemonSet", "Job", "CronJob":
		return true
	}
	surge, _ := w.RollingUpdate(1)
	return len(w.HPAs) > 0 || w.Replicas.N != 1 || surge > 0
}

// after works out the time that a container has after a hook of a length. wanting says that what
// it has so far was found to be too little.
func (p *planner) after(w *model.Workload, sum budget.Sum, c *model.Container, hook int64, wanting bool) plannedHook {
	h := plannedHook{hook: hook, app: seconds(time.Duration(w.Pod.Grace.N)*time.Second - lasted(c)), because: "that the application had"}
	switch {
	case sum.Drain.Known:
		drain := seconds(sum.Drain.Took)
		h.app, h.because = drain+margin, fmt.Sprintf("for the application (%d s by %s, and %d s to spare)", drain, sum.Drain.From, margin)
	case h.app <= margin, wanting && h.app < usual:
		h.app, h.because = usual, "for the application, as by default"
	}
	return h
}

// hook plans a preStop hook of a length, or says why there can be none.
func (p *planner) hook(w *model.Workload, c *model.Container, need int64) (e edit, how, reason string) {
	at := c.Path + ".lifecycle.preStop"
	h := c.PreStop
	known := images.Identify(c.Image, c.Command, c.Args)
	switch {
	case need >= endless:
		return e, "", neverEnds
	case need == 0:
		return e, "", "how long traffic goes on arriving is not known: set a preStop.sleep that outlasts what the clients remember"
	case c.Sidecar:
		return e, "", "a native sidecar is stopped after the containers that it serves: a hook would not wait for its turn"
	case h == nil || h.How == "" && w.PodObject.Find(at).Len() == 0:
		return p.newHook(w, c, at, need)
	case h.Broken != "":
		return e, "", fmt.Sprintf("its preStop hook fails as it is written (%s): replace it by a preStop.sleep of %d s", h.Broken, need)
	case h.How == "sleep" && p.Server >= nativeSleep:
		return edit{path: at + ".sleep.seconds", value: whole(need)}, "preStop.sleep", ""
	case h.How == "sleep":
		// Only the program of the image can do it then.
		e, how, reason = p.newHook(w, c, at, need)
		e.path, e.rename, e.value = at+".sleep", "exec", nested(words("sleep", fmt.Sprint(need)), "command")
		return e, how, reason
	case h.How == "exec" && h.Known && known.Shell == "no":
		if p.Server < nativeSleep {
			return p.newHook(w, c, at, need)
		}
		return edit{path: at + ".exec", rename: "sleep", value: nested(whole(need), "seconds")}, "preStop.sleep, in place of a program that the image does not have", ""
	case h.How == "exec" && h.Known && len(h.Exec) > 0:
		last := len(h.Exec) - 1
		if text, ok := sleepLonger(h.Exec[:last], h.Exec[last], need); ok {
			path := fmt.Sprintf("%s.exec.command[%d]", at, last)
			return edit{path: path, value: word(text)}, "its own hook, " + strings.Join(append(slices.Clone(h.Exec[:last]), text), " "), ""
		}
	}
	return e, "", fmt.Sprintf("its preStop hook does more than sleep: let it hold the container for %d s before the server stops accepting", need)
}

func (p *planner) newHook(w *model.Workload, c *model.Container, at string, need int64) (e edit, how, reason string) {
	if p.Server >= nativeSleep {
		return edit{path: at + ".sleep.seconds", value: whole(need)}, "preStop.sleep", ""
	}
	old := fmt.Sprintf("Kubernetes 1.%d has no preStop.sleep (on by default since 1.%d)", p.Server, nativeSleep)
	shell := images.Identify(c.Image, c.Command, c.Args).Shell
	switch {
	case w.Pod.OSName == "windows":
		return e, "", old + ", and Windows has no sleep program"
	case shell == "yes":
		return edit{path: at + ".exec.command", value: words("sleep", fmt.Sprint(need))}, "the image's sleep program", ""
	case shell == "no":
		return e, "", fmt.Sprintf("%s, and the image %s has no sleep program: let the application go on accepting for %d s after SIGTERM", old, c.Image, need)
	}
	return e, "", fmt.Sprintf(`%s, and whether the image %s has a sleep program is not known: if it has, set preStop.exec.command ["sleep", "%d"]`, old, c.Image, need)
}

// lastSleep is a command, or the end of one, that sleeps for a number of seconds.
var lastSleep = regexp.MustCompile(`^((?:exec )?(?:[\w/.-]*/)?sleep +)?\d+(?:\.\d+)?s?$`)

// sleepLonger gives the argument that makes a command which only sleeps do so for
// a number of seconds.
func sleepLonger(before []string, arg string, need int64) (string, bool) {
	m := lastSleep.FindStringSubmatch(arg)
	if m == nil {
		return "", false
	}
	program := ""
	if len(before) > 0 {
		program = before[len(before)-1]
		program = program[strings.LastIndexByte(program, '/')+1:]
	}
	if m[1] == "" && program != "sleep" {
		return "", false
	}
	return fmt.Sprintf("%s%d", m[1], need), true
}

// seconds rounds up to whole ones.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func pathName(f *budget.Floor) string {
	if f.Variant == "" {
		return f.Path
	}
	return f.Path + " (" + f.Variant + ")"
}
