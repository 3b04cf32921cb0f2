package form

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// fieldOf is the field of a form that has just that, "a".
func fieldOf(t *testing.T, property string) *Field {
	t.Helper()
	f := Parse([]byte(`{"properties":{"a":` + property + `}}`))
	if f.Err() != nil || len(f.Fields) != 1 {
		t.Fatalf("%s: %d fields, %v", property, len(f.Fields), f.Err())
	}
	return f.Fields[0]
}

func TestTyped_ConvertsOrRejects(t *testing.T) {
	const some = `"minimum":-5,"maximum":2000000`
	for property, c := range map[string]map[string]string{
		`{"type":"string"}`:                                               {"Zoë": `"Zoë"`, " a ": `" a "`, "\xff": `"�"`, "": "", "  ": ""},
		`{"type":"string","minLength":2,"maxLength":3}`:                   {"日本": `"日本"`, "日": "expected a text of at least 2 and at most 3 characters"},
		`{"type":"string","format":"email"}`:                              {"a@b": `"a@b"`, "a": "expected an e-mail address"},
		`{"type":"boolean"}`:                                              {"Y": "true", " no ": "false", "perhaps": "expected y or n"},
		`{"type":"integer",` + some + `}`:                                 {"7": "7", " -5 ": "-5", "1e3": "1000", "1.0": "1", "+7": "7", "007": "7", "1.5": "expected a whole", "x": "expected a whole", "2e6": "2000000", "2000001": "expected a whole"},
		`{"type":"integer"}`:                                              {"12345678901234567891": "12345678901234567891", "1e20": "expected a whole", "-0": "-0", "inf": "expected a whole", "1e400": "expected a whole"},
		`{"type":"number",` + some + `}`:                                  {"0.5": "0.5", "1.50": "1.50", "1e-3": "0.001", "1E3": "1000", ".5": "0.5", "-6": "expected a number", "0,5": "expected a number", "NaN": "expected a number", "Inf": "expected a number"},
		`{"type":"number"}`:                                               {"12345678901234567891": "12345678901234567891", "0.1234567890123456789": "0.1234567890123456789", "1e400": "expected a number", "1-2": "expected a number"},
		`{"type":"string","enum":["x","2"],"enumNames":["Ex"]}`:           {"1": `"x"`, "ex": `"x"`, "x": `"x"`, "2": `"2"`, "3": "expected numbers from 1 to 2", "": ""},
		`{"enum":["x","y"]}`:                                              {"2": `"y"`, "z": "expected numbers from 1 to 2"},
		`{"type":"array","items":{"enum":["x","y","z"]}}`:                 {"1, z": `["x","z"]`, "1;1 x": `["x"]`, "4": "expected numbers from 1 to 3", ",": "[]", "": ""},
		`{"type":"array","items":{"enum":["x","y"]},"minItems":2}`:        {"1": "expected a list of at least 2 items", "1 2": `["x","y"]`, ",": ""},
		`{"type":"string","enum":["aa","b"],"pattern":"a","default":"b"}`: {"1": `"aa"`, "2": "expected one of"},
	} {
		f := fieldOf(t, property)
		for typed, want := range c {
			value, err := f.Parse(typed)
			if got := string(value); err == nil && got != want || err != nil && (want == "" || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("%s, typed %q: got %s, %v; want %s", property, typed, got, err, want)
			}
		}
	}
}

func TestTyped_RejectsEmptyRequiredField(t *testing.T) {
	f := Parse([]byte(`{"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"enum":["x"]}}},"required":["a",7,"b"]}`))
	for _, x := range f.Fields {
		for _, typed := range []string{"", "  "} {
			var m *ValidationError
			if v, err := x.Parse(typed); !errors.As(err, &m) || !m.Missing || err.Error() != "it is required" {
				t.Errorf("%s, typed %q: got %s, %v", x.Name, typed, v, err)
			}
		}
		if v, err := x.Choose(); err == nil {
			t.Errorf("%s, nothing chosen: got %s", x.Name, v)
		}
	}
}

func TestChosen_SelectsOptionsByIndex(t *testing.T) {
	for _, c := range []struct {
		property string
		indices  []int
		want     string
	}{
		{`{"type":"string","anyOf":[{"const":"x"},{"const":"y"}]}`, []int{1}, `"y"`},
		{`{"type":"string","enum":["x"]}`, nil, ""},
		{`{"type":"array","items":{"enum":["x","y"]}}`, []int{1, 0}, `["y","x"]`},
		{`{"type":"array","items":{"enum":["x","y"]}}`, nil, "[]"},
		{`{"type":"array","items":{"enum":["x","y"]},"minItems":1}`, nil, ""}, // the field is left out
		{`{"type":"array","items":{"enum":["x","y"]},"maxItems":1}`, []int{0, 1}, "expected a list of at most 1 items"},
	} {
		got, err := fieldOf(t, c.property).Choose(c.indices...)
		if err == nil && string(got) != c.want || err != nil && (c.want == "" || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s, chosen %v: got %s, %v; want %s", c.property, c.indices, got, err, c.want)
		}
	}
}

func TestParse_Fields(t *testing.T) {
	const schema = `{"properties":{
		"z":{"type":"string","title":" ","description":"About","minLength":"3","default":"d"},
		"b":{"type":"array","items":{"oneOf":[{"const":"x","title":"Ex"},{"const":"y"}]},"default":["y","x"]},
		"a":{"type":"integer","title":"Count","default":1e3}},"required":["a"]}`
	f := Parse([]byte(schema))
	if f.Err() != nil {
		t.Fatal(f.Err())
	}
	want := []string{
		`z "z" "About" 1 false [] "d" = d`,
		`b "b" "" 6 false [{x Ex} {y y}] ["y","x"] = Ex, y`,
		`a "Count" "" 3 true [] 1000 = 1000`,
	}
	var got []string
	for _, x := range f.Fields {
		got = append(got, fmt.Sprintf("%s %q %q %d %v %v %s = %s", x.Name, x.Title, x.About, x.Kind, x.Required, x.Options, x.Default, x.Show(x.Default)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestParse_DropsInvalidDefaults(t *testing.T) {
	for property, want := range map[string]string{
		`{"type":"string","default":7}`:                               ``,
		`{"type":"string","default":""}`:                              `""`,
		`{"type":"string","enum":["y"],"default":"x"}`:                ``,
		`{"type":"string","pattern":"^[a-z]+$","default":"X"}`:        ``,
		`{"type":"boolean","default":null}`:                           ``,
		`{"type":"integer","maximum":8,"default":9}`:                  ``,
		`{"type":"integer","default":1.0}`:                            `1`,
		`{"type":"integer","default":1e20}`:                           ``, // it cannot be typed either
		`{"type":"array","items":{"enum":["x","y"]},"default":["z"]}`: ``,
		`{"type":"array","items":{"enum":["x","y"]},"default":[]}`:    `[]`,
	} {
		if got := string(fieldOf(t, property).Default); got != want {
			t.Errorf("%s: got %s, want %s", property, got, want)
		}
	}
}

func TestParse_DropsExpensiveDefaults(t *testing.T) {
	text := strings.Repeat("a", 16_000)
	var list []string
	for i := range 60 {
		list = append(list, fmt.Sprintf(`"f%d":{"type":"string","pattern":"^(a|aa|aaa|aaaa)+$","default":"%s"}`, i, text))
	}
	list = append(list, fmt.Sprintf(`"last":{"type":"string","pattern":"^(a|aa|aaa|aaaa)+$","default":"%sb"}`, text))
	f := Parse([]byte(`{"properties":{` + strings.Join(list, ",") + `}}`))
	if f.Err() != nil || f.Fields[0].Default == nil || f.Fields[60].Default != nil {
		t.Errorf("%v, the first has a default: %t, the last, which does not fit: %t", f.Err(), f.Fields[0].Default != nil, f.Fields[60].Default != nil)
	}
}

func TestParse_ReportsUnusableForms(t *testing.T) {
	fields := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
		}
		return `{"properties":{` + strings.Join(list, ",") + `}}`
	}
	options := func(n int) string {
		return `{"properties":{"a":{"type":"string","enum":[` + strings.Repeat(`"x",`, n-1) + `"x"]}}}`
	}
	for schema, want := range map[string]string{
		``:                        "its schema cannot be read",
		`{`:                       "its schema cannot be read",
		`[]`:                      "its schema cannot be read",
		`{}`:                      "",
		`{"properties":null}`:     "",
		`{"properties":[]}`:       "its schema has no properties that can be read",
		`{"properties":{"a":1}}`:  `its field "a" cannot be read`,
		`{"properties":{"a":{}}}`: `its field "a" is of a kind that acphost does not know: ""`,
		`{"properties":{"a":{"type":["string","null"]}}}`:                 `its field "a" cannot be read`,
		`{"properties":{"a":{"type":"object"}}}`:                          `its field "a" is of a kind that acphost does not know: "object"`,
		`{"properties":{"a":{"enum":["x",1]}}}`:                           `its field "a" is of a kind`,
		`{"properties":{"a":{"enum":["x"]}}}`:                             "",
		`{"properties":{"a":{"$ref":"#/$defs/x"}}}`:                       `its field "a" is of a kind`,
		`{"properties":{"a":{"type":"array","items":{"type":"string"}}}}`: `its field "a" has nothing to choose from`,
		`{"properties":{"a":{"type":"string"},"a":{"type":"string"}}}`:    "its schema cannot be read",
		fields(64):    "",
		fields(65):    "it has over 64 fields",
		options(1000): "",
		options(1001): `its field "a" has over 1000 choices`,
		`{"properties":{"a":{"type":"boolean","title":"` + strings.Repeat("x", maxSchema) + `"}}}`: "its schema is longer",
	} {
		got := ""
		if err := Parse([]byte(schema)).Err(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%.80s: got %q, want %q", schema, got, want)
		}
	}
}

// FuzzFilledIn fills in forms as a person may: in each field a default, something typed, or options that were chosen.
func FuzzFilledIn(f *testing.F) {
	f.Add(build, "debug\n1e0\nyes", uint64(1))
	f.Add(`{"properties":{"a":{"type":"number","default":1e400},"b":{"type":"array","items":{"enum":["x","y","x"]},"minItems":1}}}`, "0x1p-2\n1 3", uint64(5))
	f.Add(`{"properties":{"\ud800":{"type":"string","pattern":"(a|b)+$","format":"uri","default":"a:b"}},"required":["\ud800"]}`, "a:\xff", uint64(2))
	f.Add("{\"properties\":{\"\":{\"type\":\"string\",\"default\":\"\xff\\ud800\"},\"m\":{\"type\":\"array\",\"items\":{\"enum\":[\"\xff\"]},\"default\":[\"\xfe\"]}}}", "", uint64(0))
	f.Add("{\"properties\":{\"0\":{\"type\":\"array\",\"items\":{\"enum\":[\"\xff\"]},\"default\":[\"\x99\xfe\"]}}}", "", uint64(0))
	f.Fuzz(func(t *testing.T, schema, typed string, chosen uint64) {
		form := Parse([]byte(schema))
		if form.Err() != nil {
			return
		}
		lines := strings.Split(typed, "\n")
		var values []jsontext.Value
		for i, x := range form.Fields {
			value, err := x.Default, error(nil)
			switch {
			case len(x.Options) > 0 && chosen&1 != 0:
				var indices []int
				for at := range x.Options {
					if chosen>>(at%64)&1 != 0 {
						indices = append(indices, at)
					}
				}
				value, err = x.Choose(indices...)
			case value == nil || chosen&2 != 0:
				value, err = x.Parse(lines[i%len(lines)])
			}
			if err != nil {
				return // the mistake is shown, and the form does not advance
			}
			if value != nil {
				_ = x.Show(value)
			}
			values = append(values, value)
		}
		content := form.Content(values)
		if !jsontext.Value(content).IsValid() {
			t.Fatalf("the content is no JSON: %s", content)
		}
		if err := form.Check([]byte(content)); err != nil {
			t.Fatalf("a valid content is rejected: %v: %s", err, content)
		}
	})
}
