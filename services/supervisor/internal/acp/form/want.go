package form

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const (
	// maxShown limits the options that are listed for users.
	maxShown = 12
	// maxQuoted limits the bytes of an agent's text that are shown.
	maxQuoted = 80
)

// formats maps the formats that are checked to their descriptions.
var formats = map[string]string{
	"email":     "an e-mail address",
	"uri":       "a URI",
	"date":      "a date (2006-01-02)",
	"date-time": "a date and time (2006-01-02T15:04:05Z)",
}

// Want describes the valid values of a field for users.
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

// bounds describes the limits of a value in a unit.
func (f *Field) bounds(unit string) string {
	var parts []string
	if f.minimum != nil {
		parts = append(parts, "at least "+strconv.FormatFloat(*f.minimum, 'g', -1, 64))
	}
	if f.maximum != nil {
		parts = append(parts, "at most "+strconv.FormatFloat(*f.maximum, 'g', -1, 64))
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

// quoted returns a text of the agent in quotes, shortened. Control characters are escaped.
func quoted(s string) string {
	return strconv.Quote(safetext.Cut(s, maxQuoted+len("…")))
}
