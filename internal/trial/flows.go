package trial

import (
	"fmt"
	"slices"
	"sync"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
)

// flowStates follows the client's notes while the trial runs, to know when it
// may go on. The verdict on each flow comes from the client's report, not from here.
type flowStates struct {
	mu      sync.Mutex
	byID    map[string]*flowState
	lost    bool
	endings []string // in order, for the message when one comes too early
	// protocols of the planned flows, by id.
	protocols map[string]record.Protocol
}

type flowState struct {
	podUID, instance string
	decided          bool // ended or rehomed
}

func newFlowStates() *flowStates { return &flowStates{byID: map[string]*flowState{}} }

// plan tells which flows there will be; before they are opened.
func (f *flowStates) plan(p traffic.Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.protocols = make(map[string]record.Protocol, len(p.Flows))
	for _, fp := range p.Flows {
		f.protocols[fp.ID] = fp.Protocol
	}
}

func (f *flowStates) protocol(id string) record.Protocol {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.protocols[id]
}

func (f *flowStates) note(n traffic.Note) {
	if n.Flow == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.byID[n.Flow]
	if s == nil {
		s = &flowState{}
		f.byID[n.Flow] = s
	}
	switch n.Kind {
	case traffic.NoteOpened:
		s.podUID, s.instance = n.PodUID, n.Instance
	case traffic.NoteRehomed:
		s.decided = true
		f.endings = append(f.endings, fmt.Sprintf("flow %s was answered by %s", n.Flow, n.Instance))
	case traffic.NoteEnded:
		s.decided = true
		how := "ended"
		if n.End != nil {
			how = fmt.Sprintf("ended (%s %s)", n.End.Kind, n.End.Errno)
		}
		f.endings = append(f.endings, fmt.Sprintf("flow %s %s", n.Flow, how))
	}
}

// lose says that no more notes will come.
func (f *flowStates) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = true
}

func (f *flowStates) clientLost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

func (f *flowStates) opened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.byID {
		if s.podUID != "" {
			n++
		}
	}
	return n
}

// strangers are flows that another Pod answered first.
func (f *flowStates) strangers(podUID string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for id, s := range f.byID {
		if s.podUID != podUID {
			out = append(out, fmt.Sprintf("%s by %s", id, s.instance))
		}
	}
	slices.Sort(out)
	return out
}

// endedEarly describes the first flow that ended; "" when none did.
func (f *flowStates) endedEarly() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.endings) == 0 {
		return ""
	}
	return f.endings[0]
}

func (f *flowStates) allDecided() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.byID {
		if !s.decided {
			return false
		}
	}
	return true
}
