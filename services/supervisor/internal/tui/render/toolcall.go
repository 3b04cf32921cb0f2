package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Limits of a tool call.
const (
	maxShownLines = 8 // of its text
	maxLocations  = 5
)

const toolIndent = "    "

// statusCancelled is the status of a tool call that is open at the end of a cancelled turn. ACP has no such status.
const statusCancelled = "cancelled"

// toolLine is the line of a tool call.
func toolLine(o Options, c *supervisorv1.ToolCall) string {
	mark, s := statusMark(c.GetStatus())
	title := cmp.Or(safetext.Line(c.GetTitle()), safetext.Line(c.GetName()), "tool call")
	line := o.paint(s, mark) + " " + o.paint(dim, cmp.Or(kindIcons[c.GetKind()], "•")) + " " + title
	switch c.GetStatus() {
	case "pending", "in_progress", "completed", "":
	default: // failed, and unknown values
		line += " " + o.paint(s, "("+safetext.Line(c.GetStatus())+")")
	}
	return line
}

func statusMark(status string) (string, style) {
	switch status {
	case "completed":
		return "✓", green
	case "failed":
		return "✗", red
	case "in_progress":
		return "◐", yellow
	case statusCancelled:
		return "✗", yellow
	}
	return "○", dim
}

var kindIcons = map[string]string{
	"read": "←", "edit": "✎", "delete": "×", "move": "⇄", "search": "⌕", "execute": "$", "think": "…", "fetch": "↓",
	"switch_mode": "⇒",
}

// locations lists the places of a tool call that are not in its title.
func locations(o Options, c *supervisorv1.ToolCall) string {
	var list []string
	for _, l := range c.GetLocations() {
		place := o.path(l.GetPath())
		if l.Line != nil {
			place += fmt.Sprintf(":%d", l.GetLine())
		} else if names(c.GetTitle(), place) {
			continue
		}
		list = append(list, place)
	}
	return places(o, "", list)
}

// names reports whether the visible part of a title names a place, and not only as a part of another name.
func names(title, place string) bool {
	within := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-~", r)
	}
	title, cut := safetext.Prefix(title, safetext.MaxLine)
	if cut {
		title = title[:strings.LastIndexByte(title, ' ')+1] // the last name may be incomplete
	}
	for place != "" {
		before, after, found := strings.Cut(title, place)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if !within(last) && !within(next) {
			return true
		}
		title = after
	}
	return false
}

// places lists the first places on a line that begins with a word, and the number of the others.
func places(o Options, word string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	more := 0
	if len(list) > maxLocations && !o.whole() {
		more = len(list) - maxLocations
		list = list[:maxLocations]
	}
	text := word + strings.Join(list, ", ")
	if more > 0 {
		o.hide(1, 0)
		text += fmt.Sprintf(" and %d more", more)
	}
	return o.paint(dim, text) + "\n"
}

// toolContent formats one content of a tool call in whole lines. The output of terminals is shown separately.
func toolContent(o Options, item *supervisorv1.ToolCallContent, status string) string {
	if status == statusCancelled {
		return "" // it is unknown which parts were done
	}
	switch it := item.GetItem().(type) {
	case *supervisorv1.ToolCallContent_Diff:
		return Diff(o, it.Diff)
	case *supervisorv1.ToolCallContent_Content:
		if !client.ToolCallEnded(status) {
			return ""
		}
		text := Content(it.Content)
		if embedded := it.Content.GetResource().GetText(); embedded != "" {
			if o.whole() {
				text += "\n" + embedded
			}
			o.hide(lineCount(embedded), 0)
		}
		return excerpt(o, text)
	case *supervisorv1.ToolCallContent_Other:
		if o.whole() {
			return o.paint(dim, o.codeLine(it.Other)) + "\n"
		}
		o.hide(1, 0)
		return o.paint(dim, "[something that acphost does not know]") + "\n"
	}
	return ""
}

// excerpt returns the first lines of a text.
func excerpt(o Options, text string) string {
	text, cut, rest := strings.Trim(text, "\n"), false, ""
	if !o.whole() {
		rest = text
		text, cut = safetext.Prefix(text, maxText)
		rest = rest[len(text):]
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	all := o.rows(text)
	n := len(all) - maxShownLines
	if n <= 1 || o.whole() {
		n = 0
	}
	lines := make([]string, 0, len(all)-n+1)
	for _, l := range all[:len(all)-n] {
		if l.code != nil {
			lines = append(lines, l.code.row(o.codeLine(l.text)))
			continue
		}
		lines = append(lines, o.paint(dim, o.codeLine(l.text)))
	}
	if n > 0 {
		o.hide(n, 0)
		more := safetext.Count(n, "more line")
		if cut {
			more = "at least " + more
		}
		lines = append(lines, o.paint(dim, o.left(more)))
	}
	if cut {
		o.hideText(rest)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Content formats a content block as text for users. It describes a block that is not text.
func Content(c *supervisorv1.ContentBlock) string {
	switch it := c.GetContent().(type) {
	case *supervisorv1.ContentBlock_Text:
		return it.Text.GetText()
	case *supervisorv1.ContentBlock_Image:
		return fmt.Sprintf("[image %s, %s]", cmp.Or(it.Image.GetMimeType(), "of an unknown type"), where(it.Image.GetUri(), len(it.Image.GetData())))
	case *supervisorv1.ContentBlock_Audio:
		return fmt.Sprintf("[audio %s, %s]", cmp.Or(it.Audio.GetMimeType(), "of an unknown type"), where("", len(it.Audio.GetData())))
	case *supervisorv1.ContentBlock_ResourceLink:
		name := cmp.Or(it.ResourceLink.GetTitle(), it.ResourceLink.GetName())
		if name == "" || name == it.ResourceLink.GetUri() {
			return "[link " + it.ResourceLink.GetUri() + "]"
		}
		return "[link " + name + ": " + it.ResourceLink.GetUri() + "]"
	case *supervisorv1.ContentBlock_Resource:
		n := len(it.Resource.GetText()) + len(it.Resource.GetBlob())
		return fmt.Sprintf("[resource %s, %s]", it.Resource.GetUri(), where("", n))
	}
	return "[content of a type that acphost does not know]"
}

func where(uri string, size int) string {
	if size == 0 && uri != "" {
		return uri
	}
	return fmt.Sprintf("%s bytes", safetext.Number(uint64(size)))
}

// digest identifies a content.
func digest(item *supervisorv1.ToolCallContent) [32]byte {
	h := sha256.New()
	part := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	switch it := item.GetItem().(type) {
	case *supervisorv1.ToolCallContent_Diff:
		part("diff")
		part(it.Diff.GetPath())
		part(it.Diff.GetOldText())
		part(it.Diff.GetNewText())
	case *supervisorv1.ToolCallContent_Content:
		part("content")
		part(Content(it.Content))
	case *supervisorv1.ToolCallContent_TerminalId:
		part("terminal")
		part(it.TerminalId)
	case *supervisorv1.ToolCallContent_Other:
		part("other")
		part(it.Other)
	}
	return [32]byte(h.Sum(nil))
}
