package rules

import (
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// Place is an object and a path in it.
type Place struct {
	Object *manifest.Object
	Path   string
}

// At names a place. The path may name a field that is not written.
func At(o *manifest.Object, path string) *Place { return &Place{o, path} }

// ObjectOf names an object as findings do.
func ObjectOf(o *manifest.Object) finding.Object {
	return finding.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}
