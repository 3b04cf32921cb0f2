// Command picture draws what a command printed on a terminal as an SVG file. Its lines appear one after the other.
//
//	FORCE_COLOR=1 acphost demo | picture -title "acphost demo" > docs/demo.svg
//
// It reads text with the colours of terminals (SGR) and no other escape sequences.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels, and times in seconds.
const (
	column, row, margin = 8.4, 20, 16
	delay               = 0.35 // between two lines
)

// looks are what the parameters of an escape sequence stand for.
var looks = map[string]string{"1": "b", "2": "f", "31": "r", "32": "g", "33": "y", "34": "u", "35": "m", "36": "c"}

var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m")

func main() {
	title := flag.String("title", "", "what the picture shows")
	still := flag.Bool("still", false, "show all lines at once")
	flag.Parse()
	var lines []string
	wide := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		lines = append(lines, in.Text())
		wide = max(wide, utf8.RuneCountInString(sequence.ReplaceAllString(in.Text(), "")))
	}
	width, height := float64(wide)*column+2*margin, len(lines)*row+2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="%s">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #d4d4d4 }
.b { font-weight: bold; fill: #fff } .f { fill: #8a8a8a } .r { fill: #f48771 } .g { fill: #89d185 } .y { fill: #e2c08d } .u { fill: #75beff } .m { fill: #d7a1e6 } .c { fill: #4ec9b0 }
`, width, height, html.EscapeString(*title))
	if !*still {
		fmt.Print("@keyframes show { from { opacity: 0 } to { opacity: 1 } }\ntext { animation: show 0.1s backwards }\n@media (prefers-reduced-motion) { text { animation: none } }\n")
	}
	fmt.Printf("</style>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#1e1e1e\"/>\n")
	for i, line := range lines {
		if line == "" {
			continue
		}
		wait := ""
		if !*still {
			wait = fmt.Sprintf(` style="animation-delay: %.2fs"`, float64(i)*delay)
		}
		fmt.Printf("<text x=\"%d\" y=\"%d\" xml:space=\"preserve\"%s>%s</text>\n", margin, margin+14+i*row, wait, spans(line))
	}
	fmt.Println("</svg>")
}

// spans are the pieces of a line, each with how it looks.
func spans(line string) string {
	var b strings.Builder
	class := ""
	for len(line) > 0 {
		at := sequence.FindStringSubmatchIndex(line)
		text := line
		if at != nil {
			text = line[:at[0]]
		}
		if text != "" {
			if text = html.EscapeString(text); class != "" {
				text = `<tspan class="` + class + `">` + text + `</tspan>`
			}
			b.WriteString(text)
		}
		if at == nil {
			break
		}
		class = ""
		for p := range strings.SplitSeq(line[at[2]:at[3]], ";") {
			if c := looks[p]; c != "" {
				class = strings.TrimSpace(class + " " + c)
			}
		}
		line = line[at[1]:]
	}
	return b.String()
}
