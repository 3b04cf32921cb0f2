package form

import (
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// checker checks values. work is the budget for all patterns together.
type checker struct {
	work    int
	skipped bool // a pattern was skipped, because the budget was used up
}

func newChecker() *checker { return &checker{work: maxWork} }

func (c *checker) fits(f *Field, value jsontext.Value) bool {
	kind := value.Kind()
	switch f.Kind {
	case Bool:
		return kind == 't' || kind == 'f'
	case Number, Integer:
		if kind != '0' {
			return false
		}
		n, _ := strconv.ParseFloat(string(value), 64) // a number that is too large is infinite
		return f.within(n) && (f.Kind == Number || n == math.Trunc(n) && !math.IsInf(n, 0))
	case Text, One:
		return kind == '"' && c.textFits(f, text(value))
	case Many:
		return kind == '[' && f.listFits(value)
	}
	return true
}

func (c *checker) textFits(f *Field, text string) bool {
	if f.Kind == One && !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == text }) {
		return false
	}
	return f.within(float64(utf8.RuneCountInString(text))) && formatted(f.Format, text) && c.matches(f.pattern, text)
}

func (f *Field) listFits(value jsontext.Value) bool {
	var list []jsontext.Value
	if json.Unmarshal(value, &list, lenient) != nil || !f.within(float64(len(list))) {
		return false
	}
	options := make(map[string]bool, len(f.Options))
	for _, o := range f.Options {
		options[o.Value] = true
	}
	for _, v := range list {
		if (f.textItems || len(options) > 0) && v.Kind() != '"' || len(options) > 0 && !options[text(v)] {
			return false
		}
	}
	return true
}

func (f *Field) within(n float64) bool {
	return (f.minimum == nil || n >= *f.minimum) && (f.maximum == nil || n <= *f.maximum)
}

// formatted reports whether a text has one of the formats of ACP. It returns true for other formats.
func formatted(format, text string) bool {
	var err error
	switch format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err == nil && a.Address != text {
			return false // it also has a name or comments
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && u.Scheme == "" {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	}
	return err == nil
}

// matches reports whether a pattern matches a part of a text. It returns true for a pattern that Go does not support,
// or that is too expensive, because the agent has to check it.
func (c *checker) matches(pattern, text string) bool {
	if pattern == "" || len(pattern) > maxPattern {
		return true
	}
	size := programSize(pattern)
	if size == 0 || size > maxProgram {
		return true
	}
	if size*(len(text)+1) > c.work {
		c.skipped = true
		return true
	}
	c.work -= size * (len(text) + 1)
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(text)
}
