package cmdline

import (
	"testing"
	"time"
)

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		name          string
		command, args []string
		program       string
		want          bool
	}{
		{"plain", []string{"gunicorn"}, []string{"app:app"}, "gunicorn", true},
		{"with its folder", []string{"/venv/bin/gunicorn", "app:app"}, nil, "gunicorn", true},
		{"behind a shell", []string{"sh", "-c"}, []string{"exec gunicorn --workers 2 app:app"}, "gunicorn", true},
		{"as a module", []string{"python", "-m", "uvicorn", "main:app"}, nil, "uvicorn", true},
		{"behind an init", []string{"tini", "--", "uvicorn"}, nil, "uvicorn", true},
		{"a flag's value", []string{"server", "--user", "gunicorn"}, nil, "gunicorn", false},
		{"after a flag with its value", []string{"server", "--user=me", "gunicorn"}, nil, "gunicorn", true},
		{"part of a name", []string{"gunicorn-exporter"}, nil, "gunicorn", false},
		{"nothing written", nil, nil, "gunicorn", false},
	} {
		if got := Of(c.command, c.args).Runs(c.program); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFlag(t *testing.T) {
	for _, c := range []struct {
		line  string
		want  string
		found bool
	}{
		{"gunicorn --graceful-timeout 40 app", "40", true},
		{"gunicorn --graceful-timeout=40 app", "40", true},
		{"gunicorn --graceful-timeout=40 --graceful-timeout 50", "50", true},
		{"gunicorn '--graceful-timeout=40'", "40", true},
		{"gunicorn --graceful-timeout", "", false},
		{"gunicorn --graceful-timeouts 40", "", false},
		{"", "", false},
	} {
		got, found := Words(c.line).Flag("--graceful-timeout")
		if got != c.want || found != c.found {
			t.Errorf("%q: got %q %v, want %q %v", c.line, got, found, c.want, c.found)
		}
	}
}

func TestProperty(t *testing.T) {
	const name = "server.tomcat.keep-alive-timeout"
	for _, c := range []struct {
		what string
		env  map[string]string
		line string
		want Setting
	}{
		{"an argument", nil, "java -jar app.jar --server.tomcat.keep-alive-timeout=75s", Setting{Value: "75s", Flag: "--server.tomcat.keep-alive-timeout=75s"}},
		{"a Java option", nil, "java -Dserver.tomcat.keep-alive-timeout=75s -jar app.jar", Setting{Value: "75s", Flag: "-Dserver.tomcat.keep-alive-timeout=75s"}},
		{"the variable", map[string]string{"SERVER_TOMCAT_KEEPALIVETIMEOUT": "75s"}, "", Setting{Value: "75s", Env: "SERVER_TOMCAT_KEEPALIVETIMEOUT"}},
		{"the older variable", map[string]string{"SERVER_TOMCAT_KEEP_ALIVE_TIMEOUT": "75s"}, "", Setting{Value: "75s", Env: "SERVER_TOMCAT_KEEP_ALIVE_TIMEOUT"}},
		{"options in a variable", map[string]string{"JAVA_OPTS": "-Xmx1g -Dserver.tomcat.keep-alive-timeout=75s"}, "", Setting{Value: "75s", Env: "JAVA_OPTS"}},
		{"the argument wins", map[string]string{"SERVER_TOMCAT_KEEPALIVETIMEOUT": "5s"}, "java --server.tomcat.keep-alive-timeout=75s", Setting{Value: "75s", Flag: "--server.tomcat.keep-alive-timeout=75s"}},
		{"another property", map[string]string{"SERVER_TOMCAT_THREADS_MAX": "9"}, "java --server.port=1", Setting{}},
	} {
		got, ok := Property(c.env, Words(c.line), name)
		if got != c.want || ok != (c.want != Setting{}) {
			t.Errorf("%s: got %+v %v, want %+v", c.what, got, ok, c.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		unit time.Duration
		want time.Duration
		ok   bool
	}{
		{"25s", 0, 25 * time.Second, true},
		{"1m30s", time.Second, 90 * time.Second, true},
		{"PT30S", time.Millisecond, 30 * time.Second, true},
		{"30", time.Second, 30 * time.Second, true},
		{"2.5", time.Second, 2500 * time.Millisecond, true},
		{"20000", time.Millisecond, 20 * time.Second, true},
		{"30", 0, 0, false},
		{"-5", time.Second, 0, false},
		{"-5s", time.Second, 0, false},
		{"1e300", time.Second, 0, false},
		{"NaN", time.Second, 0, false},
		{"soon", time.Second, 0, false},
		{"", time.Second, 0, false},
	} {
		got, ok := Duration(c.text, c.unit)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("Duration(%q, %s): got %s %v, want %s %v", c.text, c.unit, got, ok, c.want, c.ok)
		}
	}
}
