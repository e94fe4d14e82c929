// Package explain says why a request or flow was lost, from what a record holds. Pure.
//
// For now it has Kubernetes' evidence only: it places each failure among what
// the API told of Pods and endpoints, and says which evidence is missing. It never guesses.
//
// It must not know how anything was observed.
package explain

import "github.com/drainproof/drainproof/internal/record"

// Attribute gives every failure of r its cause; what cannot be known from the events is unattributed, with a sentence that
// places it and names what is missing. r.Failures[i].Cause is set; nothing else is changed.
func Attribute(r *record.Record) { panic("not built yet") }
