package fix

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/rules"
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
		after := s.apply(s.located(bundles(of[file])))
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

// located is a bundle with its places in the text.
type located struct {
	bundle
	splices []splice
	// edits are those of each object, by its index.
	edits map[int][]edit
	added []tree
}

// sheet is one file at work.
type sheet struct {
	file    string
	page    *page
	objects []*manifest.Object
	// at gives the index of the object that starts at a line and column.
	at      map[[2]int]int
	refused []Change
}

func open(file string, text []byte) (*sheet, error) {
	objects, err := manifest.Parse(file, text)
	if err != nil {
		return nil, fmt.Errorf("reading %s again: %w", file, err)
	}
	s := &sheet{file: file, page: newPage(text), objects: objects, at: make(map[[2]int]int, len(objects))}
	for i, o := range objects {
		line, column := o.Root.Position()
		s.at[[2]int{line, column}] = i
	}
	return s, nil
}

// located finds the places of all bundles, and refuses those that have none.
func (s *sheet) located(all []bundle) []located {
	var found []located
	for _, b := range all {
		l, err := s.locate(b)
		if err != nil {
			s.refused = append(s.refused, refuse(b, err.Error())...)
			continue
		}
		found = append(found, l)
	}
	return found
}

func (s *sheet) locate(b bundle) (located, error) {
	l := located{bundle: b, edits: map[int][]edit{}}
	for _, c := range b {
		if c.added != nil {
			if s.isJSON() {
				return l, errors.New("a JSON file holds one document; take the overlay")
			}
			l.added = append(l.added, *c.added)
			continue
		}
		i := s.find(c.object)
		if i < 0 {
			return l, errors.New("the object no longer stands where it was read")
		}
		for _, e := range c.edits {
			sp, err := s.page.splice(s.objects[i].Root, e)
			if err != nil {
				return l, fmt.Errorf("%s: %w", e.path, err)
			}
			l.splices = append(l.splices, sp)
		}
		l.edits[i] = append(l.edits[i], c.edits...)
	}
	return l, nil
}

// find gives the index of an object that was read from the same text before; -1 where it is another one now.
func (s *sheet) find(o *manifest.Object) int {
	line, column := o.Root.Position()
	i, ok := s.at[[2]int{line, column}]
	if !ok || rules.ObjectOf(s.objects[i]) != rules.ObjectOf(o) {
		return -1
	}
	return i
}

func (s *sheet) apply(all []located) []byte {
	kept := s.settle(nil, all)
	text, err := s.try(kept)
	if err != nil { // settle has tried exactly these
		return s.page.text
	}
	return text
}

// settle adds to the bundles that are kept those that can be done beside them. Mostly
// all can, at the first try; where not it looks for the culprits by halves.
func (s *sheet) settle(kept, more []located) []located {
	if len(more) == 0 {
		return kept
	}
	_, err := s.try(slices.Concat(kept, more))
	if err == nil {
		return slices.Concat(kept, more)
	}
	if len(more) == 1 {
		s.refused = append(s.refused, refuse(more[0].bundle, err.Error())...)
		return kept
	}
	kept = s.settle(kept, more[:len(more)/2])
	return s.settle(kept, more[len(more)/2:])
}

// try does all that bundles ask for and holds the result to it.
func (s *sheet) try(all []located) ([]byte, error) {
	var splices []splice
	edits := make([][]edit, len(s.objects))
	var added []tree
	for _, l := range all {
		splices, added = append(splices, l.splices...), append(added, l.added...)
		for i, es := range l.edits {
			edits[i] = append(edits[i], es...)
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
