package agent

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	tailLines = 20
	tailChars = 500
	// tailBytes is enough for tailChars characters and the escape sequences between them.
	tailBytes = 4 * tailChars
)

// tail keeps the last lines of a stream in bounded memory.
type tail struct {
	lines [][]byte // the oldest first
	line  []byte   // the unfinished one, cut at tailBytes
}

func (t *tail) add(chunk []byte) {
	for len(chunk) > 0 {
		end := bytes.IndexByte(chunk, '\n')
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		t.line = append(t.line, part[:min(len(part), tailBytes-len(t.line))]...)
		if end < 0 {
			return
		}
		t.push()
		chunk = chunk[end+1:]
	}
}

func (t *tail) push() {
	var reuse []byte
	if len(t.lines) == tailLines {
		reuse = t.lines[0]
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:tailLines-1]
	}
	t.lines = append(t.lines, t.line)
	t.line = reuse[:0]
}

// get is the lines as text; empty ones are left out.
func (t *tail) get() []string {
	var lines []string
	for _, line := range append(t.lines[:len(t.lines):len(t.lines)], t.line) {
		if text := plain(line); text != "" {
			lines = append(lines, text)
		}
	}
	if len(lines) > tailLines {
		lines = lines[1:]
	}
	return lines
}

// plain is a line without escape sequences and control characters, which would act on whatever shows it.
func plain(line []byte) string {
	var b strings.Builder
	chars := 0
	for len(line) > 0 && chars < tailChars {
		r, n := utf8.DecodeRune(line)
		if r == 0x1b {
			line = line[escape(line):]
			continue
		}
		line = line[n:]
		switch {
		case r == '\t':
			r = ' '
		case r < 0x20, r >= 0x7f && r < 0xa0:
			continue
		}
		b.WriteRune(r)
		chars++
	}
	return strings.TrimSpace(b.String())
}

// escape is the length of the escape sequence that the line begins with: CSI, OSC, or two bytes.
func escape(line []byte) int {
	if len(line) < 2 {
		return len(line)
	}
	switch line[1] {
	case '[':
		for i := 2; i < len(line); i++ {
			if line[i] >= 0x40 && line[i] <= 0x7e {
				return i + 1
			}
		}
		return len(line)
	case ']':
		for i := 2; i < len(line); i++ {
			if line[i] == 0x07 {
				return i + 1
			}
			if line[i] == 0x1b {
				return min(i+2, len(line))
			}
		}
		return len(line)
	}
	return 2
}
