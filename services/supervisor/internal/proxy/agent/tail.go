package agent

import (
	"bytes"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/sdk/plaintext"
)

const (
	tailLines = 20
	tailChars = 500
	// tailBytes is sufficient for tailChars characters with escape sequences between them.
	tailBytes = 4 * tailChars
)

// tail keeps the last lines of a stream in bounded memory.
type tail struct {
	lines [][]byte // the oldest first
	line  []byte   // the unfinished line, cut at tailBytes
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

// get returns the lines as text, without empty ones.
func (t *tail) get() []string {
	var lines []string
	for _, line := range append(slices.Clip(t.lines), t.line) {
		if text := plain(line); text != "" {
			lines = append(lines, text)
		}
	}
	if len(lines) > tailLines {
		lines = lines[1:]
	}
	return lines
}

// plain returns a line without escape sequences and control characters, which would affect the terminal that shows it.
func plain(line []byte) string {
	chars := 0
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case chars == tailChars || r != '\t' && unicode.IsControl(r):
			return -1
		case r == '\t':
			r = ' '
		}
		chars++
		return r
	}, string(plaintext.Text(line))))
}
