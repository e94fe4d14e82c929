package images

import (
	"regexp"
)

// signalled matches a hook that sends a signal, by name or number.
func signalled(names string) *regexp.Regexp {
	return regexp.MustCompile(`\b(?:kill|pkill|killall)\b[^;&|]*\s-(?:s\s*|n\s*|-signal[= ])?(?:SIG)?(?:` + names + `)\b`)
}

func pattern(p string) *regexp.Regexp { return regexp.MustCompile(p) }

var (
	quitNginx  = []*regexp.Regexp{pattern(`\b(?:nginx|openresty)\b[^;&|]*-s\s*quit\b`), signalled("QUIT|3")}
	nginxDocs  = "nginx.org/en/docs/control.html"
	clusterFor = "its clients hold the list of its members and try another one"
)

var nginx = &Server{
	Name: "nginx", Gentle: "SIGQUIT", OnTERM: "shuts down fast: it closes every connection at once",
	TERMDropsRequests: true, ClosesListener: true,
	ImageStop: "SIGQUIT", Official: []string{"nginx", "nginxinc/nginx-unprivileged"},
	Sources: []string{nginxDocs, "nginxinc/docker-nginx 3fb70dd"},
	drains:  quitNginx,
}

// nginxOnTERM are Docker's own images until November 2020.
var nginxOnTERM = &Server{
	Name: "nginx", Gentle: nginx.Gentle, OnTERM: nginx.OnTERM, TERMDropsRequests: true, ClosesListener: true,
	Sources: []string{nginxDocs, "nginx/docker-nginx#377: SIGQUIT came with 3fb70dd, in November 2020"},
	drains:  quitNginx,
}

var bitnamiNginx = &Server{
	Name: "nginx", Gentle: nginx.Gentle, OnTERM: nginx.OnTERM, TERMDropsRequests: true, ClosesListener: true,
	Official: []string{"bitnami/nginx", "bitnamilegacy/nginx"},
	Sources:  []string{nginxDocs, "bitnami/containers bitnami/nginx/1.25/debian-12/Dockerfile"},
	drains:   quitNginx,
}

var openresty = &Server{
	Name: "openresty", Gentle: nginx.Gentle, OnTERM: nginx.OnTERM, TERMDropsRequests: true, ClosesListener: true,
	ImageStop: "SIGQUIT", Official: []string{"openresty/openresty"},
	Sources: []string{nginxDocs, "openresty/docker-openresty alpine/Dockerfile"},
	drains:  quitNginx,
}

// ingressNginx stops nginx only after --shutdown-grace-period, and its
// /wait-shutdown hook begins that at once: the hook sends SIGTERM itself.
var ingressNginx = &Server{
	Name: "the ingress-nginx controller", OnTERM: "waits --shutdown-grace-period (0 s by default), then lets nginx finish its requests",
	ClosesListener: true, DelayFlag: "--shutdown-grace-period",
	Sources: []string{"kubernetes/ingress-nginx pkg/flags/flags.go", "kubernetes/ingress-nginx cmd/waitshutdown/main.go", "kubernetes/ingress-nginx#11145"},
	drains:  []*regexp.Regexp{pattern(`/?wait-shutdown\b`)},
	delay:   pattern(`^--?shutdown-grace-period[= ](\d+)$`),
}

var httpd = &Server{
	Name: "httpd", Gentle: "SIGWINCH", OnTERM: "stops at once and ends the requests in progress",
	TERMDropsRequests: true, ClosesListener: true,
	ImageStop: "SIGWINCH", Official: []string{"httpd"},
	Sources: []string{"httpd.apache.org/docs/current/stopping.html", "docker-library/httpd Dockerfile"},
	drains:  stopHttpd,
}

var stopHttpd = []*regexp.Regexp{pattern(`\b(?:apachectl|apache2ctl|httpd|apache2)\b[^;&|]*\bgraceful-stop\b`), signalled("WINCH|28")}

// phpApache are images that are built on Docker's php image with Apache.
var phpApache = &Server{
	Name: "httpd", Gentle: httpd.Gentle, OnTERM: httpd.OnTERM, TERMDropsRequests: true, ClosesListener: true,
	ImageStop: "SIGWINCH", Official: phpApplications,
	Sources: []string{"httpd.apache.org/docs/current/stopping.html", "docker-library/php apache Dockerfile"},
	drains:  stopHttpd,
}

var phpApplications = []string{"wordpress", "drupal", "joomla", "nextcloud", "phpmyadmin"}

var phpFPM = &Server{
	Name: "php-fpm", Gentle: "SIGQUIT", OnTERM: "ends its workers at once",
	Needs:             "process_control_timeout above its default of 0: with 0, SIGTERM follows SIGQUIT at once",
	TERMDropsRequests: true, ClosesListener: true,
	ImageStop: "SIGQUIT", Official: []string{"php"},
	Sources: []string{"php/php-src sapi/fpm/fpm/fpm_process_ctl.c", "docker-library/php fpm Dockerfile"},
	drains:  []*regexp.Regexp{signalled("QUIT|3")},
}

var haproxy = &Server{
	Name: "haproxy", Gentle: "SIGUSR1", OnTERM: "stops hard: it exits at once and its connections end",
	TERMDropsRequests: true, ClosesListener: true,
	ImageStop: "SIGUSR1", Official: []string{"haproxy"},
	Sources: []string{"haproxy(1)", "docker-library/haproxy Dockerfile"},
	drains:  []*regexp.Regexp{signalled("USR1|10")},
}

var postgres = &Server{
	Name: "postgres", OnTERM: "refuses new sessions and waits until every client has gone (smart shutdown)",
	ClosesListener: true, ImageStop: "SIGINT", Official: []string{"postgres"},
	Sessions: map[string]string{
		"SIGTERM": "a smart shutdown: it refuses new sessions and waits until every client has gone, which clients with a connection pool never do by themselves, so that SIGKILL ends it",
		"SIGINT":  "a fast shutdown: it aborts the open transactions and disconnects every client",
		"SIGQUIT": "an immediate shutdown: it ends without a checkpoint and has to recover at its next start",
	},
	Sources: []string{"postgresql.org/docs/current/server-shutdown.html", "docker-library/postgres Dockerfile"},
	drains:  []*regexp.Regexp{pattern(`\bpg_ctl\b[^;&|]*\bstop\b`), signalled("INT|2")},
}

var mysql = &Server{
	Name: "mysqld", OnTERM: "stops accepting and ends its sessions", TERMDropsRequests: true, ClosesListener: true,
	Sources: []string{"dev.mysql.com/doc/refman/8.4/en/server-shutdown.html"},
}

var redis = &Server{
	Name: "redis", OnTERM: "saves where it is set to and exits; every connection ends", TERMDropsRequests: true, ClosesListener: true,
	Sources: []string{"redis.io/docs/reference/signals", "valkey.io/topics/signals"},
}

var memcached = &Server{
	Name: "memcached", OnTERM: "exits at once", TERMDropsRequests: true, ClosesListener: true,
	Sources: []string{"memcached(1)"},
}

var drainEnvoy = []*regexp.Regexp{pattern(`drain_listeners`), pattern(`healthcheck/fail`)}

var envoy = &Server{
	Name: "envoy", OnTERM: "closes its listeners and exits at once, without a drain", TERMDropsRequests: true, ClosesListener: true, Sidecar: true,
	Sources: []string{"envoyproxy.io/docs/envoy/latest/intro/arch_overview/operations/draining"},
	drains:  drainEnvoy,
}

var istioProxy = &Server{
	Name: "istio-proxy", OnTERM: "drains for terminationDrainDuration (5 s by default), then exits", Sidecar: true,
	Sources: []string{"istio/istio#34855", "istio/istio#36640"},
	drains:  drainEnvoy,
}

var linkerdProxy = &Server{
	Name: "linkerd-proxy", OnTERM: "refuses new connections in both directions and finishes the open ones", ClosesListener: true, Sidecar: true,
	Sources: []string{"linkerd/linkerd2#10379", "linkerd/linkerd2#11084"},
}

var cloudSQLProxy = &Server{
	Name: "cloud-sql-proxy", OnTERM: "exits at once unless --min-sigterm-delay or --max-sigterm-delay is set",
	TERMDropsRequests: true, ClosesListener: true, Sidecar: true, DelayFlag: "--min-sigterm-delay",
	Sources: []string{"GoogleCloudPlatform/cloud-sql-proxy cmd/root.go", "GoogleCloudPlatform/cloud-sql-proxy#86", "GoogleCloudPlatform/cloud-sql-proxy#1333"},
	// Version 1 knows one flag only, and version 2's max delay waits for open connections: both keep
	// the application's sessions, which is what a sidecar is there for.
	delay: pattern(`^--?(?:min-sigterm-delay|max-sigterm-delay|term_timeout)[= ](\d+[a-z]*)$`),
}

var traefik = &Server{
	Name: "traefik", OnTERM: "stops accepting, then waits graceTimeOut (10 s by default) for its requests", ClosesListener: true,
	DelayFlag: "--entryPoints.NAME.transport.lifeCycle.requestAcceptGraceTimeout",
	Sources:   []string{"traefik/traefik pkg/server/server_entrypoint_tcp.go"},
	delay:     pattern(`(?i)^--entrypoints\.[^.]+\.transport\.lifecycle\.requestacceptgracetimeout[= ](\d+[a-z]*)$`),
}

var caddy = &Server{
	Name: "caddy", OnTERM: "stops accepting and waits for its requests", ClosesListener: true,
	ConfigDelay: "shutdown_delay in its Caddyfile",
	Sources:     []string{"caddyserver.com/docs/caddyfile/options"},
}

var coredns = &Server{
	Name: "coredns", OnTERM: "stops after the lameduck time of its health plugin", ClosesListener: true,
	ConfigDelay: "lameduck of the health plugin in its Corefile",
	Sources:     []string{"coredns/coredns plugin/health/README.md", "coredns/coredns#5409"},
}

var gunicorn = &Server{
	Name: "gunicorn", OnTERM: "closes its listener at once, drops the connections that wait in its backlog, and lets its workers finish their requests",
	ClosesListener: true,
	Sources:        []string{"gunicorn.org/signals", "benoitc/gunicorn#3397"},
}

var uvicorn = &Server{
	Name: "uvicorn", OnTERM: "stops accepting at once and waits for open connections", ClosesListener: true,
	Sources: []string{"encode/uvicorn docs/server-behavior.md", "encode/uvicorn#1950"},
}

var uwsgi = &Server{
	Name: "uwsgi", OnTERM: "kills and reloads its workers instead of ending", TERMDropsRequests: true, ClosesListener: true,
	Sources: []string{"uwsgi-docs.readthedocs.io/en/latest/Management.html", "unbit/uwsgi#1974"},
}

// clustered are servers whose clients know all members.
func clustered(name string) *Server {
	return &Server{Name: name, Clustered: true, OnTERM: "leaves its cluster; " + clusterFor, Sources: []string{"the server's client protocol"}}
}

var (
	kafka, zookeeper, etcd, rabbitmq = clustered("kafka"), clustered("zookeeper"), clustered("etcd"), clustered("rabbitmq")
	cassandra, mongodb               = clustered("cassandra"), clustered("mongodb")
	elasticsearch, nats, consul      = clustered("elasticsearch"), clustered("nats"), clustered("consul")
)

// The runtimes: the application's code decides.
var (
	node = &Server{
		Name: "node", CodeDecides: true,
		OnTERM:  "does what the code says: without a handler Node.js as process 1 never sees SIGTERM, and server.close() stops accepting at once",
		Sources: []string{"nodejs/docker-node docs/BestPractices.md", "nodejs/node#2642", "nodejs/node#60617"},
	}
	java = &Server{
		Name: "java", CodeDecides: true,
		OnTERM:  "runs the shutdown hooks of the code: Spring Boot stops accepting or answers 503 while it waits for its requests",
		Sources: []string{"spring-projects/spring-boot#24617", "spring-projects/spring-boot#48936"},
	}
	dotnet = &Server{
		Name: "dotnet", CodeDecides: true, OnTERM: "stops its host, and with it the listener, for as long as the code's shutdown timeout allows",
		Sources: []string{"learn.microsoft.com/dotnet/core/extensions/generic-host"},
	}
	pythonCode = &Server{
		Name: "python", CodeDecides: true, OnTERM: "does what the code says: without a handler Python as process 1 never sees SIGTERM",
		Sources: []string{"signal(7)", "pid_namespaces(7)"},
	}
	ruby = &Server{
		Name: "ruby", CodeDecides: true, OnTERM: "does what the application server says",
		Sources: []string{"signal(7)"},
	}
	phpCLI = &Server{
		Name: "php", CodeDecides: true, OnTERM: "does what the code says: without a handler PHP as process 1 never sees SIGTERM",
		Sources: []string{"signal(7)", "pid_namespaces(7)"},
	}
)

// servers are all with official names, the more special first.
var servers = []*Server{
	nginx, bitnamiNginx, openresty, httpd, haproxy, postgres,
}

// byRepository finds a server by the last element of an image's name, whoever built it.
var byRepository = map[string]*Server{
	"nginx": nginx, "nginx-unprivileged": nginx, "openresty": openresty,
	"httpd": httpd, "apache": httpd, "php-fpm": phpFPM, "haproxy": haproxy,
	"postgres": postgres, "postgresql": postgres, "mysql": mysql, "mariadb": mysql,
	"redis": redis, "valkey": redis, "memcached": memcached,
	"rabbitmq": rabbitmq, "kafka": kafka, "cp-kafka": kafka, "zookeeper": zookeeper, "etcd": etcd, "cassandra": cassandra, "mongo": mongodb, "mongodb": mongodb,
	"elasticsearch": elasticsearch, "opensearch": elasticsearch, "nats": nats, "consul": consul,
	"envoy": envoy, "proxyv2": istioProxy, "traefik": traefik, "caddy": caddy, "coredns": coredns,
	"cloud-sql-proxy": cloudSQLProxy, "alloydb-auth-proxy": cloudSQLProxy,
	"node": node, "openjdk": java, "eclipse-temurin": java, "amazoncorretto": java, "tomcat": java, "jetty": java, "aspnet": dotnet,
	"python": pythonCode, "ruby": ruby, "uwsgi": uwsgi, "gunicorn": gunicorn, "uvicorn": uvicorn,
}

// byPath finds a server where the last element alone says too little.
var byPath = map[string]*Server{
	"ingress-nginx/controller": ingressNginx, "linkerd/proxy": linkerdProxy, "cloudsql-docker/gce-proxy": cloudSQLProxy,
}

// byCommand finds a server by its program.
var byCommand = map[string]*Server{
	"nginx": nginx, "nginx-debug": nginx, "openresty": openresty, "nginx-ingress-controller": ingressNginx,
	"httpd": httpd, "apache2": httpd, "httpd-foreground": httpd, "apache2-foreground": httpd, "apachectl": httpd, "apache2ctl": httpd,
	"haproxy": haproxy, "postgres": postgres, "mysqld": mysql, "mariadbd": mysql, "redis-server": redis, "valkey-server": redis, "memcached": memcached,
	"rabbitmq-server": rabbitmq, "etcd": etcd, "mongod": mongodb, "nats-server": nats, "consul": consul,
	"envoy": envoy, "pilot-agent": istioProxy, "linkerd2-proxy": linkerdProxy, "cloud-sql-proxy": cloudSQLProxy, "cloud_sql_proxy": cloudSQLProxy,
	"alloydb-auth-proxy": cloudSQLProxy,
	"traefik":            traefik, "caddy": caddy, "coredns": coredns, "gunicorn": gunicorn, "uvicorn": uvicorn, "uwsgi": uwsgi,
	"node": node, "nodejs": node, "npm": node, "npx": node, "yarn": node, "yarnpkg": node, "pnpm": node, "pnpx": node, "next": node, "ts-node": node,
	"java": java, "catalina.sh": java, "dotnet": dotnet, "python": pythonCode, "flask": pythonCode, "django-admin": pythonCode,
	"ruby": ruby, "rails": ruby, "puma": ruby, "rackup": ruby, "php": phpCLI,
}

var fpmCommand = pattern(`^php-fpm[\d.]*$`)

// officialSh is the program behind /bin/sh in Docker's official images where the tag does not name the base.
var officialSh = map[string]string{
	"nginx": "dash", "httpd": "dash", "haproxy": "dash", "php": "dash", "wordpress": "dash", "drupal": "dash", "joomla": "dash", "nextcloud": "dash",
	"postgres": "dash", "mariadb": "dash", "mysql": "bash", "redis": "dash", "valkey": "dash", "memcached": "dash", "rabbitmq": "dash", "mongo": "dash",
	"node": "dash", "python": "dash", "ruby": "dash", "golang": "dash", "eclipse-temurin": "dash", "tomcat": "dash",
	"traefik": "busybox", "caddy": "busybox",
}

// chainguardBare are Chainguard's images that are known to hold no shell outside of their -dev tags.
var chainguardBare = []string{
	"static", "glibc-dynamic", "nginx", "python", "node", "jre", "ruby", "dotnet-runtime", "aspnet-runtime", "go-runtime",
}
