package display

import (
	"strings"
	"unicode/utf8"
)

// toValid returns b with what is not UTF-8 replaced.
func toValid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// plain turns a pty's raw output into text for a code block: escape sequences go, a carriage return starts its line
// anew, and of the result the newest limit bytes stay. It is for the eye; the agent gets the daemon's own reading.
func plain(raw []byte, limit int) string {
	var out strings.Builder
	var line []byte
	col := 0
	flush := func() {
		out.Write(line)
		line, col = line[:0], 0
	}
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == 0x1b:
			i += escapeLen(raw[i:])
		case c == '\n':
			flush()
			out.WriteByte('\n')
			i++
		case c == '\r':
			col = 0
			i++
		case c == '\b':
			if col > 0 {
				col--
			}
			i++
		case c < 0x20 && c != '\t', c == 0x7f:
			i++
		default:
			_, n := utf8.DecodeRune(raw[i:])
			if col == 0 && len(line) > 0 {
				line = line[:0]
			}
			line = append(line, raw[i:i+n]...)
			col++
			i += n
		}
	}
	flush()
	s := toValid([]byte(out.String()))
	if len(s) > limit {
		s = s[len(s)-limit:]
		for s != "" && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	return s
}

// escapeLen returns the length of the escape sequence that b begins with, as far as it goes.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // CSI: parameters and intermediates, then a final byte
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return len(b)
	case ']', 'P', 'X', '^', '_': // strings, ended by BEL or ST
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
		}
		return len(b)
	default:
		return 2
	}
}
