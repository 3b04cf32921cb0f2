// Package fold compares names of files by the rules of all common file systems together.
package fold

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Path returns the same form for all spellings that some file system treats as the same name: macOS and Windows ignore
// case, macOS composes characters, and its older file system drops invisible characters. Deny rules match folded paths
// on every system, so that they mean the same everywhere. A match that is not necessary on a system is the safe error.
// Safe for concurrent use.
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

// foldRune returns the same rune for all characters that differ in case only, including "K" and the Kelvin sign.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
