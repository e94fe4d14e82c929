package explain

import (
	"cmp"
	"sort"

	"github.com/drainproof/drainproof/internal/record"
)

// downtime is a time in which no endpoint was ready or serving, and the events that show it.
type downtime struct {
	from int64
	// to is open where the record ends before another endpoint came.
	to   *int64
	news []int
}

// state is what was last told of one endpoint.
type state struct {
	up bool
	// id of the event that told so.
	id int
}

// downOf follows the endpoints. Before the first news nothing is known, so no downtime begins there.
func downOf(events []record.Event) []downtime {
	var list []downtime
	endpoints := map[string]state{}
	var open *downtime
	for _, e := range events {
		up, isEndpoint := upAfter(e)
		if !isEndpoint {
			continue
		}
		key := endpointKey(e)
		switch before, known := endpoints[key]; {
		case up == nil && known:
			continue
		case up == nil:
			endpoints[key] = state{up: true, id: e.ID}
		case known && before.up == *up:
			continue
		default:
			endpoints[key] = state{up: *up, id: e.ID}
		}
		anyUp := false
		var news []int
		for _, s := range endpoints {
			anyUp = anyUp || s.up
			news = append(news, s.id)
		}
		switch {
		case anyUp && open != nil:
			open.to = &e.TNs
			list = append(list, *open)
			open = nil
		case !anyUp && open == nil:
			open = &downtime{from: e.TNs, news: ordered(news)}
		}
	}
	if open != nil {
		list = append(list, *open)
	}
	return list
}

// endpointKey tells endpoints apart: a Pod in one family of addresses.
func endpointKey(e record.Event) string {
	family, _ := e.Detail["family"].(string)
	return e.Subject + " " + e.PodUID + " " + family
}

// upAfter tells whether an endpoint took connections after e: ready, or serving while it terminates. Nil is not told, which never counts
// as down.
func upAfter(e record.Event) (up *bool, isEndpoint bool) {
	ready, hasReady := e.Detail["ready"].(bool)
	serving, hasServing := e.Detail["serving"].(bool)
	switch e.Kind {
	case record.EndpointRemoved:
		return new(false), true
	case record.EndpointAdded, record.EndpointTerminating, record.EndpointReady, record.EndpointNotReady, record.EndpointServing, record.EndpointNotServing:
		if hasReady && hasServing {
			return new(ready || serving), true
		}
		if e.Kind == record.EndpointReady || e.Kind == record.EndpointServing {
			return new(true), true
		}
		return nil, true
	}
	return nil, false
}

// downThroughout gives the downtime that holds all from one time to another.
func (v *view) downThroughout(from, to int64) (downtime, bool) {
	i, found := sort.Find(len(v.down), func(i int) int { return cmp.Compare(from, v.down[i].from) })
	if !found {
		i--
	}
	if i < 0 || v.down[i].to != nil && *v.down[i].to <= to {
		return downtime{}, false
	}
	return v.down[i], true
}
