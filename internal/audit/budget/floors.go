package budget

import (
	"slices"
	"time"

	"github.com/drainproof/drainproof/internal/audit/model"
)

// Where the floors come from. They are anecdotes, each of one cluster: a measured value
// replaces them (Floors.Measured).
const (
	fromKubeProxy = "field report kubernetes/kubernetes#43576"
	fromNodes     = "the load balancer sends to nodes, where kube-proxy takes the Pod out: " + fromKubeProxy
	fromIngress   = "field reports of ingress controllers, 5 s and up: traefik/traefik#4452, zalando/skipper#652"
	fromTraefik   = "field report terrapod PR#222: a hook of 5 s was too short behind Traefik, 10 to 30 s claimed"
	fromALB       = "field report kubernetes-sigs/aws-load-balancer-controller#1064: 5 s was too short, 25 s was not"
	fromNLB       = "field report kubernetes-sigs/aws-load-balancer-controller#3270: about 2 minutes, whatever the deregistration delay"
	fromNEG       = "field report kubernetes/ingress-gce#2222: about a minute"
	fromGateway   = "taken as an ingress controller: no common rule for Gateway implementations, kubernetes-sigs/gateway-api#5014"
	fromDNS       = "default TTL of the CoreDNS plugin kubernetes, 5 s; many Corefiles say 30 s, and clients cache on top"
	fromHostPort  = "nothing tells the clients of a host port that it goes"
	fromRegistry  = "field report alibaba/nacos#14096: consumers cache the list for 30 s to 1 minute after the deregistration"
	fromPush      = "the registry tells the consumers; no report says how fast"
)

// variantFloor is the floor of one variant of a path.
type variantFloor struct {
	least  time.Duration
	source string
}

// loadBalancers are Services of type LoadBalancer. Whatever sends to nodes is as fast as
// the nodes' kube-proxy; externalTrafficPolicy Local is another matter (rule DP601).
var loadBalancers = map[string]variantFloor{
	"":       {3 * time.Second, fromNodes},
	AWSNLBIP: {120 * time.Second, fromNLB},
	GCPNEG:   {60 * time.Second, fromNEG},
}

var ingresses = map[string]variantFloor{
	"":           {5 * time.Second, fromIngress},
	Traefik:      {10 * time.Second, fromTraefik},
	AWSALB:       {3 * time.Second, fromNodes},
	AWSALBIP:     {25 * time.Second, fromALB},
	GCP:          {3 * time.Second, fromNodes},
	GCPNEG:       {60 * time.Second, fromNEG},
	NginxService: {3 * time.Second, "nginx sends to the cluster IP: " + fromKubeProxy},
}

// registries are service registries; the variants are those that push changes to the consumers.
var registries = map[string]variantFloor{
	"":        {30 * time.Second, fromRegistry},
	Dubbo:     {0, fromPush},
	ZooKeeper: {0, fromPush},
}

// others are the paths that have no variants.
var others = map[string]variantFloor{
	ClusterIP: {3 * time.Second, fromKubeProxy},
	NodePort:  {3 * time.Second, fromKubeProxy},
	Gateway:   {5 * time.Second, fromGateway},
	Headless:  {5 * time.Second, fromDNS},
	HostPort:  {0, fromHostPort},
}

// order is the order of paths in Sum.All.
var order = []string{ClusterIP, NodePort, LoadBalancer, Ingress, Gateway, Headless, HostPort, Registry}

// Default gives the floor of a path without measurements.
func Default(path, variant string) Floor {
	f := others[path]
	switch path {
	case LoadBalancer:
		f = pick(loadBalancers, variant)
	case Ingress:
		f = pick(ingresses, variant)
	case Registry:
		f = pick(registries, variant)
	}
	return Floor{Path: path, Variant: variant, Least: f.least, Source: f.source}
}

func pick(table map[string]variantFloor, variant string) variantFloor {
	if f, ok := table[variant]; ok {
		return f
	}
	return table[""]
}

// Of gives the floor of a path: the measured one where there is one.
func (f Floors) Of(path, variant string) Floor {
	m, ok := f.Measured[path]
	if !ok {
		return Default(path, variant)
	}
	m.Path, m.Measured = path, true
	if m.Variant == "" {
		m.Variant = variant
	}
	return m
}

// reach gives every way that traffic takes to a workload, each with its floor, once.
func reach(w *model.Workload, floors Floors) []Floor {
	var all []Floor
	add := func(path, variant string) {
		if f := floors.Of(path, variant); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	headless := false
	for _, s := range w.Services {
		switch {
		case s.Type == "ExternalName":
			continue
		case s.Headless:
			headless = true
		default:
			add(ClusterIP, "")
		}
		switch s.Type {
		case NodePortType:
			add(NodePort, "")
		case LoadBalancerType:
			add(LoadBalancer, Provider(s))
		}
		if StandaloneNEG(s) {
			add(LoadBalancer, GCPNEG)
		}
		for _, f := range s.Fronts {
			if IsIngress(f) {
				add(Ingress, Controller(f, s))
			} else {
				add(Gateway, "")
			}
		}
	}
	// Beside a cluster IP a headless Service is for the peers' discovery.
	if headless && !slices.ContainsFunc(all, func(f Floor) bool { return f.Path == ClusterIP }) {
		add(Headless, "")
	}
	if hostPort(w) {
		add(HostPort, "")
	}
	for _, r := range Registrations(w) {
		if r.Sure {
			add(Registry, r.Variant())
		}
	}
	slices.SortStableFunc(all, func(a, b Floor) int { return slices.Index(order, a.Path) - slices.Index(order, b.Path) })
	return all
}

// The types of Services, as the API writes them.
const (
	NodePortType     = "NodePort"
	LoadBalancerType = "LoadBalancer"
)

func hostPort(w *model.Workload) bool {
	for _, c := range slices.Concat(w.Pod.Containers, w.Pod.Sidecars) {
		for _, p := range c.Ports {
			if p.HostPort > 0 || w.Pod.HostNetwork {
				return true
			}
		}
	}
	return false
}
