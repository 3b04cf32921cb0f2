package event

import (
	"cmp"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/heat"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
	"google.golang.org/protobuf/proto"
)

// Bounds on what is kept of tool calls.
const (
	maxTools     = 1000     // tool calls of a session
	maxToolBytes = 64 << 10 // of a tool call's content, of its input, of its output
	maxToolsSize = 32 << 20 // of all tool calls of a session, roughly
	defaultKind  = "other"  // what ACP has a tool call be that does not say its kind
)

// tools are the tool calls of the current turn and the last one, oldest first, and the count of all.
type tools struct {
	turns  int
	broken bool // the last turn was cancelled, or ended with its agent: what it left open never ends
	known  ordered.Map[string, *tool]
	size   int

	kinds, names map[string]uint64
}

// tool is a tool call. What it holds is shared with the events that it came from.
type tool struct {
	turn     int
	size     int
	shown    *supervisorv1.ToolCall
	kind     string // it is counted as; "": it is not counted
	name     string // likewise
	reported map[string]bool
}

func (t *tool) done() bool { return client.ToolCallEnded(t.shown.GetStatus()) }

// turn begins a turn: what ended before the last one is forgotten.
func (t *tools) turn() {
	t.turns++
	for id, c := range t.known.All() {
		if c.turn < t.turns-1 && c.done() || t.broken && !c.done() {
			t.drop(id)
		}
	}
	t.broken = false
}

func (t *tools) drop(id string) { t.size -= t.known.Delete(id).size }

// report folds a report of a tool call. Those of history are kept and not counted.
func (t *tools) report(r *supervisorv1.ToolCallReport, announced, history bool, touched *heat.Files) {
	id := r.GetToolCallId()
	if id == "" || len(id) > maxTitle {
		return
	}
	c := t.known.At(id)
	if c != nil && client.Restarts(c.shown, announced) {
		t.drop(id)
		c = nil
	}
	if c == nil {
		if t.kinds == nil {
			t.kinds, t.names = map[string]uint64{}, map[string]uint64{}
		}
		if t.known.Len() >= maxTools {
			t.drop(t.known.Oldest())
		}
		c = &tool{turn: t.turns, shown: &supervisorv1.ToolCall{ToolCallId: id}}
		t.known.Set(id, c)
	}
	c.merge(r)
	if !history {
		t.count(c)
		c.touch(touched)
	}
	t.size += c.weight() - c.size
	c.size = c.weight()
	for t.size > maxToolsSize && t.known.Oldest() != id {
		t.drop(t.known.Oldest())
	}
}

// merge makes what is shown of the tool call anew: the old may be on its way to somebody.
func (t *tool) merge(r *supervisorv1.ToolCallReport) {
	c := copyOf(t.shown)
	client.FoldToolCall(c, r)
	for _, s := range []*string{&c.Title, &c.Name, &c.Kind, &c.Status} {
		*s = safetext.Cut(*s, maxTitle)
	}
	for _, s := range []*string{&c.RawInput, &c.RawOutput} {
		if len(*s) > maxToolBytes {
			*s = ""
		}
	}
	if r.GetContentSet() {
		c.Content, c.TerminalIds = fitting(r.GetContent(), maxToolBytes), nil
		for _, item := range c.GetContent() {
			if id := item.GetTerminalId(); id != "" {
				c.TerminalIds = append(c.TerminalIds, id)
			}
		}
	}
	if r.GetLocationsSet() {
		c.Locations = fitting(r.GetLocations(), maxToolBytes)
	}
	if r.GetContentSet() || r.GetLocationsSet() {
		c.Paths = pathsOf(c)
	}
	t.shown = c
}

// pathsOf are the files that a tool call changes and where it works, each once: an edit names its file both ways.
func pathsOf(c *supervisorv1.ToolCall) (paths []string) {
	seen := map[string]bool{"": true}
	add := func(p string) {
		if !seen[p] {
			seen[p] = true
			paths = append(paths, p)
		}
	}
	for _, item := range c.GetContent() {
		add(item.GetDiff().GetPath())
	}
	for _, l := range c.GetLocations() {
		add(l.GetPath())
	}
	return paths
}

// fitting are the first items that have room in so many bytes; what has none is left out, and what comes after it not.
func fitting[M proto.Message](items []M, limit int) []M {
	var out []M
	for _, item := range items {
		size := proto.Size(item) + 8
		if size > limit || len(out) >= maxItems {
			continue
		}
		limit -= size
		out = append(out, item)
	}
	return out
}

// count counts a tool call once, by what it says that it is at last.
func (t *tools) count(c *tool) {
	kind := c.shown.GetKind()
	kind = cmp.Or(kind, defaultKind)
	recount(t.kinds, &c.kind, kind)
	if name := c.shown.GetName(); name != "" {
		recount(t.names, &c.name, name)
	}
}

// recount moves a tool call's count from one name to another; from "", it is counted now. Of names past the bound
// nothing is counted.
func recount(counts map[string]uint64, from *string, to string) {
	if *from == to {
		return
	}
	if _, ok := counts[to]; !ok && len(counts) >= maxNames {
		return
	}
	if *from != "" {
		if counts[*from]--; counts[*from] == 0 {
			delete(counts, *from)
		}
	}
	counts[to]++
	*from = to
}

// touch counts the files that the tool call names, each once.
func (t *tool) touch(touched *heat.Files) {
	for _, p := range t.shown.GetPaths() {
		if t.reported[p] || len(t.reported) >= maxItems {
			continue
		}
		if t.reported == nil {
			t.reported = map[string]bool{}
		}
		t.reported[p] = true
		touched.File(p).Reported++
	}
}

// weight is roughly what the tool call takes, in bytes.
func (t *tool) weight() int {
	size := 512 + 2*proto.Size(t.shown)
	for p := range t.reported {
		size += len(p) + 64
	}
	return size
}
