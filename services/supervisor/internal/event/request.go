package event

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Bounds on what is remembered, so that no agent and no client can make a decoder grow without end.
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

	// Of the client's.
	roots []string
	value string // the mode or the model that is to be
	loads bool   // what comes until the answer is history
	ended bool   // the agent has said that the turn is over

	// Of the agent's, and acphost's own: a question.
	question string          // the approval's id; "": it is a call
	allowing map[string]bool // the ids of options that allow
	toolCall string          // that it is about

	to      string                    // who has a call
	touched []*supervisorv1.FileTouch // what it uses, unless it fails
}

// table holds the requests of one end that are open, oldest first.
type table struct{ ordered.Map[string, *request] }

// open remembers a request. Nobody will know the answer to one that had the same id, or to the oldest if there are too
// many.
func (d *Decoder) open(t *table, r *request) {
	const why = "it is not known what came of it: too many requests are open, or its id was used again"
	if old := t.Delete(r.key); old != nil {
		d.lost(old, why)
	}
	if t.Len() >= maxRequests {
		d.lost(t.Delete(t.Oldest()), why)
	}
	t.Set(r.key, r)
}

// reports remembers the tool calls that questions may be about, since a question may say no more than the id.
type reports struct {
	known ordered.Map[string, *knownCall]
}

// knownCall is a tool call, and what was made of it.
type knownCall struct {
	*supervisorv1.ToolCall
	input  string // of which the files were told
	denied bool   // the last question about it was answered so
}

func reportKey(session, id string) string { return session + "\x00" + id }

// note folds a report of so many bytes into what is known. What it is given is not changed later, but what is in it is
// shared.
func (r *reports) note(session string, report *supervisorv1.ToolCallReport, announced bool, size int) {
	key := reportKey(session, report.GetToolCallId())
	if len(key) > maxKept {
		return
	}
	k := r.known.At(key)
	if k == nil || client.Restarts(k.ToolCall, announced) {
		k = &knownCall{ToolCall: &supervisorv1.ToolCall{ToolCallId: report.GetToolCallId()}}
		r.known.Keep(key, k, maxReported)
	}
	client.FoldToolCall(k.ToolCall, report)
	k.Title, k.Kind, k.Status = safetext.Cut(k.GetTitle(), maxKept), safetext.Cut(k.GetKind(), maxKept), safetext.Cut(k.GetStatus(), maxKept)
	k.Name, k.RawOutput = safetext.Cut(k.GetName(), maxKept), ""
	if size <= maxMerged {
		return
	}
	// What was known is not true any more, and this is too much to keep.
	if report.GetContentSet() {
		k.Content = nil
	}
	if report.GetLocationsSet() {
		k.Locations = nil
	}
	if report.GetRawInput() != "" {
		k.RawInput = ""
	}
}

// with returns a tool call as it is with the report of a question about it.
func (r *reports) with(session string, report *supervisorv1.ToolCallReport) *supervisorv1.ToolCall {
	c := &supervisorv1.ToolCall{}
	if k := r.known.At(reportKey(session, report.GetToolCallId())); k != nil {
		c = copyOf(k.ToolCall)
	}
	client.FoldToolCall(c, report)
	return c
}
