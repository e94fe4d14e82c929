package testview

import (
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
)

// causes tells why requests failed, as far as evidence goes; verbose, with the events that show it.
func (s *sheet) causes() {
	render.Causes(&s.b, "\n"+s.k.Bold("Causes")+"\n", s.r, s.o)
}

// endings tells how each Pod ended, as far as more than the API told of it.
func (s *sheet) endings() {
	list, more := page.Endings(s.r, s.o.Verbose)
	if len(list) == 0 {
		return
	}
	s.line("")
	s.line(s.k.Bold("Pods that were ended"))
	for _, e := range list {
		e.Terminal(&s.b, s.k, s.width)
	}
	if more > 0 {
		page.Bullet(&s.b, page.MoreEndings(more), s.width)
	}
}
