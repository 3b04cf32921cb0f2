package render

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
)

// row is a line of a text that is shown without Markdown, except for its code blocks.
type row struct {
	text string
	code *highlighter // nil: outside of code blocks
}

// rows returns the lines of a text. If messages are shown as Markdown, it omits the fences of code blocks. It keeps a
// fence with more than the name of a language, because the user decides by the text.
func (o Options) rows(text string) []row {
	var rows []row
	var fence *markdown.Fence
	var code *highlighter
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch begins, ok := markdown.FenceOf(line); {
		case !o.Markdown, fence == nil && !ok:
			rows = append(rows, row{line, nil})
		case fence == nil:
			h := newHighlighter(o, begins.Info)
			fence, code = &begins, &h
			if info := strings.TrimSpace(begins.Info); info != "" && !isLanguage(info) {
				rows = append(rows, row{info, nil})
			}
		case fence.EndedBy(line):
			fence = nil
		default:
			rows = append(rows, row{fence.Code(line), code})
		}
	}
	return rows
}

// row formats a line of code, which is safe.
func (h *highlighter) row(line string) string { return "  " + h.line(line) }
