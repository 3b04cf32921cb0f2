package display

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// How much text stands in a terminal's place, in bytes; the newest. All terminals of one content share maxText.
const (
	maxText = 64 << 10
	minText = 4 << 10
)

// maxColumn bounds what one line of a terminal can be made to take.
const maxColumn = 16 << 10

// plain turns raw output of a terminal into text for a block of code: escape sequences go, and what a program wrote over
// on the same line, as progress bars do, is not there any more. It is for the eye; the agent gets its handler's own
// reading. cut says that raw is not the beginning, last that no more follows; the text is the newest limit bytes, and
// cut tells whether something is missing before it.
func plain(raw []byte, cut, last bool, limit int) (text string, isCut bool) {
	if cut { // it may begin in the middle of anything: a line further it does not
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			raw = raw[i+1:]
		} else {
			raw = afterCut(raw)
		}
	}
	if !last {
		raw = raw[:wholeRunes(raw)]
	}
	var p plainText
	for len(raw) > 0 {
		raw = raw[p.take(raw):]
	}
	p.endLine()
	text = p.out.String()
	if len(text) <= limit {
		return text, cut
	}
	text = text[len(text)-limit:]
	if i := strings.IndexByte(text, '\n'); i >= 0 && i < len(text)/2 {
		return text[i+1:], true
	}
	return string(afterCut([]byte(text))), true
}

// plainText is a page that is written line by line.
type plainText struct {
	out    strings.Builder
	line   []rune
	column int
}

// take takes the character or sequence that b begins with and returns its length.
func (p *plainText) take(b []byte) int {
	switch c := b[0]; {
	case c == 0x1b:
		return p.escape(b)
	case c == '\n':
		p.endLine()
		p.out.WriteByte('\n')
	case c == '\r':
		p.column = 0
	case c == '\b':
		p.column = max(0, p.column-1)
	case c < 0x20 && c != '\t', c == 0x7f:
	case c < utf8.RuneSelf:
		p.put(rune(c))
	default:
		r, n := utf8.DecodeRune(b)
		p.put(r)
		return n
	}
	return 1
}

func (p *plainText) put(r rune) {
	for len(p.line) < p.column {
		p.line = append(p.line, ' ')
	}
	if p.column < len(p.line) {
		p.line[p.column] = r
	} else {
		p.line = append(p.line, r)
	}
	p.column++
	if p.column > maxColumn { // nobody writes over the beginning of such a line
		p.out.WriteString(string(p.line))
		p.line, p.column = p.line[:0], 0
	}
}

func (p *plainText) endLine() {
	p.out.WriteString(string(p.line))
	p.line, p.column = p.line[:0], 0
}

// escape takes the escape sequence that b begins with, as far as it goes, and returns its length.
func (p *plainText) escape(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch c := b[1]; {
	case c == '[':
		return p.controlSequence(b)
	case strings.IndexByte("]PX^_", c) >= 0: // strings, ended by BEL or ST
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b {
				if i+1 < len(b) && b[i+1] == '\\' {
					return i + 2
				}
				return i // another sequence begins: this one was given up
			}
		}
		return len(b)
	case c >= 0x20 && c <= 0x2f: // intermediates, then a final byte
		for i := 2; i < len(b); i++ {
			if b[i] < 0x20 || b[i] > 0x2f {
				return i + 1
			}
		}
		return len(b)
	case c >= 0x30 && c <= 0x7e:
		return 2
	}
	return 1
}

// controlSequence acts on what moves or erases within a line, and drops all else.
func (p *plainText) controlSequence(b []byte) int {
	arg, args := 0, 0
	for i := 2; i < len(b); i++ {
		switch c := b[i]; {
		case c >= '0' && c <= '9' && args == 0:
			arg = min(arg*10+int(c-'0'), maxColumn)
		case c == ';':
			args++
		case c >= 0x20 && c <= 0x3f:
		case c >= 0x40 && c <= 0x7e:
			p.control(c, arg)
			return i + 1
		default: // no part of a sequence: given up
			return i
		}
	}
	return len(b)
}

func (p *plainText) control(final byte, arg int) {
	switch final {
	case 'C':
		p.column = min(p.column+max(arg, 1), maxColumn)
	case 'D':
		p.column = max(p.column-max(arg, 1), 0)
	case 'G':
		p.column = max(arg, 1) - 1
	case 'K':
		switch arg {
		case 0:
			p.line = p.line[:min(p.column, len(p.line))]
		case 1:
			for i := range p.line[:min(p.column+1, len(p.line))] {
				p.line[i] = ' '
			}
		default:
			p.line = p.line[:0]
		}
	}
}
