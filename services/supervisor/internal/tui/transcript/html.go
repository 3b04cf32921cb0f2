package transcript

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

// page are the templates. They escape their values. Only prose writes other HTML.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"line": safetext.Line, "text": func(s string) string { return strings.Trim(safetext.Text(s), "\n") }, "prose": prose, "json": indentedJSON,
	"clock": clock, "stamp": stamp, "machine": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"anchor": anchor,
	"places": func(text string) string { return strings.ReplaceAll(text, "\n", ", ") },
	"sign":   sign, "open": open, "changed": changed, "status": showsStatus, "difference": diffText,
}).Parse(pageText))

// NewHTML begins an HTML page that loads and runs nothing in any viewer.
func NewHTML(w io.Writer, s *Summary, o PageOptions) (*Page, error) {
	b := bufio.NewWriterSize(w, 64<<10)
	sum := sha256.Sum256([]byte(styleText))
	head := struct {
		Hash, Heading string
		Style         template.CSS
		Fields        []field
		Chapters      []chapter
	}{"sha256-" + base64.StdEncoding.EncodeToString(sum[:]), s.heading(), template.CSS(styleText), s.fields(), s.chapters(o)} //nolint:gosec // it is ours
	if err := page.ExecuteTemplate(b, "head", head); err != nil {
		return nil, err
	}
	var foot strings.Builder
	if err := page.ExecuteTemplate(&foot, "foot", s.Header.Acphost); err != nil {
		return nil, err
	}
	write := func(it *item) error { return page.ExecuteTemplate(b, "item", it) }
	return &Page{story: newStory(s.Header.Cwd, o, write), w: b, foot: foot.String()}, nil
}

// anchor returns the name of a heading for links on the page. It is the same as in Markdown viewers.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

// sign returns the sign before an item.
func sign(it *item) string {
	switch {
	case it.Kind == kindQuestion:
		return "?"
	case it.Kind == kindCall && it.Mark != markBad:
		return "·"
	case it.Kind == kindNote && it.Mark == markNone:
		return "·"
	}
	return map[mark]string{markOpen: "◐", markGood: "✓", markBad: "✗", markWarn: "!"}[it.Mark]
}

// showsStatus reports whether an item's status contains more than its sign.
func showsStatus(it *item) bool {
	return it.Status != "" && it.Status != "completed" && !(it.Kind == kindCall && it.Mark == markGood)
}

// counts are the numbers of changed lines.
type counts struct{ Added, Removed int }

// changed counts the lines that an item changed. It returns nil if there are none.
func changed(it *item) *counts {
	var c counts
	for _, p := range it.Parts {
		c.Added += p.Added
		c.Removed += p.Removed
	}
	if c == (counts{}) {
		return nil
	}
	return &c
}

// maxOpen limits the lines of an item that are shown without a click.
const maxOpen = 40

// open reports whether an item shows its content without a click: changes, failures, and the output of commands, if it
// is short.
func open(it *item) bool {
	lines := strings.Count(it.Said, "\n")
	wanted := it.Mark == markBad || it.Kind == kindQuestion || it.Kind == kindNote
	for _, p := range it.Parts {
		if p.Kind != partRaw {
			lines += len(p.Lines) + strings.Count(p.Text, "\n")
		}
		wanted = wanted || p.Kind == partDiff || p.Kind == partOutput
	}
	return wanted && lines <= maxOpen
}

func diffText(l diffLine) string {
	if l.Sign == '@' {
		return "@@ " + safetext.Line(l.Text) + " @@"
	}
	return string(l.Sign) + strings.ReplaceAll(safetext.Text(l.Text), "\n", " ")
}

// Class returns the CSS class of a step.
func (s step) Class() string {
	switch s.Status {
	case "completed", "in_progress":
		return s.Status
	}
	return "pending"
}

// Box returns the mark of a step.
func (s step) Box() string {
	return map[string]string{"completed": "☑", "in_progress": "◐", "pending": "☐"}[s.Class()]
}
