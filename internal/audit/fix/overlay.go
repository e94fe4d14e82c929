package fix

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// Resources gives files as a kustomization in dir names them. All files of an audit belong to
// the overlay, not only the changed ones, if it shall stand in their place.
func Resources(files []string, dir string) []string {
	var all []string
	for _, name := range files {
		if to, err := filepath.Rel(dir, name); err == nil {
			name = to
		}
		if name = filepath.ToSlash(name); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Overlay gives the files of a kustomize overlay that makes the same changes without
// touching the originals: one patch a workload, and the new objects. resources are what it
// builds on: Resources(files, dir), or folders with a kustomization of their own.
func Overlay(changes []Change, resources []string) map[string][]byte {
	files := map[string][]byte{}
	var order []finding.Object
	edits := map[finding.Object][]edit{}
	objects := map[finding.Object]*manifest.Object{}
	var added, patches []string
	resources = slices.Clone(resources)
	for _, c := range changes {
		switch {
		case c.Skipped != "":
		case c.added != nil:
			name := fileName(files, c.Object, "poddisruptionbudget")
			files[name] = []byte(c.added.block(0, 2, "\n"))
			added = append(added, name)
		default:
			if objects[c.Object] == nil {
				order, objects[c.Object] = append(order, c.Object), c.object
			}
			edits[c.Object] = append(edits[c.Object], c.edits...)
		}
	}
	for _, o := range order {
		name := fileName(files, o, strings.ToLower(o.Kind))
		entry := "- path: " + scalar(word(name)) + "\n"
		if builtIn(objects[o]) {
			files[name] = []byte(strategic(objects[o], edits[o]).block(0, 2, "\n"))
		} else {
			files[name] = []byte(operations(objects[o], edits[o]))
			entry += "  target:\n" + target(objects[o]).block(4, 2, "\n")
		}
		patches = append(patches, entry)
	}
	if len(files) == 0 {
		return files
	}
	files["kustomization.yaml"] = []byte(kustomization(append(resources, added...), patches))
	return files
}

func kustomization(resources, patches []string) string {
	var b strings.Builder
	b.WriteString("# Patches by drainproof audit fix.\n")
	if slices.ContainsFunc(resources, func(r string) bool { return strings.HasPrefix(r, "../") && filepath.Ext(r) != "" }) {
		// kustomize reads single files only from its own folder, unless it is told otherwise.
		b.WriteString("# It names files of another folder: kubectl kustomize --load-restrictor LoadRestrictionsNone\n")
	}
	b.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")
	if len(resources) > 0 {
		b.WriteString("resources:\n")
	}
	for _, r := range resources {
		entry := scalar(word(r))
		if strings.HasPrefix(r, "../") && simple.MatchString(r) {
			entry = r
		}
		b.WriteString("- " + entry + "\n")
	}
	if len(patches) > 0 {
		b.WriteString("patches:\n" + strings.Join(patches, ""))
	}
	return b.String()
}

// fileName is a free name for what is about one object.
func fileName(taken map[string][]byte, o finding.Object, kind string) string {
	name := kind + "-" + o.Name
	if _, ok := taken[name+".yaml"]; ok {
		name = kind + "-" + o.Namespace + "-" + o.Name
	}
	for i, stem := 2, name; ; i++ {
		if _, ok := taken[name+".yaml"]; !ok {
			return name + ".yaml"
		}
		name = fmt.Sprintf("%s-%d", stem, i)
	}
}

// builtIn says whether kustomize knows how lists of the kind are merged. For a custom
// resource it does not: a strategic-merge patch would replace all containers.
func builtIn(o *manifest.Object) bool {
	switch o.Group() {
	case "", "apps", "batch", "policy":
		return true
	}
	return false
}

// identity is the head of a patch.
func identity(o *manifest.Object) tree {
	meta := mapping(field{"name", word(o.Name)})
	if o.Namespace != "" {
		meta.put("namespace", word(o.Namespace))
	}
	return mapping(field{"apiVersion", word(o.APIVersion)}, field{"kind", word(o.Kind)}, field{"metadata", meta})
}

func target(o *manifest.Object) tree {
	_, version, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		version = o.APIVersion
	}
	t := mapping(field{"version", word(version)}, field{"kind", word(o.Kind)}, field{"name", word(o.Name)})
	if g := o.Group(); g != "" {
		t.put("group", word(g))
	}
	if o.Namespace != "" {
		t.put("namespace", word(o.Namespace))
	}
	return t
}

// strategic gives edits as a strategic-merge patch.
func strategic(o *manifest.Object, edits []edit) tree {
	after := treeOf(o.Root)
	for _, e := range edits {
		_ = after.set(e) // Plan has set it before
	}
	patch := identity(o)
	for _, e := range edits {
		way, _ := stepsOf(e.path)
		merge(&patch, o.Root, after, way, e)
	}
	return patch
}

// merge puts an edit into a patch: elements of a list are addressed by their name,
// and a list whose elements have none is given whole, as the API merges it.
func merge(patch *tree, before manifest.Value, after tree, way []step, e edit) {
	for i := 0; i < len(way); i++ {
		key := way[i].key
		if i == len(way)-1 {
			if e.rename != "" {
				patch.put(key, nothing())
				key = e.rename
			}
			patch.put(key, e.value)
			return
		}
		before = before.At(key)
		if next := after.at(key); next != nil {
			after = *next
		}
		below := patch.at(key)
		if way[i+1].key != "" {
			if below == nil {
				below = patch.put(key, mapping())
			}
			patch = below
			continue
		}
		i++
		element := way[i].in(before)
		name := element.At("name").Text()
		if name == "" {
			patch.put(key, after)
			return
		}
		if below == nil {
			below = patch.put(key, list())
		}
		patch, before, after = below.element(name, before), element, after.items[way[i].index]
	}
}

// element gives the element of a patch's list that has a name, a new one where none has. They stand
// in the order of the original: the API's merge takes the order over from the patch.
func (t *tree) element(name string, original manifest.Value) *tree {
	at := 0
	for _, o := range original.Items() {
		have := ""
		if at < len(t.items) {
			have = t.items[at].at("name").text
		}
		switch o.At("name").Text() {
		case name:
			if have != name {
				t.items = slices.Insert(t.items, at, mapping(field{"name", word(name)}))
			}
			return &t.items[at]
		case have:
			at++
		}
	}
	return nil // it is an element of original
}

// operations gives edits as a JSON patch (RFC 6902), written in YAML.
func operations(o *manifest.Object, edits []edit) string {
	ops := list()
	for _, e := range edits {
		way, _ := stepsOf(e.path)
		op, value, at := "add", e.value, way
		v := o.Root
		for i, s := range way {
			next := s.in(v)
			if next.Exists() {
				v = next
				continue
			}
			at = way[:i+1]
			for j := len(way) - 1; j > i; j-- {
				value = nested(value, way[j].key)
			}
			break
		}
		if len(at) == len(way) && v.Kind() != manifest.Map {
			op = "replace"
		}
		if e.rename != "" {
			ops.items = append(ops.items, mapping(field{"op", word("remove")}, field{"path", word(pointer(at))}))
			op, at = "add", append(slices.Clone(at[:len(at)-1]), step{key: e.rename})
		}
		ops.items = append(ops.items, mapping(field{"op", word(op)}, field{"path", word(pointer(at))}, field{"value", value}))
	}
	return ops.dashed(0, 2, "\n")
}

func pointer(way []step) string {
	var b strings.Builder
	for _, s := range way {
		if s.key == "" {
			fmt.Fprintf(&b, "/%d", s.index)
			continue
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s.key))
	}
	return b.String()
}
