package shell

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// pattern is a word that a shell holds against the names in folders.
type pattern struct {
	text string
	// bare says of each byte of text whether it is unquoted, so that "*", "?" and brackets mean something.
	bare []bool
}

// expand returns the words that a pattern stands for in a place, in the order of their bytes; itself, if no name matches. It
// reports false if shells may differ about it, or if the names are not known.
func (d *disk) expand(p pattern, at place) ([]string, bool) {
	components := p.components()
	if components == nil || !utf8.ValidString(p.text) {
		return nil, false
	}
	found := []string{""}
	if p.text[0] == '/' {
		found, components = []string{"/"}, components[1:]
	}
	begun := false // a component that was a pattern is behind
	for i, c := range components {
		last := i == len(components)-1
		var next []string
		for _, before := range found {
			matched, ok := d.step(c, before, at, begun)
			if !ok {
				return nil, false
			}
			for _, name := range matched {
				word := before + name
				if !last {
					if begun || c.special() {
						if file, _ := d.absolute(at, word); !d.look() || !isFolder(file) {
							continue
						}
					}
					word += "/"
				}
				next = append(next, word)
			}
			if len(next) > d.words || d.looks < 0 {
				return nil, false
			}
		}
		found, begun = next, begun || c.special()
	}
	if len(found) == 0 {
		return []string{p.text}, true
	}
	slices.Sort(found)
	d.words -= len(found)
	return found, true
}

// components are the parts of a pattern between its slashes, the last one empty if it ends in one; nil if there are empty
// ones elsewhere, or brackets or stars that shells read in different ways.
func (p pattern) components() []pattern {
	var parts []pattern
	start := 0
	for i := 0; i <= len(p.text); i++ {
		if i < len(p.text) && p.text[i] != '/' {
			continue
		}
		c := pattern{p.text[start:i], p.bare[start:i]}
		if c.text == "" && i > 0 && i < len(p.text) || !c.plain() {
			return nil
		}
		parts, start = append(parts, c), i+1
	}
	return parts
}

func (p pattern) is(i int, c byte) bool { return i < len(p.text) && p.bare[i] && p.text[i] == c }

func (p pattern) special() bool {
	for i := range p.text {
		if p.bare[i] && strings.IndexByte("*?[", p.text[i]) >= 0 {
			return true
		}
	}
	return false
}

// plain reports whether every shell reads a component in the same way. "**" goes into folders in some; "(" begins what only
// some know.
func (p pattern) plain() bool {
	for i := 0; i < len(p.text); i++ {
		switch {
		case p.is(i, '*') && p.is(i+1, '*'):
			return false
		case p.is(i, '['):
			_, _, end := p.set(i)
			if end < 0 {
				return false
			}
			i = end
		case p.text[i] >= utf8.RuneSelf, p.text[i] == '(', p.text[i] == '\\', p.bare[i] && strings.IndexByte("]^~#<", p.text[i]) >= 0:
			return false
		}
	}
	return true
}

// set reads the brackets that begin at i: the characters in them, whether others are meant, and where they end; -1: they are
// not plain. Ranges are of digits alone: the order of letters depends on the locale.
func (p pattern) set(i int) (chars string, others bool, end int) {
	j := i + 1
	if p.is(j, '!') {
		others = true
		j++
	}
	for ; j < len(p.text); j++ {
		c := p.text[j]
		digit := func(k int) bool { return k < len(p.text) && p.bare[k] && '0' <= p.text[k] && p.text[k] <= '9' }
		switch {
		case !p.bare[j] || c >= utf8.RuneSelf:
			return "", false, -1
		case c == ']' && chars != "":
			return chars, others, j
		case digit(j) && p.is(j+1, '-') && digit(j+2) && c <= p.text[j+2]:
			for d := c; d <= p.text[j+2]; d++ {
				chars += string(rune(d))
			}
			j += 2
		case c == '_' || c == '.' && chars != "" || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
			chars += string(rune(c))
		default:
			return "", false, -1
		}
	}
	return "", false, -1
}

// step returns the names that a component stands for behind what was found before it. begun: a pattern is before it, so that
// what does not exist is dropped.
func (d *disk) step(c pattern, before string, at place, begun bool) ([]string, bool) {
	if !c.special() {
		if begun && (c.text == "." || c.text == "..") {
			return nil, false
		}
		if !begun || c.text == "" {
			return []string{c.text}, true
		}
		file, ok := d.absolute(at, before+c.text)
		if !ok {
			return nil, false
		}
		switch info, err := os.Lstat(file); {
		case !d.look():
			return nil, false
		case errors.Is(err, fs.ErrNotExist):
			return nil, true
		case err != nil || info.Mode()&fs.ModeSymlink != 0 && !exists(file):
			return nil, false // shells differ about links that lead nowhere
		}
		return []string{c.text}, true
	}
	dir := before
	if dir == "" {
		dir = "."
	}
	folder, ok := d.absolute(at, dir)
	if !ok {
		return nil, false
	}
	names, ok := d.names(folder)
	if !ok {
		return nil, false
	}
	if c.text[0] == '.' {
		names = append([]string{".", ".."}, names...)
	}
	var matched []string
	for _, name := range names {
		if !d.look() {
			return nil, false
		}
		if name[0] == '.' && c.text[0] != '.' {
			continue
		}
		switch m := c.matches(name); {
		case m == no:
		case m == maybe, name == ".", name == "..": // shells differ about these
			return nil, false
		default:
			matched = append(matched, name)
		}
	}
	return matched, true
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// certainty is how certain it is that a name matches a pattern.
type certainty uint8

const (
	no certainty = iota
	maybe
	yes
)

// matches holds a name against a component. What counts bytes in one locale and characters in another is not certain, nor is
// a name that no message can carry.
func (p pattern) matches(name string) certainty {
	simple := utf8.ValidString(name)
	for i := range len(name) {
		simple = simple && name[i] < utf8.RuneSelf
	}
	if !simple {
		for i := range p.text {
			if !utf8.ValidString(name) || p.is(i, '?') || p.is(i, '[') {
				return maybe
			}
		}
	}
	if p.match(name) {
		return yes
	}
	return no
}

// match holds a name against the pattern. Of several stars only the last one that was passed is tried again, which is enough.
func (p pattern) match(name string) bool {
	i, j := 0, 0
	star, from := -1, 0
	for i < len(p.text) || j < len(name) {
		if p.is(i, '*') {
			star, from = i, j
			i++
			continue
		}
		if end, ok := p.one(i, name, j); ok {
			i, j = end, j+1
			continue
		}
		if star < 0 || from >= len(name) {
			return false
		}
		from++
		i, j = star+1, from
	}
	return true
}

// one reports whether byte j of a name is what stands at i, and where that ends.
func (p pattern) one(i int, name string, j int) (end int, ok bool) {
	switch {
	case i >= len(p.text) || j >= len(name):
		return 0, false
	case p.is(i, '?'):
		return i + 1, true
	case p.is(i, '['):
		chars, others, end := p.set(i)
		return end + 1, strings.IndexByte(chars, name[j]) >= 0 != others
	}
	return i + 1, p.text[i] == name[j]
}

// alike are programs that do the same with each of their operands from some operand on, so that it does not matter in which
// order a pattern is expanded: that depends on the locale.
var alike = byName(map[string]struct {
	// first is how many operands come before: the script of sed.
	first int
	// flags are the letters of the options that may stand before; "" none, "*" any: no value of an option names a file that
	// is written.
	flags string
}{
	`cat tac ls dir head tail wc nl file stat du cksum sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum od hexdump
	strings fold fmt expand unexpand paste cmp comm diff join realpath readlink basename dirname echo grep egrep fgrep
	rg`: {flags: "*"},
	"sort":   {flags: "bdfghinMRruVzcCms"},
	"sed":    {first: 1, flags: "nErsuz"},
	"jq":     {first: 1, flags: "rcesSMCj"},
	"awk":    {first: 1},
	"printf": {first: 1},
	"gofmt":  {flags: "lds"},
	"rm":     {flags: "rfvdi"},
	"touch":  {flags: "acm"},
})

// inAnyOrder reports whether a command does the same in whatever order some of its words come, which stand behind others.
func inAnyOrder(before []word, names []string) bool {
	if len(names) < 2 {
		return true
	}
	known, ok := alike[before[0].text]
	if !ok || slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }) {
		return false
	}
	operands := 0
	for _, w := range before[1:] {
		switch {
		case w.dynamic:
			return false
		case known.flags == "*":
		case len(w.text) < 2 || w.text[0] != '-':
			operands++
		case operands < known.first || known.first == 0:
			if strings.Trim(w.text[1:], known.flags) != "" {
				return false
			}
		default:
			return false // some programs take options anywhere
		}
	}
	return operands >= known.first
}
