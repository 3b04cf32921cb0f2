package event

import (
	"cmp"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/events/heat"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"google.golang.org/protobuf/proto"
)

// Limits of kept tool calls.
const (
	maxTools     = 1000     // tool calls of a session
	maxToolBytes = 64 << 10 // of a tool call's content, its input, and its output
	maxToolsSize = 32 << 20 // of all tool calls of a session, approximately
	defaultKind  = "other"  // ACP's default for a tool call without a kind
)

// tools are the tool calls of the current and the previous turn, oldest first, and the count of all.
type tools struct {
	turns  int
	broken bool // the last turn was cancelled, or ended with its agent: its open tool calls will not end
	known  ordered.Map[string, *tool]
	size   int

	kinds, names map[string]uint64
}

// tool is a tool call. It shares memory with its events.
type tool struct {
	turn     int
	size     int
	shown    *supervisorv1.ToolCall
	kind     string // the kind that it is counted with; "": it is not counted
	name     string // the same for the name
	reported map[string]bool
}

func (t *tool) done() bool { return client.ToolCallEnded(t.shown.GetStatus()) }

// turn begins a turn: it removes tool calls that ended before the previous turn.
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

// report applies a report of a tool call. Reports of history are kept and not counted.
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

// merge makes a new copy of the shown tool call: the old one may be in use by readers.
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

// pathsOf returns the files that a tool call changes or works in, without duplicates: an edit names its file in both
// ways.
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

// fitting returns the first items that fit into limit bytes. It omits an item that does not fit, and continues with the
// next one.
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

// count counts a tool call once, with its latest kind and name.
func (t *tools) count(c *tool) {
	kind := c.shown.GetKind()
	kind = cmp.Or(kind, defaultKind)
	recount(t.kinds, &c.kind, kind)
	if name := c.shown.GetName(); name != "" {
		recount(t.names, &c.name, name)
	}
}

// recount moves a tool call's count from one name to another; from "", it is counted now. Names above the limit are not
// counted.
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

// weight returns the approximate size of the tool call, in bytes.
func (t *tool) weight() int {
	size := 512 + 2*proto.Size(t.shown)
	for p := range t.reported {
		size += len(p) + 64
	}
	return size
}
