package safetext

import (
	"strings"

	"github.com/acphost/acphost/internal/escape"
)

// Strip returns text without escape sequences. Other control characters stay, so the result is not safe yet; bytes that are
// no UTF-8 become U+FFFD each.
func Strip(text string) string {
	var b strings.Builder
	var scan escape.Scanner
	for t := range scan.Scan([]byte(text)) {
		switch {
		case t.Sequence != nil:
		case t.Text != "":
			b.WriteString(t.Text)
		default:
			b.WriteByte(t.Control)
		}
	}
	return b.String() + scan.Rest()
}
