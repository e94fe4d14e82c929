package budget

import (
	"strings"

	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// Registration is a sign that a workload registers itself with a service registry, and
// that its clients find it there and not through a Service.
type Registration struct {
	// Registry is Nacos, Eureka, ...
	Registry  string
	Container *model.Container
	// Setting is the name that tells, and Env says that it is a variable and not an argument.
	Setting string
	Env     bool
	// Sure is false where the setting names the registry and may be there for another
	// use of it: a configuration, or a client that registers nothing.
	Sure bool
}

// The registries that Registration names.
const (
	Nacos     = "Nacos"
	Eureka    = "Eureka"
	Consul    = "Consul"
	ZooKeeper = "ZooKeeper"
	Dubbo     = "Dubbo"
)

// Variant is the variant of the path registry: "" for the registries whose consumers
// poll, of which a floor is known.
func (r Registration) Variant() string {
	switch r.Registry {
	case ZooKeeper, Dubbo:
		return r.Registry
	}
	return ""
}

// signs are settings in plain dress (cmdline.Plain) by their beginning. The first that fits counts.
var signs = []struct {
	begins, registry string
	sure             bool
}{
	{"springcloudnacosdiscovery", Nacos, true},
	{"nacosdiscovery", Nacos, true},
	{"eurekaclientserviceurl", Eureka, true},
	{"eurekainstance", Eureka, true},
	{"springcloudconsuldiscovery", Consul, true},
	{"springcloudzookeeperdiscovery", ZooKeeper, true},
	{"dubboregistryaddress", Dubbo, true},
	{"dubboregistriesaddress", Dubbo, true},
	{"springcloudnacosserveraddr", Nacos, false},
	{"nacosserveraddr", Nacos, false},
	{"nacosaddr", Nacos, false},
	{"eurekaserver", Eureka, false},
	{"eurekaurl", Eureka, false},
	{"springcloudconsulhost", Consul, false},
	{"springcloudzookeeperconnectstring", ZooKeeper, false},
}

// refusals are settings that keep a process from registering, with the value that does.
var refusals = []struct{ name, value, registry string }{
	{"spring.cloud.nacos.discovery.enabled", "false", Nacos},
	{"spring.cloud.nacos.discovery.register-enabled", "false", Nacos},
	{"eureka.client.enabled", "false", Eureka},
	{"eureka.client.register-with-eureka", "false", Eureka},
	{"spring.cloud.consul.discovery.enabled", "false", Consul},
	{"spring.cloud.consul.discovery.register", "false", Consul},
	{"spring.cloud.zookeeper.discovery.enabled", "false", ZooKeeper},
	{"spring.cloud.zookeeper.discovery.register", "false", ZooKeeper},
	{"dubbo.registry.register", "false", Dubbo},
	{"dubbo.registry.address", "n/a", Dubbo},
	{"spring.cloud.discovery.enabled", "false", ""},
	{"spring.cloud.service-registry.auto-registration.enabled", "false", ""},
}

// servers are parts of images that are a registry themselves.
var servers = []string{"nacos-server", "nacos/nacos", "eureka-server", "eurekaserver", "hashicorp/consul", "zookeeper"}

// Registrations gives the signs in a workload's containers, one for each container and registry.
func Registrations(w *model.Workload) []Registration {
	var all []Registration
	for _, c := range w.Pod.Containers {
		if isRegistry(c.Image) {
			continue
		}
		line := cmdline.Of(c.Command, c.Args)
		seen := map[string]int{}
		for _, s := range settings(c, line) {
			name := cmdline.Plain(s.name)
			for _, sign := range signs {
				if !strings.HasPrefix(name, sign.begins) {
					continue
				}
				if refuses(c, line, sign.registry) {
					break
				}
				r := Registration{Registry: sign.registry, Container: c, Setting: s.name, Env: s.env, Sure: sign.sure}
				if at, ok := seen[sign.registry]; !ok {
					seen[sign.registry] = len(all)
					all = append(all, r)
				} else if r.Sure && !all[at].Sure {
					all[at] = r
				}
				break
			}
		}
	}
	return all
}

type setting struct {
	name string
	env  bool
}

// settings lists the names of everything that a container sets: variables in order, then arguments,
// then Java options.
func settings(c *model.Container, line cmdline.Line) []setting {
	var all []setting
	for _, key := range cmdline.Sorted(c.Env) {
		all = append(all, setting{key, true})
		if strings.HasPrefix(key, "JAVA_") || key == "JDK_JAVA_OPTIONS" {
			line = append(line, cmdline.Words(c.Env[key])...)
		}
	}
	for _, word := range line {
		name, _, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		if short, ok := strings.CutPrefix(name, "--"); ok {
			all = append(all, setting{short, false})
		} else if short, ok := strings.CutPrefix(name, "-D"); ok {
			all = append(all, setting{short, false})
		}
	}
	return all
}

func refuses(c *model.Container, line cmdline.Line, registry string) bool {
	for _, r := range refusals {
		if r.registry != "" && r.registry != registry {
			continue
		}
		if s, ok := cmdline.Property(c.Env, line, r.name); ok && strings.EqualFold(s.Value, r.value) {
			return true
		}
	}
	return false
}

func isRegistry(image string) bool {
	for _, part := range servers {
		if strings.Contains(image, part) {
			return true
		}
	}
	return false
}
