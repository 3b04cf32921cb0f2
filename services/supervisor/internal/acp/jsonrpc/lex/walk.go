package lex

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Stop is returned by the callback of Object or Array to end the walk.
const Stop = TooDeep + 1

// Object calls f for each member of the object at b[i], in order, with the name and the index of the value. f returns
// the index after the value, or a negative number, which ends the walk. Object returns the index after the object, or a
// negative number: the result of f, or the complement of the index of the first invalid byte.
//
// The name aliases b, or is a copy if it has escapes. It is decoded as by AppendUnescaped. Duplicate names are passed,
// too.
func Object(b []byte, i int, f func(name []byte, at int) int) int {
	if At(b, i) != '{' {
		return ^i
	}
	if i = SkipSpace(b, i+1); At(b, i) == '}' {
		return i + 1
	}
	for {
		name, escaped, at := Member(b, i)
		if at < 0 {
			return at
		}
		if escaped {
			name, _ = AppendUnescaped(nil, name)
		}
		if i = f(name, at); i < 0 {
			return i
		}
		i = SkipSpace(b, i)
		switch At(b, i) {
		case '}':
			return i + 1
		case ',':
			i = SkipSpace(b, i+1)
		default:
			return ^i
		}
	}
}

// Array is Object for the array at b[i]: it calls f with the index of each element.
func Array(b []byte, i int, f func(at int) int) int {
	if At(b, i) != '[' {
		return ^i
	}
	if i = SkipSpace(b, i+1); At(b, i) == ']' {
		return i + 1
	}
	for {
		if i = f(i); i < 0 {
			return i
		}
		i = SkipSpace(b, i)
		switch At(b, i) {
		case ']':
			return i + 1
		case ',':
			i = SkipSpace(b, i+1)
		default:
			return ^i
		}
	}
}

// Find returns the index of the value of the first member with that name of the object at b[i], or a negative number if
// none exists. It does not read the text after the name. It does not use Object, because the calls of a callback for
// each member would dominate its time.
func Find(b []byte, i int, want string) int {
	if At(b, i) != '{' {
		return ^i
	}
	var n Nesting
	for {
		name, escaped, at := Member(b, SkipSpace(b, i+1))
		if at < 0 {
			return at
		}
		if escaped {
			name, _ = AppendUnescaped(nil, name)
		}
		if string(name) == want {
			return at
		}
		if i = n.ValueEnd(b, at, 0); i < 0 {
			return i
		}
		if i = SkipSpace(b, i); At(b, i) != ',' {
			return ^i
		}
	}
}

// Text returns the decoded form of a valid string literal. Invalid UTF-8 and unpaired surrogates become U+FFFD. exact
// reports that there are none.
func Text(literal []byte) (text string, exact bool) {
	body, exact := literal[1:len(literal)-1], true
	if bytes.IndexByte(body, '\\') >= 0 {
		body, exact = AppendUnescaped(nil, body)
	}
	if exact && utf8.Valid(body) {
		return string(body), true
	}
	return strings.ToValidUTF8(string(body), "\uFFFD"), false
}

// Duplicates finds duplicate names in objects. The zero value is ready. It is not safe for concurrent use.
type Duplicates struct {
	// Found reports that an object has a duplicate name. Name is the first such name, as Text returns it.
	Found bool
	Name  string

	nesting Nesting
	open    [][]byte // the names of the open objects, those of the innermost object last
}

// manyNames is the number of names of an object up to which they are compared one by one.
const manyNames = 16

// ValueEnd is Nesting.ValueEnd that also finds duplicates in the value, at any depth.
func (d *Duplicates) ValueEnd(b []byte, i, depth int) int {
	c := At(b, i)
	if c != '{' && c != '[' {
		return d.nesting.ValueEnd(b, i, depth)
	}
	if depth >= MaxDepth {
		return TooDeep
	}
	if c == '[' {
		return Array(b, i, func(at int) int { return d.ValueEnd(b, at, depth+1) })
	}
	return d.Object(b, i, func(_ []byte, at int) int { return d.ValueEnd(b, at, depth+1) })
}

// Object is the function Object that also finds duplicates among the names of the object, but not in its values.
func (d *Duplicates) Object(b []byte, i int, f func(name []byte, at int) int) int {
	first := len(d.open)
	defer func() { d.open = d.open[:first] }()
	var many map[string]struct{} // nil while there are few names
	return Object(b, i, func(name []byte, at int) int {
		if d.Found {
			return f(name, at)
		}
		if !utf8.Valid(name) {
			name = bytes.ToValidUTF8(name, []byte("\uFFFD"))
		}
		twice := false
		switch {
		case many != nil:
			_, twice = many[string(name)]
			many[string(name)] = struct{}{}
		default:
			for _, n := range d.open[first:] {
				twice = twice || bytes.Equal(n, name)
			}
			if d.open = append(d.open, name); len(d.open)-first == manyNames {
				many = make(map[string]struct{}, 2*manyNames)
				for _, n := range d.open[first:] {
					many[string(n)] = struct{}{}
				}
			}
		}
		if twice {
			d.Name, d.Found = string(name), true
		}
		return f(name, at)
	})
}
