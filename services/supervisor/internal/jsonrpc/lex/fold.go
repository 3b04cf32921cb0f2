package lex

import (
	"unicode"
	"unicode/utf8"
)

// AppendFolded appends name with every character replaced by the smallest that equals it under Unicode's simple case
// folding: two names fold alike exactly if encoding/json, ignoring case, takes one for the other. Bytes that are not
// UTF-8 stay.
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
