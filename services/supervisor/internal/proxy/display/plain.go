package display

import (
	"bytes"
	"strings"

	"github.com/acphost/acphost/internal/escape"
	"github.com/acphost/acphost/sdk/plaintext"
)

// How much text stands in a terminal's place, in bytes; the newest. All terminals of one content share maxText.
const (
	maxText = 64 << 10
	minText = 4 << 10
)

// plain turns raw output of a terminal into text for a block of code, as termd does for the agent. cut says that raw is not the
// beginning, last that no more follows. The text is the newest limit bytes; isCut reports whether something is missing before
// it.
func plain(raw []byte, cut, last bool, limit int) (text string, isCut bool) {
	if cut { // it may begin in the middle of anything: a line further it does not
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			raw = raw[i+1:]
		} else {
			raw = afterCut(raw)
		}
	}
	if !last {
		raw = raw[:escape.WholeRunes(raw)]
	}
	text = string(plaintext.Text(raw))
	if len(text) <= limit {
		return text, cut
	}
	text = text[len(text)-limit:]
	if i := strings.IndexByte(text, '\n'); i >= 0 && i < len(text)/2 {
		return text[i+1:], true
	}
	return string(afterCut([]byte(text))), true
}
