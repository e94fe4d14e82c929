package explain

import "github.com/drainproof/drainproof/internal/record"

// wanted is what the API said of an endpoint at a time.
type wanted int

const (
	// unsure: it changed within the time by which its word may reach us late, or was not told.
	unsure wanted = iota
	// advertised: every node had to send it new connections.
	advertised
	// withdrawn: no node had to any more.
	withdrawn
)

// wantedAt is a Pod and a time, from and to which it may lie.
type wantedAt struct {
	pod      *life
	from, to int64
}

// condition is what was last told of one endpoint; nil for what was not.
type condition struct {
	ready, serving *bool
	pod            *life
}

// wantedOf tells whether the API wanted new connections to go to a Pod at t. An endpoint is wanted while it is ready, or, while none of the
// Service's is, when it is serving (KEP-1669). What the API tells is an upper bound: withdrawn is certain where the news came before t, advertised where
// none came until a time after t by which it would have.
func (v *view) wantedOf(pod *life, t instant) wanted {
	if t.doubt == nil {
		return unsure
	}
	key := wantedAt{pod, t.hi - *t.doubt, t.hi + *t.doubt}
	if w, known := v.wants[key]; known {
		return w
	}
	w := v.findWanted(key)
	v.wants[key] = w
	return w
}

func (v *view) findWanted(at wantedAt) wanted {
	pod, all := at.pod, map[string]condition{}
	// before is what held then, as far as told by then; since: it held in all that was told until the settling time was over.
	before, since := unsure, true
	for _, e := range v.endpoints {
		if e.TNs > at.to+settled {
			break
		}
		key := endpointKey(*e)
		if _, known := all[key]; !known && e.TNs > at.from && e.Kind == record.EndpointNotReady && v.isOf(pod, e) {
			// The first news is a change: it was ready before.
			before = advertised
		}
		all[key] = conditionAfter(e, v.podOf(e))
		switch w := wantedIn(all, pod); {
		case e.TNs <= at.from:
			before, since = w, w == advertised
		default:
			since = since && w == advertised
		}
	}
	switch {
	case before == withdrawn:
		return withdrawn
	case before == advertised && since && !v.deaf(at.from, at.to+settled):
		return advertised
	}
	return unsure
}

// podOf gives the Pod of an event; nil where two had its name.
func (v *view) podOf(e *record.Event) *life {
	var found *life
	for _, l := range v.named(record.PodOf(e.Subject)) {
		if v.isOf(l, e) {
			if found != nil {
				return nil
			}
			found = l
		}
	}
	return found
}

func conditionAfter(e *record.Event, pod *life) condition {
	c := condition{pod: pod}
	if e.Kind == record.EndpointRemoved {
		return condition{ready: new(false), serving: new(false), pod: pod}
	}
	if ready, ok := e.Detail["ready"].(bool); ok {
		c.ready = &ready
	}
	if serving, ok := e.Detail["serving"].(bool); ok {
		c.serving = &serving
	}
	switch e.Kind {
	case record.EndpointReady:
		c.ready = new(true)
	case record.EndpointNotReady, record.EndpointTerminating:
		if c.ready == nil {
			c.ready = new(false)
		}
	}
	return c
}

// wantedIn judges a Pod by what is known of all endpoints of its Service.
func wantedIn(all map[string]condition, pod *life) wanted {
	var own []condition
	anyReady, readyKnown := false, true
	for _, c := range all {
		if c.pod == pod {
			own = append(own, c)
		}
		anyReady = anyReady || c.ready != nil && *c.ready
		readyKnown = readyKnown && c.ready != nil
	}
	best := withdrawn
	if len(own) == 0 {
		return unsure
	}
	for _, c := range own {
		switch {
		case c.ready == nil:
			best = unsure
		case *c.ready:
			return advertised
		case anyReady:
		case !readyKnown || c.serving == nil:
			best = unsure
		case *c.serving:
			return advertised
		}
	}
	return best
}

// otherServed reports whether an endpoint of another Pod was ready or serving all the time from one time to another, so that new connections had
// somewhere else to go, and gives the event that told so.
func (v *view) otherServed(pod *life, from, to int64) *record.Event {
	last := map[string]*record.Event{}
	gone := map[string]bool{}
	for _, e := range v.endpoints {
		if e.TNs > to {
			break
		}
		if v.isOf(pod, e) {
			continue
		}
		up, _ := upAfter(*e)
		switch key := endpointKey(*e); {
		case up != nil && *up && e.TNs <= from:
			last[key], gone[key] = e, false
		case up != nil && !*up:
			gone[key] = true
		}
	}
	var found *record.Event
	for key, e := range last {
		if !gone[key] && (found == nil || e.ID < found.ID) {
			found = e
		}
	}
	return found
}
