package containers

import (
	"cmp"
	"slices"
)

// Containers lists those of a Pod, its sandbox among them, in the order in which they were first seen.
func (m *Map) Containers(podUID string) []Container {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []Container
	for k, c := range m.containers {
		if k.pod == podUID {
			found = append(found, *c)
		}
	}
	slices.SortFunc(found, func(a, b Container) int { return cmp.Or(cmp.Compare(a.FirstNs, b.FirstNs), cmp.Compare(a.ID, b.ID)) })
	return found
}
