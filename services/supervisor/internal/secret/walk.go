package secret

import (
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// marker is what stands in a frame in place of a value.
const marker = `"` + Redacted + `"`

// maxName is how long the name of a member may be to be looked at. What stands under a longer one counts as a secret.
const maxName = 1 << 10

// maxSteps bounds the members and elements that are looked at of the params or the result of one message. Of one with more,
// nothing is kept.
const maxSteps = 1 << 16

// stepBytes is how much text, searched for what looks like a secret, takes as long as a step.
const stepBytes = 4

// walker walks over a line that is JSON, and notes what is to be cut out. Each value is walked over once, however deep it
// stands. Its methods take the index of a value and return the one behind it, or a negative one if the line is no JSON.
//
// It gives up after maxSteps, as if the line were no JSON: see bounded.
//
// Names are taken as a careless reader would take them: escapes undone, in any case, and each as often as it occurs.
type walker struct {
	line    []byte
	nesting lex.Nesting
	cuts    []cut
	steps   int
	repeats bool // it is what somebody found wrong with a request, who shows that as the "input"
}

// name is the name of a member.
type name struct {
	text   string
	folded string // upper case, as far as there is one
}

// is reports whether a reader who ignores case takes it for a name of ASCII letters, given in upper case.
func (n name) is(upper string) bool { return n.folded == upper }

// bounded walks over a value, and replaces it whole if that takes too many steps.
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

// step reports whether another step may be made.
func (w *walker) step() bool {
	w.steps++
	return w.steps <= maxSteps
}

// object calls f for each member of an object, with the index of its value. f returns the index behind it.
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

// array calls f for each element of an array. f returns the index behind it.
func (w *walker) array(i int, f func(at int) int) int {
	return lex.Array(w.line, i, func(at int) int {
		if !w.step() {
			return lex.Stop
		}
		return f(at)
	})
}

func (w *walker) skip(i int) int { return w.nesting.ValueEnd(w.line, i, 0) }

// whole cuts a value, unless it holds nothing.
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

// strings cuts all strings of a value: numbers and the like are settings.
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

// named cuts what is a secret by the name that it has, at any depth: environments, headers, and strings below names that
// look like those of secrets; and what looks like one among arguments and in addresses.
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

// words cuts what looks like a secret out of a program's arguments, or out of an address.
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

// word does that with one string; before is the one that stands before it.
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

// entries cuts the values of variables or headers: a list of {"name", "value"}, or an object of names and values. Nothing
// but names is left of whatever else it may be.
func (w *walker) entries(i int) int {
	return w.pairs(i, func(_ name, at int) int { return w.whole(at) }, func(at int) int { return w.allBut(at, "NAME", "name") })
}

// pairs calls member for each value of an object of names and values, or entry for each object of a list; all else is cut.
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

// allBut cuts all of an object but the string that one of its members is. Of an object that has several of that name, in
// whatever case, nobody knows which one is it. What is no object is cut.
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

// variables cuts the values of those variables that are secret, and of those that have no name for certain.
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

// valueAt is the string from i to end, for a look at its form; "": it is none, or too long to be looked at.
func (w *walker) valueAt(i, end int) string {
	if end < i+2 || end-i > maxNoise || w.line[i] != '"' {
		return ""
	}
	w.steps += (end - i) / stepBytes
	return text(w.line[i:end])
}

// text is what a string literal stands for.
func text(literal []byte) string {
	s, _ := lex.Text(literal)
	return s
}
