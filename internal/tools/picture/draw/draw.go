// Package draw draws the text of a terminal as an SVG picture.
//
// It knows the escape sequences for colors and styles (SGR), and ignores all others. It must not know who printed the
// text.
package draw

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Options configure a picture.
type Options struct {
	// Title describes the picture to readers who cannot see it.
	Title string
	// Still shows all lines at once. Default: they appear one after the other.
	Still bool
	// Columns is the minimum width. Default: that of the longest line.
	Columns int
}

// Sizes in pixels, and times in seconds.
const (
	column, row, margin = 8.4, 20, 16
	delay               = 0.35 // between two lines
)

// The default colors of text and background.
const (
	foreground, background = "#d4d4d4", "#1e1e1e"
)

// SVG draws lines of text, each without its line feed. Equal text gives an equal picture.
func SVG(lines []string, o Options) string {
	var drawn strings.Builder
	wide, now := o.Columns, style{}
	for i, line := range lines {
		var pieces []piece
		pieces, now = split(line, now) // a style continues on the next line
		top := margin + i*row
		wait := ""
		if !o.Still {
			wait = fmt.Sprintf(` style="animation-delay: %.2fs"`, float64(i)*delay)
		}
		for _, p := range pieces {
			wide = max(wide, p.at+p.cells)
			if fill := p.style.behind(); fill != "" {
				fmt.Fprintf(&drawn, "<rect x=\"%s\" y=\"%d\" width=\"%s\" height=\"%d\" fill=\"%s\"%s/>\n", pixels(p.at), top, number(float64(p.cells)*column), row, fill, wait)
			}
		}
		text := spans(pieces)
		if text == "" {
			continue
		}
		fmt.Fprintf(&drawn, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\"%s>%s</text>\n", margin, top+14, wait, text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="%s">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: %s }
.b { font-weight: bold } .i { font-style: italic } .l { text-decoration: underline } .s { text-decoration: line-through } .w { fill: #fff } .f { fill: #8a8a8a }
`, float64(wide)*column+2*margin, len(lines)*row+2*margin, html.EscapeString(printable(o.Title)), foreground)
	if !o.Still {
		b.WriteString("@keyframes show { from { opacity: 0 } to { opacity: 1 } }\ntext, rect[style] { animation: show 0.1s backwards }\n@media (prefers-reduced-motion) { text, rect[style] { animation: none } }\n")
	}
	fmt.Fprintf(&b, "</style>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"%s\"/>\n%s</svg>\n", background, drawn.String())
	return b.String()
}

// piece is a part of a line with one style.
type piece struct {
	text      string
	at, cells int
	style     style
}

// sequences are escape sequences, which terminals do not show: control sequences, of which SGR ends with m, and
// sequences with a string, such as links.
var sequences = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]P^_X][^\x1b\x07]*(?:\x1b\\\\|\x07)|\x1b[ -/]*[0-~]")

// split splits a line where its style changes.
func split(line string, now style) ([]piece, style) {
	var all []piece
	at := 0
	add := func(text string) {
		text = printable(text)
		if n := cells(text); text != "" {
			all = append(all, piece{text: text, at: at, cells: n, style: now})
			at += n
		}
	}
	from := 0
	for _, found := range sequences.FindAllStringIndex(line, -1) {
		add(line[from:found[0]])
		if s := line[found[0]:found[1]]; strings.HasPrefix(s, "\x1b[") && strings.HasSuffix(s, "m") && !strings.ContainsAny(s, "<=>?") {
			now.sgr(s[2 : len(s)-1])
		}
		from = found[1]
	}
	add(line[from:])
	return all, now
}

// printable removes characters that XML forbids and terminals do not show.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// cells returns the number of columns of a text.
func cells(text string) int {
	n := 0
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// spans returns the pieces of a line as text elements. Each has its own position, because fonts differ in width.
func spans(pieces []piece) string {
	for n := len(pieces); n > 0 && strings.TrimSpace(pieces[n-1].text) == "" && pieces[n-1].style.line() == ""; n-- {
		pieces = pieces[:n-1] // it is invisible
	}
	var b strings.Builder
	for _, p := range pieces {
		attributes := ""
		if p.at > 0 {
			attributes = fmt.Sprintf(` x="%s"`, pixels(p.at))
		}
		if class := p.style.class(); class != "" {
			attributes += ` class="` + class + `"`
		}
		if fill := p.style.text(); fill != "" {
			attributes += ` style="fill: ` + fill + `"` // the style of all text takes precedence over the attribute
		}
		text := html.EscapeString(p.text)
		if attributes != "" {
			text = "<tspan" + attributes + ">" + text + "</tspan>"
		}
		b.WriteString(text)
	}
	return b.String()
}

// pixels returns the position of a column.
func pixels(at int) string { return number(margin + float64(at)*column) }

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", f), "0"), ".")
}
