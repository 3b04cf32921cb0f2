package form

import (
	"cmp"
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

// formats are the formats of texts that are checked, for people.
var formats = map[string]string{
	"email":     "an e-mail address",
	"uri":       "a URI",
	"date":      "a date (2006-01-02)",
	"date-time": "a date and time (2006-01-02T15:04:05Z)",
}

// Want says what a field's value has to be, for people.
func (f *Field) Want() string {
	switch f.Kind {
	case Bool:
		return "true or false"
	case Number:
		return "a number" + f.bounds("")
	case Integer:
		return "a whole number" + f.bounds("")
	case One:
		return "one of " + listed(f.Options)
	case Text:
		want := cmp.Or(formats[f.Format], "a text") + f.bounds(" characters")
		if f.pattern != "" {
			want += " that matches the pattern " + quoted(f.pattern)
		}
		return want
	case Many:
		want := "a list" + f.bounds(" items")
		switch {
		case len(f.Options) > 0:
			want += ", each one of " + listed(f.Options)
		case f.textItems:
			want += ", each a text"
		}
		return want
	}
	return "a value"
}

// bounds says how large a value may be, in a unit.
func (f *Field) bounds(unit string) string {
	var parts []string
	if f.least != nil {
		parts = append(parts, "at least "+strconv.FormatFloat(*f.least, 'g', -1, 64))
	}
	if f.most != nil {
		parts = append(parts, "at most "+strconv.FormatFloat(*f.most, 'g', -1, 64))
	}
	if len(parts) == 0 {
		return ""
	}
	return " of " + strings.Join(parts, " and ") + unit
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
