package event

import (
	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Limits of tracked requests, so that no agent and no client can make a decoder grow without limit.
const (
	maxRequests = 4096 // open requests of each end
	maxKept     = 4096 // bytes of a path, an id, a method of a request
	maxOptions  = 256  // of a question
	maxOptionID = 256  // bytes of an option's id; an option with a longer id does not count as allowing
	maxReported = 256  // tool calls for questions
)

// request is an unanswered request.
type request struct {
	key     string // the canonical id
	id      string // as sent
	method  string
	session string

	// Of the client.
	roots []string
	value string // the requested mode or model
	loads bool   // updates until the answer are history
	ended bool   // the agent has reported the end of the turn

	// Of the agent, and of acphost itself: a question.
	question string          // the approval's id; "": it is a call
	allowing map[string]bool // the ids of options that allow
	toolCall string          // of the question

	to      string                    // the destination of a call
	touched []*supervisorv1.FileTouch // files of the call, unless it fails
}

// table has the open requests of one end, oldest first.
type table struct{ ordered.Map[string, *request] }

// open tracks a request. It drops an earlier request with the same id, and the oldest one above the limit; their
// answers cannot be interpreted.
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

// reports has the tool calls that questions may be about, since a question may contain only the id.
type reports struct {
	known ordered.Map[string, *knownCall]
}

// knownCall is a tool call, with the state of its processing.
type knownCall struct {
	*supervisorv1.ToolCall
	input  string // whose files were emitted
	denied bool   // the last question about it was denied
}

func reportKey(session, id string) string { return session + "\x00" + id }

// note merges a report of size bytes into the known tool call. Neither the report nor its parts change later, but its
// parts are shared.
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
	// The known call is outdated, and this report is too large to keep.
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

// with returns a tool call merged with the report of a question about it.
func (r *reports) with(session string, report *supervisorv1.ToolCallReport) *supervisorv1.ToolCall {
	c := &supervisorv1.ToolCall{}
	if k := r.known.At(reportKey(session, report.GetToolCallId())); k != nil {
		c = copyOf(k.ToolCall)
	}
	client.FoldToolCall(c, report)
	return c
}
