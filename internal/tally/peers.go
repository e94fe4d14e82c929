package tally

import (
	"cmp"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// peers are the instances as a record lists them, by name: those that had the most requests on their own, all beyond
// record.MaxInstances together as record.OtherInstances, and "" for requests whose instance is not known. A header that names
// each response anew would otherwise make as many instances as requests.
type peers struct {
	names []string
	// of gives, for each index of Input.Names, the index into names.
	of []int
}

// unknown is the index of "", which sorts before every name.
const unknown = 0

func newPeers(in Input) *peers {
	total := map[string]int64{"": 0}
	for i := range in.Samples {
		total[nameOf(in, &in.Samples[i])]++
	}
	named := make([]string, 0, len(total))
	for name := range total {
		if name != "" {
			named = append(named, name)
		}
	}
	slices.SortFunc(named, func(a, b string) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b)) })
	p := &peers{names: append([]string{""}, named[:min(len(named), record.MaxInstances)]...)}
	if len(named) > record.MaxInstances && !slices.Contains(p.names, record.OtherInstances) {
		p.names = append(p.names, record.OtherInstances)
	}
	slices.Sort(p.names)
	index := make(map[string]int, len(p.names))
	for i, name := range p.names {
		index[name] = i
	}
	p.of = make([]int, len(in.Names))
	for i, name := range in.Names {
		at, kept := index[name]
		if !kept {
			at = index[record.OtherInstances]
		}
		p.of[i] = at
	}
	return p
}

// nameOf gives the instance of s, "" where it is not known.
func nameOf(in Input, s *request.Sample) string {
	if s.Instance < 0 || int(s.Instance) >= len(in.Names) {
		return ""
	}
	return in.Names[s.Instance]
}

// at gives the index of the instance of s in names.
func (p *peers) at(s *request.Sample) int {
	if s.Instance < 0 || int(s.Instance) >= len(p.of) {
		return unknown
	}
	return p.of[s.Instance]
}

// counts gives every instance that had a request.
func (p *peers) counts(in Input) []record.InstanceCount {
	all := make([]record.InstanceCount, len(p.names))
	for i, name := range p.names {
		all[i].Instance = name
	}
	for i := range in.Samples {
		s := &in.Samples[i]
		c := &all[p.at(s)]
		c.Total++
		if s.RequestOutcome().Failed() && !endedBefore(s) {
			c.Failed++
		}
	}
	return slices.DeleteFunc(all, func(c record.InstanceCount) bool { return c.Total == 0 })
}
