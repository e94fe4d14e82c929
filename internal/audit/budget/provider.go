package budget

import (
	"strings"

	"github.com/drainproof/drainproof/internal/audit/model"
)

// The variants of a path: who carries the traffic, and whether it sends to Pods or to nodes.
const (
	AWS          = "aws"        // an Elastic Load Balancer of a kind that is not written
	AWSNLB       = "aws-nlb"    // Network Load Balancer, to nodes
	AWSNLBIP     = "aws-nlb-ip" // Network Load Balancer, to Pods
	AWSALB       = "aws-alb"    // Application Load Balancer, to nodes
	AWSALBIP     = "aws-alb-ip" // Application Load Balancer, to Pods
	Azure        = "azure"
	GCP          = "gcp"
	GCPNEG       = "gcp-neg" // network endpoint groups: to Pods
	DigitalOcean = "digitalocean"
	Hetzner      = "hcloud"
	MetalLB      = "metallb"

	Nginx        = "nginx"
	NginxService = "nginx-service-upstream" // nginx that sends to the cluster IP, not to Pods
	Traefik      = "traefik"
	HAProxy      = "haproxy"
	Contour      = "contour"
)

// Annotations that tell providers apart.
const (
	awsPrefix = "service.beta.kubernetes.io/aws-load-balancer-"
	awsType   = awsPrefix + "type"
	awsTarget = awsPrefix + "nlb-target-type"
	albPrefix = "alb.ingress.kubernetes.io/"
	albTarget = albPrefix + "target-type"
	gcpNEG    = "cloud.google.com/neg"
	nginxMark = "nginx.ingress.kubernetes.io/"
	nginxOne  = nginxMark + "service-upstream"
)

// providers are told by the prefix of any annotation of a Service.
var providers = []struct{ prefix, variant string }{
	{"service.beta.kubernetes.io/azure-", Azure},
	{"networking.gke.io/", GCP},
	{"cloud.google.com/", GCP},
	{"service.beta.kubernetes.io/do-loadbalancer-", DigitalOcean},
	{"kubernetes.digitalocean.com/", DigitalOcean},
	{"load-balancer.hetzner.cloud/", Hetzner},
	{"metallb.universe.tf/", MetalLB},
	{"metallb.io/", MetalLB},
}

// Provider names the load balancer in front of a Service of type LoadBalancer, as far as
// the Service says: "" where nothing tells.
func Provider(s *model.Service) string {
	if variant := awsService(s); variant != "" {
		return variant
	}
	if strings.HasPrefix(s.LoadBalancerClass, "networking.gke.io/") {
		return GCP
	}
	for _, p := range providers {
		if annotated(s.Annotations, p.prefix) {
			return p.variant
		}
	}
	return ""
}

func awsService(s *model.Service) string {
	kind, target := s.Annotations[awsType], s.Annotations[awsTarget]
	class := s.LoadBalancerClass == "service.k8s.aws/nlb" || s.LoadBalancerClass == "eks.amazonaws.com/nlb"
	switch {
	case kind == "nlb-ip":
		return AWSNLBIP
	case class, kind == "external", kind == "nlb", target != "":
		if target == "ip" {
			return AWSNLBIP
		}
		return AWSNLB
	case annotated(s.Annotations, awsPrefix):
		return AWS
	}
	return ""
}

// StandaloneNEG says that a Service's ports are in network endpoint groups of their own,
// for a load balancer that is not made from an Ingress.
func StandaloneNEG(s *model.Service) bool {
	return strings.Contains(s.Annotations[gcpNEG], "exposed_ports")
}

// IsIngress says whether a front is an Ingress and not a Gateway API route.
func IsIngress(f *model.Front) bool { return f.Object.Kind == "Ingress" }

// Controller names what stands behind an Ingress on its way to one of its Services: "" where
// nothing tells, and for a route, whose Gateway's class its own text does not name.
func Controller(f *model.Front, s *model.Service) string {
	if !IsIngress(f) {
		return ""
	}
	switch family := family(f); family {
	case AWSALB:
		// The Service's own annotation counts before that of the Ingress.
		target := s.Annotations[albTarget]
		if target == "" {
			target = f.Annotations[albTarget]
		}
		if target == "ip" {
			return AWSALBIP
		}
		return AWSALB
	case GCP:
		// Without node ports there is nothing but endpoint groups to send to.
		if s.Annotations[gcpNEG] != "" && !strings.Contains(strings.ReplaceAll(s.Annotations[gcpNEG], " ", ""), `"ingress":false`) || s.Type == "ClusterIP" {
			return GCPNEG
		}
		return GCP
	case Nginx:
		if f.Annotations[nginxOne] == "true" {
			return NginxService
		}
		return Nginx
	default:
		return family
	}
}

// family goes by the class first: annotations may be left from another controller.
func family(f *model.Front) string {
	class := strings.ToLower(f.Class)
	switch {
	case class == "alb" || strings.HasSuffix(class, "-alb") || strings.HasPrefix(class, "alb-"):
		return AWSALB
	case class == "gce" || class == "gce-internal":
		return GCP
	}
	for _, name := range []string{Nginx, Traefik, HAProxy, Contour} {
		if strings.Contains(class, name) {
			return name
		}
	}
	switch {
	case annotated(f.Annotations, albPrefix):
		return AWSALB
	case annotated(f.Annotations, nginxMark):
		return Nginx
	}
	return ""
}

func annotated(annotations map[string]string, prefix string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
