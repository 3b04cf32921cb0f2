// Package invisible detects characters that people do not see, or that change how other characters are shown: controls,
// direction marks, joiners, blank letters. Names, paths, titles and questions are checked with this list. A test
// compares it with the console's list (services/gatewayd/internal/console/web/src/safe.ts).
package invisible

import (
	"strings"
	"unicode"
)

// Is reports whether a character is invisible or misleading. Blanks between words (unicode.Zs) are not invisible.
func Is(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // blank letters and signs
		return true
	}
	if r < 0x7f {
		return r < ' '
	}
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// In reports whether a text contains a character for which Is returns true.
func In(text string) bool { return strings.ContainsFunc(text, Is) }
