package transcript

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/render"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// kind says what an item is.
type kind string

// The kinds of items; pages use them as names.
const (
	kindTurn     kind = "turn" // a turn begins
	kindUser     kind = "user"
	kindAgent    kind = "agent"
	kindThought  kind = "thought"
	kindSummary  kind = "summary" // what a context was made smaller to
	kindPlan     kind = "plan"
	kindTool     kind = "tool"
	kindCommand  kind = "command"
	kindQuestion kind = "question"
	kindDecision kind = "decision" // of the policy, about something that is told nowhere else
	kindCall     kind = "call"     // a request of the agent's to its client
	kindNote     kind = "note"
	kindLost     kind = "lost" // the record lacks something
	kindEnd      kind = "end"  // a turn ended
)

// mark says how something went.
type mark string

const (
	markNone mark = ""
	markOpen mark = "open"
	markGood mark = "good"
	markBad  mark = "bad"
	markWarn mark = "warn"
)

// item is one thing on a page. Its texts are as they came: whoever writes them makes them harmless.
type item struct {
	Time    time.Time
	Kind    kind
	Mark    mark
	Tool    string // the kind of a tool call
	Title   string // a line
	Status  string // a line
	Said    string // many lines
	Rule    string // by which it was decided; a line
	Goes    bool   // it goes on with what came before
	History bool   // the agent told it again when it loaded the session
	Parts   []part
}

// partKind says what a part shows.
type partKind string

const (
	partText   partKind = "text"
	partDiff   partKind = "diff"
	partOutput partKind = "output"
	partPlan   partKind = "plan"
	partPlaces partKind = "places"
	partRaw    partKind = "raw" // JSON, for those who want to know more
)

// part is something that an item shows.
type part struct {
	Kind           partKind
	Title, Status  string
	Rule           string // as an item's
	Mark           mark
	Text           string
	Lines          []diffLine
	Added, Removed int
	Steps          []step
}

// diffLine is a line of a diff: its sign is ' ', '+', '-' or '@', where lines were left out.
type diffLine = render.ChangedLine

// step is one of a plan's.
type step struct {
	Status, Text string
	High         bool
}

// Bounds of what one item shows.
const (
	maxDiffText  = 1 << 20   // bytes of both texts; a larger change is only counted
	maxDiffLines = 2000      // lines of a diff
	maxPartText  = 256 << 10 // bytes of a text, of output
	maxPartRaw   = 16 << 10  // bytes of raw JSON
	maxParts     = 200
	maxSteps     = 500
)

// folder is the one that paths are shown relative to.
type folder string

// path is a path for people: relative where it is in the folder.
func (f folder) path(path string) string { return render.Relative(string(f), path) }

// full is a path that may be relative to the folder, absolute.
func (f folder) full(path string) string {
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(string(f), path)
	}
	return first(path, maxTitle)
}

// diff is a change of a file.
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
			continue // where else
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

// content is what a tool call or a question shows. Terminals are parts of their own.
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

// contentText is a block of content as text: what is no text is named as it is live.
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

// places are the places of a tool call that neither its title nor what it shows names; false: there are none.
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

// planPart is a plan as a checklist.
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

// statusMark says what a tool call's status means.
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

// indentedJSON is JSON for people, harmless; what is no JSON, since it was cut, is as it came.
func indentedJSON(raw string) string {
	v := jsontext.Value(raw)
	if v.Indent(jsontext.WithIndent("  "), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil {
		raw = string(v)
	}
	return safetext.Text(raw)
}
