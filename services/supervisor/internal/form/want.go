package form

import (
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

const (
	// maxShown is how many options are named to people.
	maxShown = 12
	// maxQuoted is how much is shown of a text of the agent's, in bytes.
	maxQuoted = 80
)

// Want says what a field's value has to be, for people.
func (f *Field) Want() string {
	var b strings.Builder
	switch f.Kind {
	case Bool:
		return "true or false"
	case Number, Integer:
		b.WriteString("a number")
		if f.Kind == Integer {
			b.Reset()
			b.WriteString("a whole number")
		}
		f.bounds(&b, " of ", "")
	case One:
		return "one of " + listed(f.Options)
	case Text:
		switch f.Format {
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
		f.bounds(&b, " of ", " characters")
		if f.pattern != "" {
			b.WriteString(" that matches the pattern " + quoted(f.pattern))
		}
	case Many:
		b.WriteString("a list")
		f.bounds(&b, " of ", " items")
		switch {
		case len(f.Options) > 0:
			b.WriteString(", each one of " + listed(f.Options))
		case f.textItems:
			b.WriteString(", each a text")
		}
	default:
		return "a value"
	}
	return b.String()
}

func (f *Field) bounds(b *strings.Builder, before, unit string) {
	var parts []string
	if f.least != nil {
		parts = append(parts, "at least "+strconv.FormatFloat(*f.least, 'g', -1, 64))
	}
	if f.most != nil {
		parts = append(parts, "at most "+strconv.FormatFloat(*f.most, 'g', -1, 64))
	}
	if len(parts) > 0 {
		b.WriteString(before + strings.Join(parts, " and ") + unit)
	}
}

func listed(options []Option) string {
	var parts []string
	for i, o := range options {
		if i == maxShown {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, quoted(o.Value))
	}
	return strings.Join(parts, ", ")
}

// quoted is a text of the agent's in quotes, cut short. What would move a terminal is escaped.
func quoted(s string) string {
	return strconv.Quote(safetext.Cut(s, maxQuoted+len("…")))
}
