package secret

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON redacts the strings of a JSON value by their names and by their form. A text that is not JSON is redacted by
// Text.
func JSON(raw string) string {
	changed := false
	var out strings.Builder
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	d := jsontext.NewDecoder(strings.NewReader(raw), lenient...)
	e := jsontext.NewEncoder(&out, lenient...)
	var open []jsonScope
	for {
		token, err := d.ReadToken()
		if err != nil {
			break
		}
		switch token.Kind() {
		case '{', '[':
			inner := jsonScope{secret: len(open) > 0 && open[len(open)-1].hides()}
			open = append(open, inner)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			if len(open) > 0 {
				text := token.String()
				if replaced := open[len(open)-1].text(d, text); replaced != text {
					token, changed = jsontext.String(replaced), true
				}
			} else if text := token.String(); Text(text) != text {
				token, changed = jsontext.String(Text(text)), true
			}
		}
		if err := e.WriteToken(token); err != nil {
			return Text(raw)
		}
	}
	if len(open) > 0 || out.Len() == 0 || d.InputOffset() < int64(len(strings.TrimRight(raw, " \t\r\n"))) {
		return Text(raw)
	}
	if !changed {
		return raw
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// jsonScope is an object or an array that is being parsed.
type jsonScope struct {
	secret bool   // the whole value is a secret
	name   string // name of the current member
	named  string // the value of the member "name": {"name": "API_TOKEN", "value": …}
	before string // the previous string of an array
}

// hides reports whether the next value is a secret by its name.
func (s *jsonScope) hides() bool {
	return s.secret || Name(s.name) || s.name == "value" && Name(s.named)
}

// text returns a string of the object or array for records.
func (s *jsonScope) text(d *jsontext.Decoder, text string) string {
	kind, n := d.StackIndex(d.StackDepth())
	if kind == '{' && n%2 == 1 {
		s.name = text
		return text
	}
	if kind == '[' {
		before := s.before
		s.before = text
		if s.secret && text != "" {
			return Redacted
		}
		return Word(before, text)
	}
	if s.name == "name" {
		s.named = text
	}
	if s.hides() && mayBeSecret(s.name, text) {
		return Redacted
	}
	return Text(text)
}
