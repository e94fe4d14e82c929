package fix

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// Refused is Apply's error when some changes could not be made in the text. The
// others are made.
type Refused struct {
	// Changes carry the reason in Skipped.
	Changes []Change
}

func (r *Refused) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the changes cannot be made in place:", len(r.Changes))
	for _, c := range r.Changes {
		fmt.Fprintf(&b, "\n%s %s/%s: %s: %s", c.File, c.Object.Kind, c.Object.Name, c.What, c.Skipped)
	}
	return b.String()
}

// Apply makes changes in the texts that they were planned from and gives the texts
// that are different afterwards. Outside of what is inserted or replaced every byte stays.
//
// Each text is read again afterwards. A change that would mean anything else than it
// says, for example because an anchor shares the value with another place, is left out
// and named by the error, a *Refused. Changes that need each other, a hook and
// the grace period for it, are made together or not at all.
func Apply(files map[string][]byte, changes []Change) (map[string][]byte, error) {
	done := map[string][]byte{}
	var refused []Change
	var order []string
	of := map[string][]Change{}
	for _, c := range changes {
		if c.Skipped != "" {
			continue
		}
		if of[c.File] == nil {
			order = append(order, c.File)
		}
		of[c.File] = append(of[c.File], c)
	}
	for _, file := range order {
		text, ok := files[file]
		if !ok {
			reason := "the text of " + file + " is not at hand"
			if file == "" {
				reason = "it was not read from a file"
			}
			refused = append(refused, refuse(of[file], reason+"; take the overlay")...)
			continue
		}
		s, err := open(file, text)
		if err != nil {
			refused = append(refused, refuse(of[file], err.Error())...)
			continue
		}
		after := s.apply(bundles(of[file]))
		if !bytes.Equal(after, text) {
			done[file] = after
		}
		refused = append(refused, s.refused...)
	}
	if len(refused) > 0 {
		return done, &Refused{refused}
	}
	return done, nil
}

func refuse(changes []Change, reason string) []Change {
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].Skipped = reason
	}
	return changes
}

// bundle is what must be done together.
type bundle []Change

func bundles(changes []Change) []bundle {
	var all []bundle
	index := map[string]int{}
	for _, c := range changes {
		if c.bond == "" {
			all = append(all, bundle{c})
			continue
		}
		key := fmt.Sprint(c.Object, c.bond)
		if i, ok := index[key]; ok {
			all[i] = append(all[i], c)
			continue
		}
		index[key] = len(all)
		all = append(all, bundle{c})
	}
	return all
}

// sheet is one file at work.
type sheet struct {
	file    string
	page    *page
	objects []*manifest.Object
	refused []Change
}

func open(file string, text []byte) (*sheet, error) {
	objects, err := manifest.Parse(file, text)
	if err != nil {
		return nil, fmt.Errorf("reading %s again: %w", file, err)
	}
	return &sheet{file: file, page: newPage(text), objects: objects}, nil
}

func (s *sheet) apply(all []bundle) []byte {
	kept := s.settle(nil, all)
	text, err := s.try(kept)
	if err != nil { // settle has tried exactly these
		return s.page.text
	}
	return text
}

// settle adds to the bundles that are kept those that can be done beside them. Mostly
// all can, at the first try; where not it looks for the culprits by halves.
func (s *sheet) settle(kept, more []bundle) []bundle {
	if len(more) == 0 {
		return kept
	}
	_, err := s.try(slices.Concat(kept, more))
	if err == nil {
		return slices.Concat(kept, more)
	}
	if len(more) == 1 {
		s.refused = append(s.refused, refuse(more[0], err.Error())...)
		return kept
	}
	kept = s.settle(kept, more[:len(more)/2])
	return s.settle(kept, more[len(more)/2:])
}

// try does all that bundles ask for and holds the result to it.
func (s *sheet) try(all []bundle) ([]byte, error) {
	var splices []splice
	edits := make([][]edit, len(s.objects))
	var added []tree
	for _, b := range all {
		for _, c := range b {
			if c.added != nil {
				if s.isJSON() {
					return nil, errors.New("a JSON file holds one document; take the overlay")
				}
				added = append(added, *c.added)
				continue
			}
			i := s.find(c.object)
			if i < 0 {
				return nil, errors.New("the object no longer stands where it was read")
			}
			for _, e := range c.edits {
				sp, err := s.page.splice(s.objects[i].Root, e)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", e.path, err)
				}
				splices = append(splices, sp)
			}
			edits[i] = append(edits[i], c.edits...)
		}
	}
	slices.SortStableFunc(splices, func(a, b splice) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.end, b.end), -cmp.Compare(a.indent, b.indent))
	})
	text, err := s.page.spliced(splices)
	if err != nil {
		return nil, err
	}
	for _, t := range added {
		text = s.page.append(text, t)
	}
	return text, s.check(text, edits, added)
}

func (s *sheet) isJSON() bool {
	start := bytes.TrimLeft(s.page.text, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[')
}

// find gives the index of an object that was read from the same text before.
func (s *sheet) find(o *manifest.Object) int {
	line, column := o.Root.Position()
	return slices.IndexFunc(s.objects, func(have *manifest.Object) bool {
		l, c := have.Root.Position()
		return l == line && c == column && have.Kind == o.Kind && have.Name == o.Name && have.Namespace == o.Namespace
	})
}

// append puts a document at the end of a text, behind a separator.
func (p *page) append(text []byte, t tree) []byte {
	newline := p.newline(len(p.starts))
	var b bytes.Buffer
	b.Write(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		b.WriteString(newline)
	}
	b.WriteString("---" + newline + t.block(0, 2, newline))
	return b.Bytes()
}

// check reads a text that was made and compares all of it with what was meant.
func (s *sheet) check(text []byte, edits [][]edit, added []tree) error {
	after, err := manifest.Parse(s.file, text)
	if err != nil {
		return fmt.Errorf("the text around it is written in a way that cannot be edited safely: %w", err)
	}
	if len(after) != len(s.objects)+len(added) {
		return errUnusual
	}
	for i, o := range after {
		want := tree{}
		if i < len(s.objects) {
			want = treeOf(s.objects[i].Root)
			for _, e := range edits[i] {
				if err := want.set(e); err != nil {
					return err
				}
			}
		} else {
			want = added[i-len(s.objects)]
		}
		if where, bad := want.differs(treeOf(o.Root), ""); bad {
			if bytes.ContainsAny(s.page.text, "&*") {
				return fmt.Errorf("%s of %s/%s would change with it: an anchor shares the text", where, o.Kind, o.Name)
			}
			return fmt.Errorf("%w: %s of %s/%s would change with it", errUnusual, where, o.Kind, o.Name)
		}
	}
	return nil
}
