package transcript

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// HarmlessJSON is JSON that means the same, without characters that a terminal obeys, or that change how others show.
func HarmlessJSON(line []byte) string {
	var b strings.Builder
	for _, c := range string(line) {
		switch {
		case harmless(c):
			b.WriteRune(c)
		case c > 0xffff:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

func harmless(c rune) bool {
	switch c {
	case '\n', '\t', '\u200d', '\u200c', '\ufffd': // joiners belong to scripts and to pictures
		return true
	}
	return unicode.IsPrint(c) || unicode.Is(unicode.Zs, c)
}

var sequences = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|\x1b[ -/]*[0-Z\\\\^-~]")

// screened is what a command wrote as a terminal would show it at last: without the sequences that colour it and move
// about, and without what a carriage return went back over, as with progress bars.
func screened(text string) string {
	text = strings.ReplaceAll(sequences.ReplaceAllString(text, ""), "\r\n", "\n")
	if !strings.Contains(text, "\r") {
		return render.Clean(text)
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, "\r")
		lines[i] = l[strings.LastIndexByte(l, '\r')+1:]
	}
	return render.Clean(strings.Join(lines, "\n"))
}
