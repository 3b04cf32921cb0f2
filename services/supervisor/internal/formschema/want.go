package formschema

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxShown is how many options are named to people.
	maxShown = 12
	// maxQuoted is how much is shown of a text of the agent's, in bytes.
	maxQuoted = 80
)

// want says what a field's value has to be, for people.
func (p *property) want() string {
	var b strings.Builder
	switch p.kind {
	case "boolean":
		return "true or false"
	case "number", "integer":
		b.WriteString("a number")
		if p.kind == "integer" {
			b.Reset()
			b.WriteString("a whole number")
		}
		p.bounds(&b, " of ", "")
	case "string":
		if len(p.options) > 0 {
			return "one of " + listed(p.options)
		}
		switch p.format {
		case "email":
			b.WriteString("an e-mail address")
		case "uri":
			b.WriteString("a URI")
		case "date":
			b.WriteString("a date (2006-01-02)")
		case "date-time":
			b.WriteString("a date and time (2006-01-02T15:04:05Z)")
		default:
			b.WriteString("a text")
		}
		p.bounds(&b, " of ", " characters")
		if p.pattern != "" {
			b.WriteString(" that matches the pattern " + quoted(p.pattern))
		}
	case "array":
		b.WriteString("a list")
		p.bounds(&b, " of ", " items")
		switch {
		case len(p.options) > 0:
			b.WriteString(", each one of " + listed(p.options))
		case p.textItems:
			b.WriteString(", each a text")
		}
	default:
		return "a value"
	}
	return b.String()
}

func (p *property) bounds(b *strings.Builder, before, unit string) {
	var parts []string
	if p.least != nil {
		parts = append(parts, "at least "+strconv.FormatFloat(*p.least, 'g', -1, 64))
	}
	if p.most != nil {
		parts = append(parts, "at most "+strconv.FormatFloat(*p.most, 'g', -1, 64))
	}
	if len(parts) > 0 {
		b.WriteString(before + strings.Join(parts, " and ") + unit)
	}
}

func listed(options []string) string {
	var parts []string
	for i, o := range options {
		if i == maxShown {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, quoted(o))
	}
	return strings.Join(parts, ", ")
}

// quoted is a text of the agent's in quotes, cut short. What would move a terminal is escaped.
func quoted(s string) string {
	if len(s) > maxQuoted {
		n := maxQuoted
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return strconv.Quote(s)
}
