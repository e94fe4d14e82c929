package manifest

import (
	"strings"
)

// keptKinds are the kinds that are kept whole.
var keptKinds = map[string]bool{
	"Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true, "ReplicationController": true,
	"Job": true, "CronJob": true, "Pod": true, "Rollout": true,
	"Service": true, "EndpointSlice": true,
	"Ingress": true, "HTTPRoute": true, "GRPCRoute": true, "TLSRoute": true, "TCPRoute": true, "UDPRoute": true, "Gateway": true,
	"PodDisruptionBudget": true, "HorizontalPodAutoscaler": true, "ScaledObject": true,
}

// lastApplied holds a copy of the whole object, a Secret's data too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// add makes objects of a document.
func (p *parser) add(root *node) error {
	switch root.kind {
	case Absent, Null:
		return nil
	case Map:
	default:
		p.skip(root, "", "this is a %s, not a Kubernetes object", shapes[root.kind])
		return nil
	}
	apiVersion, kind := root.word("apiVersion"), root.word("kind")
	switch {
	case apiVersion == "" || kind == "":
		return p.incomplete(root, apiVersion, kind)
	case strings.HasPrefix(apiVersion, "kustomize.config.k8s.io/"):
		p.skip(root, "audit what it builds: drainproof audit -k DIR", "this is a %s of kustomize, not a Kubernetes object", kind)
		return nil
	}
	if items := root.child("items"); kind == "List" && items != nil && items.kind != List && items.kind != Null {
		p.skip(items, "write its objects as a list: each starts with a dash", "the items of this List are a %s, not a list", shapes[items.kind])
		return nil
	}
	if isList(root, kind) {
		return p.list(root, apiVersion, kind)
	}
	return p.keep(root, apiVersion, kind)
}

// isList tells a List from an object whose kind happens to end in List: that has a name.
func isList(root *node, kind string) bool {
	items := root.child("items")
	if !strings.HasSuffix(kind, "List") || items == nil || items.kind != List && items.kind != Null {
		return false
	}
	metadata := root.child("metadata")
	return metadata == nil || metadata.child("name") == nil
}

// list takes a List apart. The items of a PodList and the like may leave their kind to it.
func (p *parser) list(root *node, apiVersion, kind string) error {
	items := root.child("items").items
	for i := range items {
		item := &items[i]
		if item.kind != Map {
			p.skip(item, "", "element %d of the %s is a %s, not a Kubernetes object", i, kind, shapes[item.kind])
			continue
		}
		if kind == "List" || item.child("kind") != nil {
			if err := p.add(item); err != nil {
				return err
			}
		} else if err := p.keep(item, apiVersion, strings.TrimSuffix(kind, "List")); err != nil {
			return err
		}
	}
	return nil
}

// keep copies what an object is worth keeping for.
func (p *parser) keep(root *node, apiVersion, kind string) error {
	whole := keptKinds[kind] || holdsPodTemplate(root)
	cut := p.without(root, func(key string) bool {
		switch key {
		case "apiVersion", "kind", "metadata":
			return false
		case "status":
			return kind != "Service" || !whole
		}
		return !whole
	})
	if m := cut.child("metadata"); m != nil && m.kind == Map {
		*m = p.without(m, func(key string) bool { return key == "managedFields" })
		if a := m.child("annotations"); a != nil && a.kind == Map {
			*a = p.without(a, func(key string) bool { return key == lastApplied })
		}
	}
	c := copier{names: p.names, places: p.file != ""}
	root = c.copy(&cut)
	o := &Object{File: p.file, Root: Value{root}}
	o.APIVersion, o.Kind = c.name(apiVersion), c.name(kind)
	o.Namespace = o.Root.At("metadata", "namespace").Text()
	o.Name = o.Root.At("metadata", "name").Text()
	if strings.Contains(o.Name, "{{") || strings.Contains(o.Namespace, "{{") {
		return p.template(o.Line("metadata.name"))
	}
	p.objects = append(p.objects, o)
	return nil
}

// holdsPodTemplate says whether a kind that is not known here makes Pods as a Deployment does.
func holdsPodTemplate(root *node) bool {
	n := root
	for _, key := range []string{"spec", "template", "spec", "containers"} {
		if n = n.child(key); n == nil {
			return false
		}
	}
	return n.kind == List
}

// without gives a map less the fields that are to be dropped. The map itself stays as it is: aliases may share it.
func (b *builder) without(n *node, drop func(key string) bool) node {
	from := len(b.stack)
	for i := range n.items {
		if !drop(n.items[i].key) {
			b.push(n.items[i])
		}
	}
	cut := *n
	cut.items = b.take(from)
	return cut
}

// copier copies a tree into memory of exactly its size, which holds on to nothing else.
type copier struct {
	names  map[string]string
	places bool
	nodes  []node
	text   strings.Builder
}

func (c *copier) copy(root *node) *node {
	nodes, bytes := measure(root)
	c.nodes = make([]node, 0, nodes)
	c.text.Grow(bytes)
	c.nodes = append(c.nodes, node{})
	c.fill(&c.nodes[0], root)
	return &c.nodes[0]
}

// measure counts the nodes of a tree and the bytes of its scalars.
func measure(n *node) (nodes, bytes int) {
	nodes, bytes = 1, len(n.text)
	for i := range n.items {
		k, b := measure(&n.items[i])
		nodes += k
		bytes += b
	}
	return nodes, bytes
}

func (c *copier) fill(to, from *node) {
	*to = *from
	if from.key != "" {
		to.key = c.name(from.key)
	}
	if from.text != "" {
		at := c.text.Len()
		c.text.WriteString(from.text)
		to.text = c.text.String()[at:]
	}
	if !c.places {
		to.line, to.column, to.above = 0, 0, 0
	}
	if len(from.items) == 0 {
		return
	}
	at, n := len(c.nodes), len(from.items)
	c.nodes = c.nodes[:at+n]
	to.items = c.nodes[at : at+n : at+n]
	for i := range from.items {
		c.fill(&to.items[i], &from.items[i])
	}
}

// name gives a key's text, the same memory each time. Only so many differ in sane manifests.
func (c *copier) name(s string) string {
	if have, ok := c.names[s]; ok {
		return have
	}
	s = strings.Clone(s)
	if len(c.names) < 5000 && len(s) <= 64 {
		c.names[s] = s
	}
	return s
}
