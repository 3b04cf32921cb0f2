package shell

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// pattern is a word that a shell matches with the names in folders.
type pattern struct {
	text string
	// bare has a value for each byte of text: whether it is unquoted, so that "*", "?" and brackets are special.
	bare []bool
}

// expand returns the words that a pattern expands to in a place, in the order of their bytes; the pattern itself if no
// name matches. It returns false if shells may differ, or if the names are unknown.
func (d *disk) expand(p pattern, at place) ([]string, bool) {
	components := p.components()
	if components == nil || !utf8.ValidString(p.text) {
		return nil, false
	}
	found := []string{""}
	if p.text[0] == '/' {
		found, components = []string{"/"}, components[1:]
	}
	begun := false // a component with a pattern came before
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
						if file, _ := d.absolute(at, word); !d.countLookup() || !isFolder(file) {
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

// components returns the parts of a pattern between its slashes; the last part is empty if the pattern ends in a slash.
// It returns nil if other parts are empty, or if shells differ in how they read brackets or stars in it.
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

// plain reports whether every shell reads a component in the same way. Some shells descend into folders for "**"; "("
// begins an extended pattern in some shells.
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

// set parses the brackets that begin at i. It returns the characters in them, whether the set is inverted, and the end;
// -1 if shells differ. It accepts only ranges of digits: the order of letters depends on the locale.
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

// step returns the names that a component matches after the prefix before. begun: a pattern came before, so missing
// files are dropped.
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
		case !d.countLookup():
			return nil, false
		case errors.Is(err, fs.ErrNotExist):
			return nil, true
		case err != nil || info.Mode()&fs.ModeSymlink != 0 && !exists(file):
			return nil, false // shells differ about dangling links
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
		if !d.countLookup() {
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

// matches matches a name with a component. It is uncertain if the result depends on whether the locale counts bytes or
// characters, or if the name is not UTF-8.
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

// match matches a name with the pattern. It retries only the last star, which is sufficient.
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

// one reports whether byte j of a name matches the pattern element at i, and returns the end of that element.
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

// alike are programs that do the same with each of their operands after the first ones, so that the order of a
// pattern's expansion, which depends on the locale, does not matter.
var alike = byName(map[string]struct {
	// first is the number of operands before those: the script of sed.
	first int
	// flags are the letters of the options that may precede; "" none, "*" any: no option has the name of a written file
	// as its value.
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

// inAnyOrder reports whether a command does the same for any order of the words names, which follow before.
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
			return false // some programs accept options at any position
		}
	}
	return operands >= known.first
}
