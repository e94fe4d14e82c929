package model

import "github.com/drainproof/drainproof/internal/audit/manifest"

// pod reads a Pod's spec.
func (r reader) pod(spec manifest.Value, at string) Pod {
	p := Pod{
		Grace:                 r.span(spec, at, "terminationGracePeriodSeconds", 30),
		RestartPolicy:         r.textOr(spec, at, "restartPolicy", "Always"),
		HostNetwork:           r.flag(spec, at, "hostNetwork"),
		OSName:                r.text(r.child(spec, at, "os", manifest.Map), join(at, "os"), "name"),
		ShareProcessNamespace: r.flag(spec, at, "shareProcessNamespace"),
	}
	if p.Grace.N < 0 {
		p.Grace.N = 1 // the API's own reading of a negative grace period
	}
	for at, v := range r.maps(spec, at, "containers") {
		p.Containers = append(p.Containers, r.container(v, at))
	}
	for at, v := range r.maps(spec, at, "initContainers") {
		if r.text(v, at, "restartPolicy") == "Always" {
			c := r.container(v, at)
			c.Sidecar = true
			p.Sidecars = append(p.Sidecars, c)
		}
	}
	for at, v := range r.maps(spec, at, "readinessGates") {
		p.ReadinessGates = append(p.ReadinessGates, r.text(v, at, "conditionType"))
	}
	return p
}

func (r reader) container(v manifest.Value, at string) *Container {
	c := &Container{
		Name:      r.text(v, at, "name"),
		Image:     r.text(v, at, "image"),
		Command:   r.texts(v, at, "command"),
		Args:      r.texts(v, at, "args"),
		Readiness: r.probe(v, at, "readinessProbe"),
		Liveness:  r.probe(v, at, "livenessProbe"),
		Startup:   r.probe(v, at, "startupProbe"),
		Path:      at,
	}
	r.env(c, v)
	for at, p := range r.maps(v, at, "ports") {
		c.Ports = append(c.Ports, Port{
			Name:     r.text(p, at, "name"),
			Number:   r.number(p, at, "containerPort", 0).N,
			HostPort: r.number(p, at, "hostPort", 0).N,
			Protocol: r.textOr(p, at, "protocol", "TCP"),
		})
	}
	if life := r.child(v, at, "lifecycle", manifest.Map); life.Exists() {
		at := join(at, "lifecycle")
		c.PreStop = r.hook(life, at, "preStop")
		c.PostStart = r.hook(life, at, "postStart")
		c.StopSignal = r.text(life, at, "stopSignal")
	}
	return c
}

func (r reader) env(c *Container, v manifest.Value) {
	for at, e := range r.maps(v, c.Path, "env") {
		called := r.text(e, at, "name")
		if called == "" {
			continue
		}
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env[called] = r.text(e, at, "value")
		if e.At("valueFrom").Exists() {
			c.EnvFrom = append(c.EnvFrom, called)
		}
	}
	for at, e := range r.maps(v, c.Path, "envFrom") {
		for _, kind := range []string{"configMap", "secret"} {
			key := kind + "Ref"
			if called := r.text(r.child(e, at, key, manifest.Map), join(at, key), "name"); called != "" {
				c.EnvFrom = append(c.EnvFrom, kind+"/"+called)
			}
		}
	}
}

// probe reads a probe and fills in the API's defaults; nil where there is none.
func (r reader) probe(container manifest.Value, at, key string) *Probe {
	v := r.child(container, at, key, manifest.Map)
	if !v.Exists() {
		return nil
	}
	at = join(at, key)
	p := &Probe{
		InitialDelay: r.number(v, at, "initialDelaySeconds", 0),
		Period:       r.positive(v, at, "periodSeconds", 10),
		Timeout:      r.positive(v, at, "timeoutSeconds", 1),
		Failure:      r.positive(v, at, "failureThreshold", 3),
		Success:      r.positive(v, at, "successThreshold", 1),
		Grace:        r.span(v, at, "terminationGracePeriodSeconds", 0),
		At:           at,
	}
	how, h, at := r.handler(v, at)
	switch p.How = how; how {
	case "http":
		p.Port, p.Path = r.text(h, at, "port"), r.textOr(h, at, "path", "/")
	case "tcp", "grpc":
		p.Port = r.text(h, at, "port")
	case "exec":
		p.Exec = r.texts(h, at, "command")
	default:
		p.How = "" // sleep is a hook's handler
	}
	return p
}

// handlers are the ways of probes and hooks, in the order in which the kubelet looks for them.
var handlers = []struct{ key, how string }{
	{"exec", "exec"}, {"httpGet", "http"}, {"sleep", "sleep"}, {"tcpSocket", "tcp"}, {"grpc", "grpc"},
}

// handler finds which handler is written, and gives it with its path.
func (r reader) handler(v manifest.Value, at string) (how string, h manifest.Value, path string) {
	for _, k := range handlers {
		if h := r.child(v, at, k.key, manifest.Map); h.Exists() {
			return k.how, h, join(at, k.key)
		}
	}
	return "", manifest.Value{}, at
}
