package model

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sh makes the command of a shell.
func sh(text string) []string { return []string{"sh", "-c", text} }

func TestExecHooks(t *testing.T) {
	const s = time.Second
	// known: it takes took. Otherwise took is what it takes at least.
	type want struct {
		known          bool
		took, first    time.Duration
		shell, sleeper bool
		broken         bool
	}
	sleeps := func(d time.Duration) want { return want{known: true, took: d, first: d, shell: true, sleeper: true} }
	tests := []struct {
		name    string
		command []string
		want    want
	}{
		{"sleep", []string{"sleep", "5"}, want{known: true, took: 5 * s, first: 5 * s, sleeper: true}},
		{"sleep by its path", []string{"/bin/sleep", "0.5"}, want{known: true, took: s / 2, first: s / 2, sleeper: true}},
		{"units", []string{"sleep", "1m", "30s"}, want{known: true, took: 90 * s, first: 90 * s, sleeper: true}},
		{"without end", []string{"sleep", "infinity"}, want{known: true, took: Endless, first: Endless, sleeper: true}},
		{"longer than can be counted", []string{"sleep", strings.Repeat("9", 400)}, want{known: true, took: Endless, first: Endless, sleeper: true}},
		{"busybox", []string{"/busybox/busybox", "sleep", "7"}, want{known: true, took: 7 * s, first: 7 * s, sleeper: true}},
		{"env", []string{"/usr/bin/env", "A=b", "sleep", "7"}, want{known: true, took: 7 * s, first: 7 * s, sleeper: true}},
		{"no shell puts anything in", []string{"sleep", "${WAIT}"}, want{known: true, sleeper: true, broken: true}},
		{"no time", []string{"sleep"}, want{known: true, sleeper: true, broken: true}},
		{"no shell joins commands", []string{"sleep", "5", "&&", "nginx", "-s", "quit"}, want{known: true, sleeper: true, broken: true}},
		{"one text", []string{"sleep 5"}, want{known: true, broken: true}},
		{"nothing", nil, want{known: true, broken: true}},
		{"a shell's word", []string{"exec", "sleep", "5"}, want{known: true, broken: true}},
		{"true", []string{"/bin/true"}, want{known: true}},
		{"a program", []string{"/wait-shutdown"}, want{}},
		{"a script", []string{"/bin/sh", "/drain.sh"}, want{shell: true}},
		{"a signal", []string{"/usr/sbin/nginx", "-s", "quit"}, want{known: true}},
		{"a server", []string{"nginx", "-g", "daemon off;"}, want{}},

		{"in a shell", []string{"/bin/sh", "-c", "sleep 5"}, sleeps(5 * s)},
		{"sleep, then the server's stop", sh("sleep 5 && nginx -s quit"), sleeps(5 * s)},
		{"the server's stop, then sleep", sh("nginx -s quit; sleep 5"), want{known: true, took: 5 * s, shell: true, sleeper: true}},
		{"sleep, then a program", []string{"bash", "-ec", "sleep 15; /app/drain"}, want{took: 15 * s, first: 15 * s, shell: true, sleeper: true}},
		{"a program, then sleep", sh("curl -X POST localhost:8080/drain ; sleep 10"), want{took: 10 * s, shell: true, sleeper: true}},
		{"a program that may fail", sh("curl localhost && sleep 10"), want{shell: true, sleeper: true}},
		{"or", sh("curl localhost || sleep 10"), want{shell: true, sleeper: true}},
		{"a failure that does not matter", sh("curl localhost || true; sleep 10"), want{took: 10 * s, shell: true, sleeper: true}},
		{"errexit and a program that may fail", []string{"sh", "-ec", "curl localhost; sleep 10"}, want{shell: true, sleeper: true}},
		{"errexit by set", sh("set -e; curl localhost; sleep 10"), want{shell: true, sleeper: true}},
		{"errexit by its long name", []string{"bash", "-o", "errexit", "-c", "kill 1; sleep 10"}, want{shell: true, sleeper: true}},
		{"errexit and a failure", sh("set -eu; false; sleep 10"), want{known: true, shell: true, sleeper: true}},
		{"errexit taken back", sh("set -e; set +e; curl localhost; sleep 10"), want{took: 10 * s, shell: true, sleeper: true}},
		{"errexit and or", []string{"sh", "-ec", "curl localhost || true; sleep 10"}, want{took: 10 * s, shell: true, sleeper: true}},
		{"a program, then sleeps", sh("/drain; sleep 1; sleep 2"), want{took: 3 * s, shell: true, sleeper: true}},
		{"harmless things first", sh("echo bye > /proc/1/fd/1 2>&1; touch /tmp/draining && sleep 20"), sleeps(20 * s)},
		{"comments and lines", sh("# wait for the load balancer\n\nsleep 5 # enough\n  sleep 2m\n"), sleeps(125 * s)},
		{"a line that goes on", sh("sleep \\\n 5 &&\n\n sleep 1"), sleeps(6 * s)},
		{"quotes", sh(`sleep "5" '1'`), sleeps(6 * s)},
		{"exec", sh("exec sleep 5"), sleeps(5 * s)},
		{"nothing after exec", sh("exec sleep 5; sleep 7"), sleeps(5 * s)},
		{"nothing after exit", sh("exit 0; sleep 7"), want{known: true, shell: true, sleeper: true}},
		{"an exit that may come", sh("test -f /x && exit 0; sleep 7"), want{shell: true, sleeper: true}},
		{"a shell in a shell that ends", sh("sh -c 'exit 0'; sleep 7"), sleeps(7 * s)},
		{"options of the shell", []string{"bash", "--norc", "-x", "-euo", "pipefail", "-c", "sleep 5"}, sleeps(5 * s)},
		{"a variable with a default", sh("sleep ${WAIT:-5}"), want{shell: true, sleeper: true}},
		{"a variable", sh("WAIT=5; sleep $WAIT"), want{shell: true, sleeper: true}},
		{"a variable, then a sleep", sh("sleep $WAIT; sleep 2"), want{took: 2 * s, first: 2 * s, shell: true, sleeper: true}},
		{"what another command says", sh("sleep $(cat /wait)"), want{shell: true, sleeper: true}},
		{"another command, quoted", sh("echo \"at `date`\"; sleep 3"), want{took: 3 * s, shell: true, sleeper: true}},
		{"a script in a shell", sh("/drain.sh"), want{shell: true}},
		{"in the background, with the hook's outputs", sh("sleep 10 &"), want{shell: true, sleeper: true}},
		{"in the background, with one of them", sh("sleep 10 >/dev/null &"), want{shell: true, sleeper: true}},
		{"in the background, with one of them by its order", sh("sleep 10 2>&1 >/dev/null &"), want{shell: true, sleeper: true}},
		{"in the background, with the hook's output by its name", sh("sleep 10 >/dev/stdout 2>/dev/null &"), want{shell: true, sleeper: true}},
		{"in the background, a pipeline", sh("sleep 10 2>/dev/null | cat >/dev/null &"), want{shell: true, sleeper: true}},
		{"in the background, without the hook's outputs", sh("sleep 10 >/dev/null 2>&1 &"), want{known: true, shell: true, sleeper: true}},
		{"in the background, with its outputs closed", sh("nohup sleep 10 >&- 2>&- </dev/null &"), want{known: true, shell: true, sleeper: true}},
		{"in the background, each output to a file", sh("sleep 10 1>>/log 2>>/log &\nsleep 3"), sleeps(3 * s)},
		{"in the background, in no time", sh("nginx -s quit & sleep 5"), want{known: true, took: 5 * s, shell: true, sleeper: true}},
		{"waited for", sh("sleep 10 & wait"), want{shell: true, sleeper: true}},
		{"beside something", sh("/drain & sleep 10"), want{took: 10 * s, shell: true, sleeper: true}},
		{"a pipeline", sh("echo draining | sleep 4"), sleeps(4 * s)},
		{"a pipeline with a program", sh("sleep 4 | tee /log"), want{took: 4 * s, shell: true, sleeper: true}},
		{"a loop", sh("nginx -s quit; while pgrep nginx; do sleep 1; done"), want{shell: true, sleeper: true}},
		{"a loop after a sleep", sh("sleep 5; while pgrep nginx; do sleep 1; done"), want{took: 5 * s, first: 5 * s, shell: true, sleeper: true}},
		{"a condition", sh("if [ -f /x ]; then sleep 5; fi"), want{shell: true, sleeper: true}},
		{"a condition in the way", sh("[ -f /x ] && sleep 5"), want{shell: true, sleeper: true}},
		{"a group", sh("(sleep 5)"), want{shell: true, sleeper: true}},
		{"a chain that is not understood may be in the background", sh("sleep 5 && (a) &"), want{shell: true, sleeper: true}},
		{"a here-document", sh("cat <<E\nsleep 5\nE\n"), want{shell: true, sleeper: true}},
		{"not closed", sh("sleep 5; echo '"), want{shell: true, sleeper: true}},
		{"to the background or to a file, as the shell may be", sh("sleep 5 &>/dev/null"), want{shell: true, sleeper: true}},
		{"&& with nothing after it", sh("sleep 5; true &&"), want{took: 5 * s, first: 5 * s, shell: true, sleeper: true}},
		{"the words after -c", []string{"sh", "-c", "sleep", "5"}, want{known: true, shell: true, sleeper: true, broken: true}},
		{"nothing after -c", []string{"sh", "-c"}, want{known: true, shell: true, broken: true}},
		{"no number", sh("sleep five"), want{known: true, shell: true, sleeper: true, broken: true}},
		{"no number, then one", sh("sleep five; sleep 5"), sleeps(5 * s)},
		{"too deep", sh(`sh -c "sh -c 'sh -c \"sh -c \\\"sh -c sleep\\\"\"'"`), want{shell: true, sleeper: true}},
		{"a carriage return", sh("sleep 5\r"), want{known: true, shell: true, sleeper: true, broken: true}},
		{"a pattern", sh("sleep {1,2}"), want{shell: true, sleeper: true}},
		{"a redirection of a descriptor", sh("sleep 3 2>/dev/null 1>&2"), sleeps(3 * s)},
		{"assigned for one command", sh("TZ=UTC sleep 3"), sleeps(3 * s)},

		{"python", []string{"python", "-c", "import time; time.sleep(10)"}, want{known: true, took: 10 * s, first: 10 * s}},
		{"python 3", []string{"/usr/bin/python3.12", "-u", "-c", "from time import sleep\nsleep(2.5)\n"}, want{known: true, took: 2500 * time.Millisecond, first: 2500 * time.Millisecond}},
		{"python that does more", []string{"python", "-c", "import time; time.sleep(10); drain()"}, want{took: 10 * s, first: 10 * s}},
		{"python's script", []string{"python", "/drain.py", "-c", "x"}, want{}},
		{"perl", []string{"perl", "-e", "sleep 10"}, want{known: true, took: 10 * s, first: 10 * s}},
		{"node", []string{"/nodejs/bin/node", "-e", "setTimeout(() => process.exit(0), 10000)"}, want{known: true, took: 10 * s, first: 10 * s}},
		{"node that does more", []string{"node", "-e", "stop(); setTimeout(() => {}, 10000)"}, want{}},
		{"powershell", []string{"powershell.exe", "-NoProfile", "-Command", "Start-Sleep -Seconds 12"}, want{known: true, took: 12 * s, first: 12 * s}},
		{"pwsh", []string{"pwsh", "-c", "Start-Sleep", "-m", "500"}, want{known: true, took: s / 2, first: s / 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := &Hook{How: "exec", Exec: test.command}
			h.time(readCommand(test.command))
			got := want{h.Known, h.AtLeast, h.SleepsFirst, h.Shell, h.Sleeper, h.Broken != ""}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%q (broken: %s) -want +got:\n%s", test.command, h.Broken, diff)
			}
			sane(t, h)
		})
	}
}

// sane holds a hook to what its fields promise.
func sane(t testing.TB, h *Hook) {
	t.Helper()
	if h.Known && h.AtLeast != h.Took || !h.Known && h.Took != 0 {
		t.Errorf("known %v, took %v, at least %v", h.Known, h.Took, h.AtLeast)
	}
	if h.SleepsFirst < 0 || h.SleepsFirst > h.AtLeast || h.AtLeast > Endless {
		t.Errorf("first %v of at least %v", h.SleepsFirst, h.AtLeast)
	}
	if h.Broken != "" && !(h.Known && h.Took == 0) {
		t.Errorf("broken (%s), but known %v and took %v", h.Broken, h.Known, h.Took)
	}
}

func TestHookHandlers(t *testing.T) {
	tests := []struct {
		handler string
		want    Hook
	}{
		{"{sleep: {seconds: 0}}", Hook{How: "sleep", Known: true}},
		{"{sleep: {}}", Hook{How: "sleep", Known: true, Broken: "sleep has no seconds"}},
		{"{httpGet: {path: /drain, port: 8080}}", Hook{How: "http", Path: "/drain", Port: "8080"}},
		{"{tcpSocket: {port: 80}}", Hook{How: "tcp", Port: "80", Known: true, Broken: "the kubelet runs no tcpSocket hooks"}},
		{"{}", Hook{Known: true, Broken: "it has no handler: exec, httpGet or sleep"}},
		{"{exec: {}}", Hook{How: "exec", Known: true, Broken: "its command is empty"}},
		{`{exec: {command: [sh, -c, sleep, "5"]}}`, Hook{
			How: "exec", Exec: []string{"sh", "-c", "sleep", "5"}, Known: true, Shell: true, Sleeper: true,
			Broken: `sh -c runs only "sleep": the whole command must be one text`,
		}},
		{`{exec: {command: ["sleep 5"]}}`, Hook{
			How: "exec", Exec: []string{"sleep 5"}, Known: true,
			Broken: `it is one text, and no program is called "sleep 5": each word must be an element of its own`,
		}},
	}
	for _, test := range tests {
		got := pod(t, "  containers: [{name: app, lifecycle: {preStop: "+test.handler+"}}]").Containers[0].PreStop
		test.want.At = "spec.containers[0].lifecycle.preStop"
		same(t, &test.want, got)
		sane(t, got)
	}
	if h := pod(t, "  containers: [{name: app, lifecycle: {preStop: null}}]").Containers[0].PreStop; h != nil {
		t.Errorf("a hook that is null is read as %+v", h)
	}
}

func TestSplit(t *testing.T) {
	show := func(tokens []token) string {
		var b strings.Builder
		for _, t := range tokens {
			switch {
			case t.op != "":
				b.WriteString(t.op)
			case t.word.runs:
				b.WriteString("<runs>")
			case !t.word.fixed:
				b.WriteString("<" + t.word.text + ">")
			default:
				b.WriteString("[" + t.word.text + "]")
			}
		}
		return b.String()
	}
	tests := []struct{ text, want string }{
		{``, ``},
		{`a b\ c "d e" 'f "g'`, `[a][b c][d e][f "g]`},
		{`a""b ''`, `[ab][]`},
		{`"a\"b\$c\d"`, `[a"b$c\d]`},
		{`a;b&c&&d|e||f`, `[a];[b]&[c]&&[d]|[e]||[f]`},
		{"a # b\n#c\nd#e", "[a]\n\n[d#e]"},
		{`$a "${b:-c}" $? $`, `<$a><${b:-c}><$?>[$]`},
		{"$(a 'b)' \"c)\" (d)) `e\\`f`", `<runs><runs>`},
		{`"$(a "b" ")")"`, `<runs>`},
		{`a >b 2>>c <d 3>&1 e2>f`, `[a]>[b]>[c]>[d]>[1][e2]>[f]`},
		{"a\\\nb \\\n c", `[ab][c]`},
		{`* {a,b} ~ { x=*`, `<*><{a,b}><~>[{]<x=*>`},
	}
	for _, test := range tests {
		tokens, ok := split(test.text)
		if got := show(tokens); got != test.want || !ok {
			t.Errorf("split(%q) = %s, %v; want %s", test.text, got, ok, test.want)
		}
	}
	for _, text := range []string{`'`, `"`, "`", `$(`, `${`, `"$(`, `<<E`, `<(a)`, `$'a'`, `$"a"`, `&>a`, `a |& b`, "`\\"} {
		if tokens, ok := split(text); ok {
			t.Errorf("split(%q) = %s; it should give up", text, show(tokens))
		}
	}
}
