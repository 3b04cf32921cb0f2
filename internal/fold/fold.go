// Package fold compares names of files as the most forgiving file system does.
package fold

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Path gives spellings the same form that some file system takes for the same name: macOS and Windows ignore case, macOS
// composes characters, and its older file system drops characters that cannot be seen. What forbids matches folded on every
// system, so that it means the same everywhere, and errs where it errs to the strict side. Safe for concurrent use.
func Path(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s)
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, s)
	return norm.NFC.String(strings.Map(foldRune, norm.NFC.String(s)))
}

// foldRune is the same for all characters that differ in case only, "K" and the Kelvin sign included.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
