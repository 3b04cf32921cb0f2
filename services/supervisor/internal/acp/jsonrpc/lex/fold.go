package lex

import (
	"unicode"
	"unicode/utf8"
)

// AppendFolded appends name with every character replaced by the smallest character that is equal under Unicode's
// simple case folding. Two results are equal exactly if encoding/json, ignoring case, treats the names as equal.
// Invalid UTF-8 is unchanged.
func AppendFolded(dst, name []byte) []byte {
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c &^= 0x20
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, name[i])
			i++
			continue
		}
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				r = next
				break
			}
			r = next
		}
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}
