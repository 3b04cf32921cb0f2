package setup

import (
	"errors"
	"strings"
)

// block is a part of a program with a line for each entry, between two marks. The rest of the file belongs to the user.
type block struct {
	head, foot string
	line       func(entry) string
	key        func(line string) string // the entry's id
}

func (b block) merge(text []byte, entries []entry) ([]byte, error) {
	before, lines, after, err := b.cut(string(text))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		line, replaced := b.line(e), false
		for i := range lines {
			if b.key(lines[i]) == e.id {
				lines[i], replaced = line, true
			}
		}
		if !replaced {
			lines = append(lines, line)
		}
	}
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return []byte(before + b.head + "\n" + strings.Join(lines, "\n") + "\n" + b.foot + "\n" + after), nil
}

func (b block) remove(text, _ []byte) ([]byte, error) {
	before, _, after, err := b.cut(string(text))
	return []byte(before + after), err
}

// cut splits a text into the text before the block, the lines of its entries, and the text after it. Without a block,
// all text is before it.
func (b block) cut(text string) (before string, lines []string, after string, err error) {
	before, rest, found := strings.Cut(text, b.head+"\n")
	if !found {
		return text, nil, "", nil
	}
	inside, after, found := strings.Cut(rest, b.foot)
	if !found {
		return "", nil, "", errors.New("the lines of \"acphost setup\" have no end: take them out by hand")
	}
	for line := range strings.Lines(inside) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return before, lines, strings.TrimPrefix(after, "\n"), nil
}
