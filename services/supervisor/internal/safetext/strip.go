package safetext

import "strings"

// Strip returns text without escape sequences. Other control characters stay, so the result is not safe yet.
func Strip(text string) string {
	var b strings.Builder
	for {
		before, _, found := strings.Cut(text, "\x1b")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text = text[len(before):]
		text = text[Sequence(text):]
	}
}

// Sequence returns the length of the escape sequence that text begins with, or of as much as there is of it. text begins
// with ESC. A string, such as a title, that does not end takes the rest of its line and no more: text that follows is not
// hidden by it. github.com/charmbracelet/x/ansi ends a string at each byte 0x9c, which also stands within characters such
// as "✳", and shows the rest of the title.
func Sequence[T string | []byte](text T) int {
	if len(text) < 2 {
		return len(text)
	}
	switch c := text[1]; {
	case c == '[':
		return 2 + rest(text[2:], 0x3f)
	case strings.IndexByte("]PX^_", c) >= 0: // strings, ended by BEL or ST
		for i := 2; i < len(text); i++ {
			switch text[i] {
			case 0x07:
				return i + 1
			case 0x1b:
				if i+1 < len(text) && text[i+1] == '\\' {
					return i + 2
				}
				return i // another sequence begins: this one was given up
			case '\n', 0x18, 0x1a: // likewise
				return i
			}
		}
		return len(text)
	case c >= 0x20 && c <= 0x2f: // intermediates, then a final byte
		return 2 + rest(text[2:], 0x2f)
	case c >= 0x30 && c <= 0x7e:
		return 2
	}
	return 1
}

// rest returns the length of the bytes from 0x20 to last that text begins with, and of the final byte that follows them. A
// byte that is no part of a sequence gives it up.
func rest[T string | []byte](text T, last byte) int {
	for i := range len(text) {
		if c := text[i]; c > last && c <= 0x7e {
			return i + 1
		} else if c < 0x20 || c > last {
			return i
		}
	}
	return len(text)
}
