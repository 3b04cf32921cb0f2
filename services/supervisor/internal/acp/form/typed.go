package form

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxExact is the limit below which a float64 represents every integer exactly.
const maxExact = 1 << 53

// Parse parses typed input. The value is nil if the input is blank: the field is omitted, even if it has a default. An
// option is chosen by its number, from 1, its title or its value. Options of Many are separated by commas, semicolons
// or spaces. The error is a *Misfit without the field's name.
func (f *Field) Parse(typed string) (jsontext.Value, error) {
	word := strings.TrimSpace(typed)
	if word == "" {
		return nil, f.missing()
	}
	switch f.Kind {
	case Bool:
		switch strings.ToLower(word) {
		case "y", "yes", "true", "on", "1":
			return jsontext.Value("true"), nil
		case "n", "no", "false", "off", "0":
			return jsontext.Value("false"), nil
		}
		return nil, &ValidationError{Want: "y or n"}
	case One:
		return f.chooseNamed(word)
	case Many:
		words := strings.FieldsFunc(typed, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
		return f.chooseNamed(words...)
	case Number, Integer:
		return f.number(word)
	}
	return f.checked(encode(typed))
}

// Choose returns the value of the options with these indices. A field of kind One uses the first. Without indices, the
// value is the empty list if that is valid and the field is not required, and otherwise nil, which omits the field. The
// error is a *Misfit without the field's name.
func (f *Field) Choose(indices ...int) (jsontext.Value, error) {
	chosen := []string{}
	for _, i := range indices {
		if v := f.Options[i].Value; !slices.Contains(chosen, v) {
			chosen = append(chosen, v)
		}
	}
	switch {
	case len(chosen) > 0 && f.Kind == One:
		return f.checked(encode(chosen[0]))
	case len(chosen) > 0:
		return f.checked(encode(chosen))
	case f.Kind == Many && !f.Required && f.within(0):
		return encode(chosen), nil
	}
	return nil, f.missing()
}

// Chosen returns the indices of the options in a value of the field.
func (f *Field) Chosen(value jsontext.Value) []int {
	var indices []int
	values := texts(value)
	for i, o := range f.Options {
		if slices.Contains(values, o.Value) {
			indices = append(indices, i)
		}
	}
	return indices
}

// Show formats a value of the field for users: titles of options, a text without quotes, other values as JSON.
func (f *Field) Show(value jsontext.Value) string {
	switch f.Kind {
	case Text:
		return text(value)
	case One, Many:
		var titles []string
		for _, i := range f.Chosen(value) {
			titles = append(titles, f.Options[i].Title)
		}
		return strings.Join(titles, ", ")
	}
	return string(value)
}

// chooseNamed chooses options by typed words.
func (f *Field) chooseNamed(words ...string) (jsontext.Value, error) {
	var indices []int
	for _, word := range words {
		i := slices.IndexFunc(f.Options, func(o Option) bool { return o.Value == word || strings.EqualFold(o.Title, word) })
		if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(f.Options) {
			i = n - 1
		}
		if i < 0 {
			return nil, &ValidationError{Want: "numbers from 1 to " + strconv.Itoa(len(f.Options))}
		}
		indices = append(indices, i)
	}
	return f.Choose(indices...)
}

// number parses a typed number. Plain digits are kept, so that none is lost. Other notations are converted: 1e3 becomes
// 1000.
func (f *Field) number(typed string) (jsontext.Value, error) {
	n, err := strconv.ParseFloat(typed, 64)
	value := jsontext.Value(typed)
	switch plain := strings.Trim(typed, "-.0123456789") == "" && value.IsValid(); {
	case err != nil || math.IsInf(n, 0) || math.IsNaN(n):
		return nil, &ValidationError{Want: f.Want()}
	case plain && (f.Kind == Number || !strings.Contains(typed, ".")):
	case f.Kind == Number:
		value = strconv.AppendFloat(nil, n, 'g', -1, 64)
	case n != math.Trunc(n) || math.Abs(n) > maxExact:
		return nil, &ValidationError{Want: f.Want()}
	default:
		value = strconv.AppendInt(nil, int64(n), 10)
	}
	return f.checked(value)
}

func (f *Field) missing() error {
	if f.Required {
		return &ValidationError{Missing: true, Want: f.Want()}
	}
	return nil
}

// checked returns the value if it is valid.
func (f *Field) checked(v jsontext.Value) (jsontext.Value, error) {
	if !newChecker().fits(f, v) {
		return nil, &ValidationError{Want: f.Want()}
	}
	return v, nil
}
