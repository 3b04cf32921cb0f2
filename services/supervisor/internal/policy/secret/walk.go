package secret

import (
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// marker replaces a value in a frame.
const marker = `"` + Redacted + `"`

// maxName limits the length of the name of a member. The value of a longer name counts as a secret.
const maxName = 1 << 10

// maxSteps limits the members and elements of the params or the result of one message. A message that exceeds it is
// replaced as a whole.
const maxSteps = 1 << 16

// stepBytes is the number of bytes whose search for secrets takes as long as a step.
const stepBytes = 4

// walker walks over a line of JSON, and collects the parts to replace. It walks over each value once, at any depth. Its
// methods take the index of a value and return the index after it, or a negative number if the line is not JSON.
//
// It stops after maxSteps, as if the line were not JSON: see bounded.
//
// Names are compared as a lenient parser would: unescaped, in any case, and every duplicate.
type walker struct {
	line    []byte
	nesting lex.Nesting
	cuts    []cut
	steps   int
	repeats bool // copies of a rejected request in an error, often as the "input"
}

// name is the name of a member.
type name struct {
	text   string
	folded string // upper case, if it has one
}

// is reports whether a parser that ignores case treats the name as equal to upper, a name of ASCII letters in upper
// case.
func (n name) is(upper string) bool { return n.folded == upper }

// bounded walks over a value, and replaces the whole value if the walk takes too many steps.
func (w *walker) bounded(i int, walk func(at int) int, instead string) int {
	before := len(w.cuts)
	w.steps = 0
	end := walk(i)
	if w.steps <= maxSteps {
		return end
	}
	w.steps, w.cuts = 0, w.cuts[:before]
	if end = w.skip(i); end > 0 {
		w.cuts = append(w.cuts, cut{i, end, instead})
	}
	return end
}

// step counts a step, and reports whether it is allowed.
func (w *walker) step() bool {
	w.steps++
	return w.steps <= maxSteps
}

// object calls f for each member of an object, with the index of its value. f returns the index after it.
func (w *walker) object(i int, f func(n name, at int) int) int {
	return lex.Object(w.line, i, func(key []byte, at int) int {
		if !w.step() {
			return lex.Stop
		}
		n := name{text: string(key)}
		if len(key) <= maxName {
			n.folded = string(lex.AppendFolded(nil, key))
		}
		return f(n, at)
	})
}

// array calls f for each element of an array. f returns the index after it.
func (w *walker) array(i int, f func(at int) int) int {
	return lex.Array(w.line, i, func(at int) int {
		if !w.step() {
			return lex.Stop
		}
		return f(at)
	})
}

func (w *walker) skip(i int) int { return w.nesting.ValueEnd(w.line, i, 0) }

// whole marks a value, unless it is empty.
func (w *walker) whole(i int) int {
	end := w.skip(i)
	if end < 0 {
		return end
	}
	switch string(w.line[i:end]) {
	case "null", `""`, "{}", "[]":
	default:
		w.cuts = append(w.cuts, cut{i, end, marker})
	}
	return end
}

// strings marks all strings of a value. Numbers and other scalars are settings.
func (w *walker) strings(i int) int {
	switch lex.At(w.line, i) {
	case '{':
		return w.object(i, func(_ name, at int) int { return w.strings(at) })
	case '[':
		return w.array(i, w.strings)
	case '"':
		return w.whole(i)
	}
	return w.skip(i)
}

// named marks values that are secrets by their names, at any depth: environments, headers, and strings below names that
// look like those of secrets; and values that look like secrets in arguments and addresses.
func (w *walker) named(i int) int {
	switch lex.At(w.line, i) {
	case '{':
		return w.object(i, func(n name, at int) int {
			switch {
			case n.is("ENV"), n.is("HEADERS"):
				return w.entries(at)
			case n.is("ARGS"), n.is("URL"):
				return w.words(at)
			case len(n.text) > maxName, Name(n.text):
				return w.strings(at)
			case w.repeats && n.is("INPUT"):
				return w.whole(at)
			}
			return w.named(at)
		})
	case '[':
		return w.array(i, w.named)
	}
	return w.skip(i)
}

// words marks values that look like secrets in the arguments of a program, or in an address.
func (w *walker) words(i int) int {
	before := ""
	switch lex.At(w.line, i) {
	case '"':
		return w.word(i, &before)
	case '[':
		return w.array(i, func(at int) int {
			if lex.At(w.line, at) == '"' {
				return w.word(at, &before)
			}
			return w.named(at)
		})
	}
	return w.named(i)
}

// word does that for one string. before is the previous string.
func (w *walker) word(i int, before *string) int {
	end := w.skip(i)
	if end < 0 {
		return end
	}
	if end-i > maxNoise {
		return w.whole(i)
	}
	w.steps += (end - i) / stepBytes
	was := text(w.line[i:end])
	if now := Word(*before, was); now != was {
		w.cuts = append(w.cuts, cut{i, end, string(jsonrpc.AppendString(nil, now))})
	}
	*before = was
	return end
}

// entries marks the values of variables or headers: a list of {"name", "value"}, or an object of names and values. Of
// any other value, only names remain.
func (w *walker) entries(i int) int {
	return w.pairs(i, func(_ name, at int) int { return w.whole(at) }, func(at int) int { return w.allBut(at, "NAME", "name") })
}

// pairs calls member for each value of an object of names and values, or entry for each object of a list. It marks all
// other values.
func (w *walker) pairs(i int, member func(n name, at int) int, entry func(at int) int) int {
	switch lex.At(w.line, i) {
	case '{':
		return w.object(i, member)
	case '[':
		return w.array(i, func(at int) int {
			if lex.At(w.line, at) != '{' {
				return w.whole(at)
			}
			return entry(at)
		})
	}
	return w.whole(i)
}

// allBut marks the whole object except the string of one of its members. If several members have this name in any case,
// parsers differ about which one counts, and it marks all. It marks a value that is not an object.
func (w *walker) allBut(i int, upper, exact string) int {
	if lex.At(w.line, i) != '{' {
		return w.whole(i)
	}
	from, named := 0, 0
	end := w.object(i, func(n name, at int) int {
		if n.is(upper) {
			if named++; named == 1 && n.text == exact && lex.At(w.line, at) == '"' {
				from = at
				return w.skip(at)
			}
		}
		return w.whole(at)
	})
	if end >= 0 && named > 1 && from > 0 {
		w.whole(from)
	}
	return end
}

// variables marks the values of variables that are secret, and of variables without a certain name.
func (w *walker) variables(i int, secret func(name, value string) bool) int {
	return w.pairs(i, func(n name, at int) int {
		if end := w.skip(at); end < 0 || len(n.text) <= maxName && !secret(n.text, w.valueAt(at, end)) {
			return end
		}
		return w.whole(at)
	}, func(at int) int { return w.variable(at, secret) })
}

func (w *walker) variable(i int, secret func(name, value string) bool) int {
	before := len(w.cuts)
	names, values, called, given := 0, 0, "", ""
	end := w.object(i, func(n name, at int) int {
		switch {
		case n.is("NAME"):
			end := w.skip(at)
			if names++; end > 0 && n.text == "name" && w.line[at] == '"' && end-at <= maxName {
				called = text(w.line[at:end])
			}
			return end
		case n.is("VALUE"):
			if values++; n.text != "value" {
				values++
			}
			end := w.whole(at)
			given = w.valueAt(at, end)
			return end
		}
		return w.skip(at)
	})
	if end >= 0 && names == 1 && values <= 1 && called != "" && !secret(called, given) {
		w.cuts = w.cuts[:before]
	}
	return end
}

// valueAt returns the string from i to end for a check of its form, or "" if it is not a string or too long.
func (w *walker) valueAt(i, end int) string {
	if end < i+2 || end-i > maxNoise || w.line[i] != '"' {
		return ""
	}
	w.steps += (end - i) / stepBytes
	return text(w.line[i:end])
}

// text returns the decoded form of a string literal.
func text(literal []byte) string {
	s, _ := lex.Text(literal)
	return s
}
