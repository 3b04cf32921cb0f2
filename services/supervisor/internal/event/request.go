package event

import (
	"container/list"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Bounds on what is remembered, so that no agent and no front can make a decoder grow without end.
const (
	maxRequests = 4096 // open requests of each end
	maxKept     = 4096 // bytes of a path, an id, a method that are remembered of a request
	maxOptions  = 256  // of a question
	maxOptionID = 256  // bytes of an option's id; a longer one allows nothing
	maxReported = 256  // tool calls that questions may be about
)

// request is one that is not answered.
type request struct {
	key     string // the canonical id
	id      string // as it was spelled
	method  string
	session string

	// Of the front's.
	roots []string
	value string // the mode or the model that is to be
	loads bool   // what comes until the answer is history

	// Of the agent's, and acphost's own: a question.
	question string          // the approval's id; "": it is a call
	allowing map[string]bool // the ids of options that allow

	to string // who has a call

	at *list.Element
}

// table holds the requests of one end that are open, oldest first.
type table struct {
	open  map[string]*request
	order list.List
}

// add remembers a request. It returns one that had the same id, and the oldest if there are too many: nobody will know
// their answers.
func (t *table) add(r *request) (lost []*request) {
	if t.open == nil {
		t.open = map[string]*request{}
	}
	if old := t.take(r.key); old != nil {
		lost = append(lost, old)
	}
	if len(t.open) >= maxRequests {
		lost = append(lost, t.take(t.order.Front().Value.(*request).key))
	}
	t.open[r.key] = r
	r.at = t.order.PushBack(r)
	return lost
}

func (t *table) get(key string) *request { return t.open[key] }

// take returns a request and forgets it; nil: it is not open.
func (t *table) take(key string) *request {
	r := t.open[key]
	if r != nil {
		delete(t.open, key)
		t.order.Remove(r.at)
	}
	return r
}

// all returns the requests that are open, oldest first.
func (t *table) all() []*request {
	all := make([]*request, 0, len(t.open))
	for e := t.order.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*request))
	}
	return all
}

// reports remembers what was last said of tool calls, since a question about one may say no more than its id.
type reports struct {
	known map[string]*supervisorv1.ToolCallReport
	order []string
}

func reportKey(session, id string) string { return session + "\x00" + id }

// note merges a report into what is known. What it is given is not changed later, but what is in it is shared.
func (r *reports) note(session string, report *supervisorv1.ToolCallReport, size int) {
	if r.known == nil {
		r.known = map[string]*supervisorv1.ToolCallReport{}
	}
	key := reportKey(session, report.GetToolCallId())
	if len(key) > maxKept {
		return
	}
	k := r.known[key]
	if k == nil {
		if len(r.order) >= maxReported {
			delete(r.known, r.order[0])
			r.order = r.order[1:]
		}
		k = &supervisorv1.ToolCallReport{ToolCallId: report.GetToolCallId()}
		r.known[key] = k
		r.order = append(r.order, key)
	}
	if report.Title != nil {
		title := shortened(report.GetTitle(), maxKept)
		k.Title = &title
	}
	if report.Kind != nil && len(report.GetKind()) <= maxKept {
		k.Kind = report.Kind
	}
	if size > maxMerged { // what was known is not true any more, and this is too much to keep
		if report.GetContentSet() {
			k.Content = nil
		}
		if report.GetLocationsSet() {
			k.Locations = nil
		}
		if report.GetRawInput() != "" {
			k.RawInput = ""
		}
		return
	}
	if report.GetContentSet() {
		k.Content = report.GetContent()
	}
	if report.GetLocationsSet() {
		k.Locations = report.GetLocations()
	}
	if report.GetRawInput() != "" {
		k.RawInput = report.GetRawInput()
	}
}

// of returns what is known of a tool call, nil for nothing.
func (r *reports) of(session, id string) *supervisorv1.ToolCallReport {
	return r.known[reportKey(session, id)]
}
