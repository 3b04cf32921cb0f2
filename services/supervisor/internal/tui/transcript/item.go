package transcript

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// kind is the kind of an item.
type kind string

// The kinds of items. Pages use them as names.
const (
	kindTurn     kind = "turn" // the begin of a turn
	kindUser     kind = "user"
	kindAgent    kind = "agent"
	kindThought  kind = "thought"
	kindSummary  kind = "summary" // the summary of a compacted context
	kindPlan     kind = "plan"
	kindTool     kind = "tool"
	kindCommand  kind = "command"
	kindQuestion kind = "question"
	kindDecision kind = "decision" // a decision of the policy without another item
	kindCall     kind = "call"     // a request of the agent to its client
	kindNote     kind = "note"
	kindLost     kind = "lost" // a gap in the record
	kindEnd      kind = "end"  // the end of a turn
)

// mark is the result of an item.
type mark string

const (
	markNone mark = ""
	markOpen mark = "open"
	markGood mark = "good"
	markBad  mark = "bad"
	markWarn mark = "warn"
)

// item is an element of a page. Its texts are unchanged. The writers of pages escape them.
type item struct {
	Time    time.Time
	Kind    kind
	Mark    mark
	Tool    string // kind of a tool call
	Title   string // one line
	Status  string // one line
	Said    string // several lines
	Rule    string // the rule of the decision; one line
	Goes    bool   // it continues the previous item
	History bool   // the agent repeated it while it loaded the session
	Parts   []part
}

// partKind is the kind of a part.
type partKind string

const (
	partText   partKind = "text"
	partDiff   partKind = "diff"
	partOutput partKind = "output"
	partPlan   partKind = "plan"
	partPlaces partKind = "places"
	partRaw    partKind = "raw" // JSON details
)

// part is a part of an item's content.
type part struct {
	Kind           partKind
	Title, Status  string
	Rule           string // as in an item
	Mark           mark
	Text           string
	Lines          []diffLine
	Added, Removed int
	Steps          []step
}

// diffLine is a line of a diff. Its sign is ' ', '+', '-', or '@' for omitted lines.
type diffLine = render.ChangedLine

// step is a step of a plan.
type step struct {
	Status, Text string
	High         bool
}

// Limits of one item.
const (
	maxDiffText  = 1 << 20   // bytes of both texts; the lines of a larger change are only counted
	maxDiffLines = 2000      // lines of a diff
	maxPartText  = 256 << 10 // bytes of a text or output
	maxPartRaw   = 16 << 10  // bytes of raw JSON
	maxParts     = 200
	maxSteps     = 500
)

// folder is the folder that paths are shown relative to.
type folder string

// path formats a path: relative if it is in the folder.
func (f folder) path(path string) string { return render.Relative(string(f), path) }

// full returns an absolute path for a path that may be relative to the folder.
func (f folder) full(path string) string {
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(string(f), path)
	}
	return first(path, maxTitle)
}

// diff returns the part for a change of a file.
func (f folder) diff(d *supervisorv1.Diff) part {
	p := part{Kind: partDiff, Title: f.path(d.GetPath())}
	if d.OldText == nil {
		p.Status = "new"
	}
	if len(d.GetOldText())+len(d.GetNewText()) > maxDiffText {
		p.Text = "The texts are too large to be compared here."
		return p
	}
	change, err := render.Compare(d)
	if err != nil {
		p.Text = "The texts cannot be compared."
		return p
	}
	p.Added, p.Removed = change.Added, change.Removed
	for i, l := range change.Lines {
		switch {
		case i == 0 && l.Sign == '@' && l.Text == "line 1":
			continue // the position
		case l.Sign == '\\':
			l.Sign = '@'
		}
		p.Lines = append(p.Lines, l)
	}
	if over := len(p.Lines) - maxDiffLines; over > 0 {
		p.Lines = append(p.Lines[:maxDiffLines:maxDiffLines], diffLine{Sign: '@', Text: safetext.Count(over, "line") + " more"})
	}
	switch {
	case p.Added+p.Removed == 0 && change.Ends == "":
		p.Text = "No change."
	case p.Added+p.Removed == 0:
		p.Text = change.Ends + "."
	case change.Ends != "":
		p.Lines = append([]diffLine{{Sign: '@', Text: change.Ends}}, p.Lines...)
	}
	return p
}

// content returns the parts for the content of a tool call or a question. Terminals are separate parts.
func (f folder) content(content []*supervisorv1.ToolCallContent) []part {
	var parts []part
	for _, c := range content {
		if len(parts) == maxParts {
			parts = append(parts, part{Kind: partText, Text: "… " + safetext.Count(len(content)-maxParts, "thing") + " more"})
			break
		}
		switch it := c.GetItem().(type) {
		case *supervisorv1.ToolCallContent_Diff:
			parts = append(parts, f.diff(it.Diff))
		case *supervisorv1.ToolCallContent_Content:
			if text := contentText(it.Content); strings.TrimSpace(text) != "" {
				parts = append(parts, part{Kind: partText, Text: first(text, maxPartText)})
			}
		case *supervisorv1.ToolCallContent_Other:
			parts = append(parts, part{Kind: partRaw, Title: "something that acphost does not know", Text: first(it.Other, maxPartRaw)})
		}
	}
	return parts
}

// contentText formats a content block as text. It describes a block that is not text, as the live output does.
func contentText(c *supervisorv1.ContentBlock) string {
	if isText(c) {
		return c.GetText().GetText()
	}
	return safetext.Line(render.Content(c))
}

func isText(c *supervisorv1.ContentBlock) bool {
	_, ok := c.GetContent().(*supervisorv1.ContentBlock_Text)
	return ok
}

// places returns the places of a tool call that are neither in its title nor in its content. It returns false if there
// are none.
func (f folder) places(c *supervisorv1.ToolCall) (part, bool) {
	var places []string
	for _, l := range c.GetLocations()[:min(len(c.GetLocations()), maxParts)] {
		place := f.path(l.GetPath())
		named := strings.Contains(c.GetTitle(), place) ||
			slices.ContainsFunc(c.GetContent(), func(it *supervisorv1.ToolCallContent) bool { return it.GetDiff().GetPath() == l.GetPath() })
		if l.Line != nil {
			place += ":" + counter(int(l.GetLine()))
		} else if named {
			continue
		}
		places = append(places, safetext.Line(place))
	}
	return part{Kind: partPlaces, Text: strings.Join(places, "\n")}, len(places) > 0
}

// planPart returns a plan as a checklist.
func planPart(entries []*supervisorv1.PlanEntry) part {
	p := part{Kind: partPlan}
	for _, e := range entries[:min(len(entries), maxSteps)] {
		p.Steps = append(p.Steps, step{Status: e.GetStatus(), Text: e.GetContent(), High: e.GetPriority() == "high" && e.GetStatus() != "completed"})
	}
	if over := len(entries) - len(p.Steps); over > 0 {
		p.Text = "… " + safetext.Count(over, "step") + " more"
	}
	return p
}

// statusMark returns the mark for the status of a tool call.
func statusMark(status string) mark {
	switch status {
	case "completed":
		return markGood
	case "failed":
		return markBad
	case "pending", "in_progress", "":
		return markOpen
	}
	return markWarn
}

// indentedJSON formats JSON, with control characters escaped. Invalid JSON, which was shortened, is unchanged.
func indentedJSON(raw string) string {
	v := jsontext.Value(raw)
	if v.Indent(jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil {
		raw = string(v)
	}
	return safetext.Text(raw)
}
