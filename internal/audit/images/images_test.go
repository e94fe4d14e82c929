package images

import (
	"slices"
	"testing"
	"time"
)

func TestIdentifyByImage(t *testing.T) {
	for _, c := range []struct {
		image, server string
		official      bool
		stop          string
		shell, sh     string
	}{
		{"nginx", "nginx", true, "SIGQUIT", "yes", "dash"},
		{"nginx:1.29-alpine", "nginx", true, "SIGQUIT", "yes", "busybox"},
		{"docker.io/library/nginx:1.29@sha256:0123", "nginx", true, "SIGQUIT", "yes", "dash"},
		{"public.ecr.aws/docker/library/nginx:1.29", "nginx", true, "SIGQUIT", "yes", "dash"},
		{"nginx:1.14.2", "nginx", true, "", "yes", "dash"},
		{"nginx:1.10", "nginx", true, "", "yes", "dash"},
		{"nginx:1.13.0", "nginx", false, "SIGQUIT", "yes", "dash"},
		{"nginx:1.18", "nginx", false, "SIGQUIT", "yes", "dash"},
		{"nginx:1.19.4", "nginx", false, "SIGQUIT", "yes", "dash"},
		{"nginx:1.19", "nginx", true, "SIGQUIT", "yes", "dash"},
		{"nginxinc/nginx-unprivileged:1.29", "nginx", true, "SIGQUIT", "", ""},
		{"bitnami/nginx:1.25.4", "nginx", true, "", "yes", ""},
		{"localhost:5000/nginx", "nginx", false, "SIGQUIT", "", ""},
		{"registry.example:5000/team/nginx:1.29", "nginx", false, "SIGQUIT", "", ""},
		{"cgr.dev/chainguard/nginx:latest", "nginx", true, "SIGQUIT", "no", ""},
		{"cgr.dev/chainguard/nginx:latest-dev", "nginx", true, "SIGQUIT", "", ""},
		{"nginx/nginx-prometheus-exporter:1.4", "", false, "", "", ""},
		{"openresty/openresty:alpine", "openresty", true, "SIGQUIT", "yes", "busybox"},
		{"httpd:2.4", "httpd", true, "SIGWINCH", "yes", "dash"},
		{"php:8.4-apache", "httpd", true, "SIGWINCH", "yes", "dash"},
		{"php:8.4-fpm-alpine", "php-fpm", true, "SIGQUIT", "yes", "busybox"},
		{"php:8.4", "php", false, "", "yes", "dash"},
		{"wordpress:6", "httpd", true, "SIGWINCH", "yes", "dash"},
		{"wordpress:6-fpm", "php-fpm", true, "SIGQUIT", "yes", "dash"},
		{"haproxy:3.2", "haproxy", true, "SIGUSR1", "yes", "dash"},
		{"postgres:18", "postgres", true, "SIGINT", "yes", "dash"},
		{"bitnami/postgresql:17", "postgres", false, "SIGINT", "yes", ""},
		{"redis:alpine", "redis", false, "", "yes", "busybox"},
		{"registry.k8s.io/redis:e2e", "redis", false, "", "", ""},
		{"registry.k8s.io/ingress-nginx/controller:v1.15.1@sha256:59", "the ingress-nginx controller", false, "", "", ""},
		{"registry.k8s.io/ingress-nginx/kube-webhook-certgen:v1.6.9", "", false, "", "", ""},
		{"cr.l5d.io/linkerd/proxy:stable", "linkerd-proxy", false, "", "no", ""},
		{"gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.18.0", "cloud-sql-proxy", false, "", "no", ""},
		{"gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.18.0-alpine", "cloud-sql-proxy", false, "", "yes", "busybox"},
		{"gcr.io/distroless/static-debian12", "", false, "", "no", ""},
		{"gcr.io/distroless/static-debian12:debug", "", false, "", "yes", "busybox"},
		{"envoyproxy/envoy:distroless-v1.36.0", "envoy", false, "", "no", ""},
		{"registry.access.redhat.com/ubi9/ubi-minimal:9.6", "", false, "", "yes", "bash"},
		{"busybox:1.38.0", "", false, "", "yes", "busybox"},
		{"node:22-bookworm", "node", false, "", "yes", "dash"},
		{"", "", false, "", "", ""},
		{":", "", false, "", "", ""},
	} {
		k := Identify(c.image, nil, nil)
		server, stop := "", ""
		if k.Server != nil {
			server, stop = k.Server.Name, k.Server.ImageStop
		}
		if server != c.server || k.Official != c.official || stop != c.stop || k.Shell != c.shell || k.Sh != c.sh {
			t.Errorf("%s: got %q official %v stop %q shell %q sh %q, want %q %v %q %q %q", c.image, server, k.Official, stop, k.Shell, k.Sh, c.server, c.official, c.stop, c.shell, c.sh)
		}
	}
}

func TestIdentifyByCommand(t *testing.T) {
	for _, c := range []struct {
		image         string
		command, args []string
		server        string
		official      bool
	}{
		{"registry.example/shop", []string{"gunicorn", "shop.wsgi"}, nil, "gunicorn", false},
		{"registry.example/shop", []string{"/venv/bin/python3.12", "-m", "uvicorn"}, nil, "uvicorn", false},
		{"registry.example/shop", []string{"python", "-u", "-m", "gunicorn", "shop.wsgi"}, nil, "gunicorn", false},
		{"registry.example/shop", []string{"python", "app.py", "-m", "gunicorn"}, nil, "python", false},
		{"registry.example/shop", []string{"poetry", "run", "gunicorn", "shop.wsgi"}, nil, "gunicorn", false},
		{"registry.example/shop", []string{"bundle", "exec", "puma"}, nil, "ruby", false},
		{"registry.example/shop", []string{"sh", "-c", "migrate && exec env A=b gunicorn shop.wsgi"}, nil, "gunicorn", false},
		{"registry.example/shop", []string{"tini", "-g", "--", "node", "server.js"}, nil, "node", false},
		{"registry.example/shop", []string{"su-exec", "www", "php-fpm8.3"}, nil, "php-fpm", false},
		{"registry.example/shop", []string{"fastapi", "run"}, nil, "uvicorn", false},
		{"registry.example/shop", []string{"npm"}, []string{"start"}, "node", false},
		{"nginx:1.29", []string{"nginx", "-g", "daemon off;"}, nil, "nginx", true},
		{"nginx:1.14.2", []string{"/bin/sh", "-c", "envsubst < a > b && nginx -g 'daemon off;'"}, nil, "nginx", true},
		{"nginx:1.29", []string{"sleep", "3600"}, nil, "", false},
		{"nginx:1.29", []string{"/docker-entrypoint.sh", "nginx"}, nil, "nginx", true},
		{"redis:8", nil, []string{"--appendonly", "yes"}, "redis", false},
		{"postgres:18", nil, []string{"-c", "max_connections=200"}, "postgres", true},
		{"registry.k8s.io/ingress-nginx/controller:v1", nil, []string{"/nginx-ingress-controller"}, "the ingress-nginx controller", false},
		{"registry.example/shop", nil, []string{"node", "server.js"}, "node", false},
	} {
		k := Identify(c.image, c.command, c.args)
		server := ""
		if k.Server != nil {
			server = k.Server.Name
		}
		if server != c.server || k.Official != c.official {
			t.Errorf("%s %q %q: got %q official %v, want %q %v", c.image, c.command, c.args, server, k.Official, c.server, c.official)
		}
	}
}

func TestStarted(t *testing.T) {
	for _, c := range []struct {
		name      string
		command   []string
		shell     string
		ending    Ending
		argv      []string
		redirects bool
	}{
		{"no shell", []string{"server", "--port", "80"}, "", NoShell, []string{"server", "--port", "80"}, false},
		{"exec", []string{"sh", "-c", "exec server --port 80"}, "sh", Replaced, []string{"server", "--port", "80"}, false},
		{"exec at the end", []string{"sh", "-ec", "set -e; migrate\nexec server"}, "sh", Replaced, []string{"server"}, false},
		{"exec behind an if", []string{"sh", "-c", "if [ -f a ]; then . a; fi; exec server"}, "sh", Replaced, []string{"server"}, false},
		{"exec inside an if", []string{"sh", "-c", "if [ -f a ]; then exec one; else exec two; fi"}, "sh", Unreadable, nil, false},
		{"only a redirection", []string{"sh", "-c", "server; exec 2>&1"}, "sh", Unreadable, []string{}, true},
		{"single", []string{"bash", "-c", "server"}, "bash", Single, []string{"server"}, false},
		{"single with a variable", []string{"sh", "-c", "PORT=80 server"}, "sh", Single, []string{"server"}, false},
		{"single with a redirection", []string{"bash", "-c", "server >/var/log/x 2>&1"}, "bash", Single, []string{"server"}, true},
		{"an operator in quotes", []string{"sh", "-c", `server --match "a|b; c & d"`}, "sh", Single, []string{"server", "--match", "a|b; c & d"}, false},
		{"an operator in a substitution", []string{"sh", "-c", "server --id $(hostname | cut -d- -f2)"}, "sh", Single, []string{"server", "--id", "$(hostname | cut -d- -f2)"}, false},
		{"a comment", []string{"sh", "-c", "# start; stop\nserver # now & here"}, "sh", Single, []string{"server"}, false},
		{"a continued line", []string{"sh", "-c", "server \\\n  --port 80\n"}, "sh", Single, []string{"server", "--port", "80"}, false},
		{"last", []string{"sh", "-c", "migrate && server"}, "sh", Last, []string{"server"}, false},
		{"options before -c", []string{"bash", "-o", "pipefail", "-c", "migrate; server"}, "bash", Last, []string{"server"}, false},
		{"options after -c", []string{"sh", "-c", "-e", "server"}, "sh", Single, []string{"server"}, false},
		{"a loop before", []string{"sh", "-c", "until nc -z db 5432; do sleep 1; done; server"}, "sh", Last, []string{"server"}, false},
		{"a pipeline", []string{"sh", "-c", "migrate; server 2>&1 | tee log"}, "sh", Kept, []string{"server"}, false},
		{"in the background", []string{"sh", "-c", "exporter & server & wait"}, "sh", Kept, []string{"server"}, false},
		{"something behind it", []string{"bash", "-c", "server; echo gone"}, "bash", Kept, []string{"server"}, false},
		{"a log that is followed", []string{"bash", "-c", "service nginx start && tail -f /var/log/nginx/access.log"}, "bash", Kept, []string{"service", "nginx", "start"}, false},
		{"a loop", []string{"sh", "-c", "while true; do server; sleep 1; done"}, "sh", Kept, []string{"server"}, false},
		{"a subshell", []string{"sh", "-c", "(cd /app && server)"}, "sh", Kept, []string{"server"}, false},
		{"a trap", []string{"bash", "-c", "trap 'kill $P' TERM; server & P=$!; wait $P"}, "bash", Handled, nil, false},
		{"a here-document", []string{"sh", "-c", "cat <<E > conf\na\nE\nserver"}, "sh", Unreadable, nil, false},
		{"a function", []string{"sh", "-c", "run() { exec server; }; run"}, "sh", Unreadable, nil, false},
		{"unbalanced", []string{"sh", "-c", "server 'a"}, "sh", Unreadable, nil, false},
		{"only idle", []string{"sh", "-c", "sleep infinity"}, "sh", Unreadable, nil, false},
		{"a script file", []string{"/bin/bash", "start.sh"}, "bash", NoShell, nil, false},
		{"behind an init", []string{"tini", "--", "sh", "-c", "a; server"}, "sh", Last, []string{"server"}, false},
		{"a supervisor", []string{"supervisord", "-c", "/etc/supervisord.conf"}, "", NoShell, nil, false},
	} {
		p := Started(c.command, nil)
		if p.Shell != c.shell || p.Ending != c.ending || p.Redirects != c.redirects {
			t.Errorf("%s: got shell %q ending %d redirects %v, want %q %d %v", c.name, p.Shell, p.Ending, p.Redirects, c.shell, c.ending, c.redirects)
		}
		if c.argv != nil && !slices.Equal(p.Argv, c.argv) {
			t.Errorf("%s: got argv %q, want %q", c.name, p.Argv, c.argv)
		}
		if p.Assumed {
			t.Errorf("%s: a command is not assumed", c.name)
		}
	}
	if p := Started(nil, []string{"sh", "-c", "server"}); !p.Assumed {
		t.Error("arguments alone go to an entrypoint that is not known")
	}
	if p := Started([]string{"/app/start.sh", "now"}, nil); p.File != "/app/start.sh" {
		t.Errorf("a script file is not seen: %+v", p)
	}
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		server *Server
		args   []string
		want   time.Duration
		set    bool
	}{
		{ingressNginx, []string{"/nginx-ingress-controller", "--shutdown-grace-period=20"}, 20 * time.Second, true},
		{ingressNginx, []string{"/nginx-ingress-controller", "--shutdown-grace-period", "20"}, 20 * time.Second, true},
		{ingressNginx, []string{"/nginx-ingress-controller", "--post-shutdown-grace-period=20"}, 0, false},
		{traefik, []string{"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=10s"}, 10 * time.Second, true},
		{traefik, []string{"--entrypoints.web.transport.lifecycle.requestacceptgracetimeout=10"}, 10 * time.Second, true},
		{cloudSQLProxy, []string{"-term_timeout=30s"}, 30 * time.Second, true},
		{cloudSQLProxy, []string{"--max-sigterm-delay=20", "--min-sigterm-delay=5s"}, 20 * time.Second, true},
		{nginx, []string{"--shutdown-grace-period=20"}, 0, false},
		{nil, nil, 0, false},
	} {
		if got, set := c.server.Delay(nil, c.args); got != c.want || set != c.set {
			t.Errorf("%q: got %s %v, want %s %v", c.args, got, set, c.want, c.set)
		}
	}
}

func TestDrains(t *testing.T) {
	for _, c := range []struct {
		server    *Server
		hook      string
		ok, waits bool
		before    string
	}{
		{nginx, "/bin/sh -c sleep 5; /usr/sbin/nginx -s quit", true, false, "/bin/sh -c sleep 5; /usr/sbin/"},
		{nginx, "sh -c kill -QUIT 1; sleep 20", true, true, "sh -c "},
		{nginx, "sh -c kill -s SIGQUIT $(cat /run/nginx.pid); while pgrep nginx; do sleep 1; done", true, true, "sh -c "},
		{nginx, "sh -c kill -3 1", true, false, "sh -c "},
		{nginx, "nginx -s stop", false, false, ""},
		{nginx, "sh -c kill -TERM 1", false, false, ""},
		{nginx, "sleep 10", false, false, ""},
		{httpd, "apachectl -k graceful-stop", true, false, ""},
		{haproxy, "sh -c pkill -USR1 haproxy; sleep 20", true, true, "sh -c "},
		{ingressNginx, "/wait-shutdown", true, true, ""},
		{envoy, "wget --post-data= localhost:9901/healthcheck/fail", true, false, "wget --post-data= localhost:9901/"},
		{gunicorn, "kill -QUIT 1", false, false, ""},
		{nil, "nginx -s quit", false, false, ""},
	} {
		d, ok := c.server.Drains(c.hook)
		if ok != c.ok || d.Before != c.before || ok && d.Waits() != c.waits {
			t.Errorf("%q: got %+v %v waits %v, want before %q %v waits %v", c.hook, d, ok, d.Waits(), c.before, c.ok, c.waits)
		}
	}
}

// TestTable: what the table says of a server is complete enough to be printed.
func TestTable(t *testing.T) {
	all := map[*Server]bool{nginxOnTERM: true, bitnamiNginx: true, phpApache: true, phpFPM: true, phpCLI: true}
	for _, m := range []map[string]*Server{byRepository, byPath, byCommand} {
		for name, s := range m {
			if s == nil {
				t.Fatalf("%s has no server", name)
			}
			all[s] = true
		}
	}
	for s := range all {
		if s.Name == "" || s.OnTERM == "" || len(s.Sources) == 0 {
			t.Errorf("%+v lacks name, what SIGTERM does, or a source", s)
		}
		if s.ImageStop != "" && len(s.Official) == 0 {
			t.Errorf("%s has a STOPSIGNAL and no image that carries it", s.Name)
		}
		if s.Clustered && s.ClosesListener {
			t.Errorf("%s cannot be both clustered and refuse its clients", s.Name)
		}
	}
}

// FuzzStarted: no command line brings the reader down.
func FuzzStarted(f *testing.F) {
	for _, s := range []string{"exec a", "a | b & wait", "$(", "`", "${a", "a >", "((", "if", "a;;b", "\\", "'", "&&", "f(){ a;}", "2>&1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, argv := range [][]string{{"sh", "-c", text}, {text}, {"env", text}, {"tini", text, text}} {
			p := Started(argv, nil)
			_ = p.Name()
			Identify(text, argv, nil)
		}
		for _, s := range []*Server{nginx, envoy, traefik} {
			s.Drains(text)
			s.Delay([]string{text}, nil)
		}
	})
}
