package render

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/markdown"
)

// row is a line of a text that is shown as it is, but for its blocks of code: they are shown as in messages.
type row struct {
	text string
	code *highlighter // nil: it is in no block
}

// rows are the lines of a text. The fences of its blocks are left out where messages are shown as Markdown; what
// stands behind a fence is not, unless it is the name of a language: a person decides by what is shown.
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

// row is a line of code that is clean.
func (h *highlighter) row(line string) string { return "  " + h.line(line) }
