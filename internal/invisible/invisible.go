// Package invisible knows the characters that people do not see, or that change how others are shown: controls, marks of
// direction, joiners, letters that are blank. It has the one list that names, paths, titles and questions are checked by; the
// console's (services/gatewayd/internal/console/web/src/safe.ts) is compared with it by a test.
package invisible

import (
	"strings"
	"unicode"
)

// Is reports whether a character cannot be seen as what it is. Blanks between words (unicode.Zs) are not invisible.
func Is(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // letters and signs that are blank
		return true
	}
	if r < 0x7f {
		return r < ' '
	}
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// In reports whether a text has a character that Is reports.
func In(text string) bool { return strings.ContainsFunc(text, Is) }
