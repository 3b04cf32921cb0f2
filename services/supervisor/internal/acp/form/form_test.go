package form

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

const build = `{"type":"object","required":["target"],"properties":{
	"target":{"type":"string","title":"Target","enum":["debug","release"]},
	"jobs":{"type":"integer","minimum":1,"maximum":8},
	"clean":{"type":"boolean"}}}`

func TestCheck_ReportsEachField(t *testing.T) {
	for name, c := range map[string]struct{ schema, content, want string }{
		"all of it":                  {build, `{"target":"debug","jobs":2,"clean":true}`, ""},
		"only required fields":       {build, `{"target":"release"}`, ""},
		"an unknown field":           {build, `{"target":"release","more":[1]}`, ""},
		"a field is missing":         {build, `{}`, `the field "target" is required: expected one of "debug", "release"`},
		"no option":                  {build, `{"target":"fast"}`, `the field "target" does not fit: expected one of "debug", "release"`},
		"null is no value":           {build, `{"target":null}`, `the field "target" does not fit: expected one of "debug", "release"`},
		"too many":                   {build, `{"target":"debug","jobs":9}`, `the field "jobs" does not fit: expected a whole number of at least 1 and at most 8`},
		"a text in place of a no":    {build, `{"target":"debug","clean":"no"}`, `the field "clean" does not fit: expected true or false`},
		"a list":                     {build, `[]`, "the content is not a JSON object"},
		"nothing":                    {build, ``, "the content is not a JSON object"},
		"a name twice":               {build, `{"target":"debug","target":"fast"}`, "the content cannot be read"},
		"cut off":                    {build, `{"target":"debug"`, "the content cannot be read"},
		"a schema of nothing":        {`{"type":"object"}`, `{"a":1}`, ""},
		"no schema":                  {``, `{"a":1}`, ""},
		"an invalid schema":          {`{"properties":7,"required":"x"}`, `{"a":1}`, ""},
		"a field that cannot be had": {`{"properties":{},"required":["x"]}`, `{}`, ""},
		"a name of the agent's":      {`{"properties":{"\u001b[2J":{"type":"boolean"}}}`, `{"\u001b[2J":1}`, `the field "\x1b[2J" does not fit: expected true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Parse([]byte(c.schema)).Check([]byte(c.content)); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCheck_ValueFitsProperty(t *testing.T) {
	for property, c := range map[string]struct{ fit, misfit, want string }{
		`{"type":"string"}`:                                                                     {`"" "x"`, `1 null ["x"] {}`, "a text"},
		`{"type":"string","minLength":2,"maxLength":3}`:                                         {`"日本" "abc"`, `"日" "abcd"`, "a text of at least 2 and at most 3 characters"},
		`{"type":"string","pattern":"^[a-z]+$"}`:                                                {`"abc"`, `"aBc" ""`, `a text that matches the pattern "^[a-z]+$"`},
		`{"type":"string","pattern":"(?=x)y"}`:                                                  {`"a"`, ``, ""},
		`{"type":"string","format":"email"}`:                                                    {`"a@b" "zoe@example.org"`, `"a" "a@" "Zoë<a@b>"`, "an e-mail address"},
		`{"type":"string","format":"uri"}`:                                                      {`"https://a/b" "urn:x"`, `"a/b" ":" "%"`, "a URI"},
		`{"type":"string","format":"date"}`:                                                     {`"2024-02-29"`, `"2023-02-29" "x"`, "a date (2006-01-02)"},
		`{"type":"string","format":"date-time"}`:                                                {`"2024-02-29T10:00:00Z" "2024-02-29t10:00:00.5+01:00"`, `"2024-02-29"`, "a date and time"},
		`{"type":"string","format":"password"}`:                                                 {`"x"`, ``, ""},
		`{"type":"string","oneOf":[{"const":"a"}]}`:                                             {`"a"`, `"b"`, `one of "a"`},
		`{"type":"string","oneOf":[{"const":"a"},{}]}`:                                          {`"a" "b"`, ``, ""},
		`{"type":"number","minimum":-1.5}`:                                                      {`-1.5 0 1e3 1e400`, `-2 "0"`, "a number of at least -1.5"},
		`{"type":"integer"}`:                                                                    {`1 1.0 -3 1e3`, `1.5 1e400 "1"`, "a whole number"},
		`{"type":"boolean"}`:                                                                    {`true false`, `0 "true" null`, "true or false"},
		`{"type":"array","items":{"enum":["x","y"]}}`:                                           {`[] ["x"] ["x","y"]`, `["z"] [1] "x" {}`, `a list, each one of "x", "y"`},
		`{"type":"array","items":{"anyOf":[{"const":"x"}]}}`:                                    {`["x"]`, `["y"]`, "a list"},
		`{"type":"array","items":{"type":"string","enum":["x","y"]},"minItems":1,"maxItems":1}`: {`["x"]`, `[] ["x","y"]`, "a list of at least 1 and at most 1 items"},
		`{"type":"array","items":{"type":"string"}}`:                                            {`["any"]`, `[1]`, "a list, each a text"},
		`{"type":"array"}`:                                                                      {`["any",1]`, `1`, "a list"},
		`{"type":"object"}`:                                                                     {`{} 1`, ``, ""},
		`{"type":["string","null"],"minLength":3}`:                                              {`"" null`, ``, ""},
		`{"type":"string","minLength":"3","maxLength":null,"enum":7,"pattern":7,"format":{}}`:   {`"x"`, `1`, "a text"},
		`{"type":7}`: {`1`, ``, ""},
		`7`:          {`1`, ``, ""},
	} {
		for _, v := range strings.Fields(c.fit) {
			if err := fits(property, v); err != nil {
				t.Errorf("%s refuses %s: %v", property, v, err)
			}
		}
		for _, v := range strings.Fields(c.misfit) {
			var m *ValidationError
			if err := fits(property, v); !errors.As(err, &m) || !strings.HasPrefix(m.Want, c.want) {
				t.Errorf("%s of %s: got %v, want that %s is expected", v, property, err, c.want)
			}
		}
	}
}

func TestCheck_ErrorHidesValue(t *testing.T) {
	err := Parse([]byte(`{"properties":{"code":{"type":"string","maxLength":3}}}`)).Check([]byte(`{"code":"hunter2"}`))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestCheck_HostileSchemaIsCheap(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf(`"f%d":{"type":"string","pattern":"(a|aa)+$"}`, i))
	}
	var content []string
	for i := range 300 {
		content = append(content, fmt.Sprintf(`"f%d":%q`, i, text[:3000]))
	}
	long := strings.Repeat(`"x",`, 1<<17)
	for name, c := range map[string]struct{ schema, content string }{
		"repetitions of repetitions": {`{"properties":{"a":{"type":"string","pattern":"((((a{1,10}){1,10}){1,10})b?)*$"}}}`, `{"a":"` + text + `"}`},
		"a pattern over a long text": {`{"properties":{"a":{"type":"string","pattern":"(x+x+)+y"}}}`, `{"a":"` + text + `"}`},
		"many patterns":              {`{"properties":{` + strings.Join(many, ",") + `}}`, `{` + strings.Join(content, ",") + `}`},
		"many options, many chosen":  {`{"properties":{"a":{"type":"array","items":{"enum":[` + long + `"y"]}}}}`, `{"a":[` + long + `"y"]}`},
		"deep":                       {strings.Repeat(`{"properties":`, 9000), `{"a":1}`},
		"over what is read":          {`{"properties":{"a":{"type":"boolean","title":"` + text + `"}}}`, `{"a":7}`},
	} {
		testkit.TakesAtMost(t, 20*time.Second, name, func() { // without bounds it is minutes
			if err := Parse([]byte(c.schema)).Check([]byte(c.content)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	var m *ValidationError
	err := Parse([]byte(`{"properties":{"a":{"type":"string","enum":[` + long + `"` + text[:1<<10] + `"]}}}`)).Check([]byte(`{"a":"b"}`))
	if !errors.As(err, &m) || len(err.Error()) > 4<<10 {
		t.Errorf("the error has %d bytes", len(fmt.Sprint(err)))
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(build, `{"target":"debug","jobs":2}`)
	f.Add(`{"properties":{"a":{"type":"string","pattern":"(a{9}){9}"}},"required":["a"]}`, `{"a":"aaa"}`)
	f.Fuzz(func(t *testing.T, schema, content string) {
		if err := Parse([]byte(schema)).Check([]byte(content)); err != nil {
			for _, r := range err.Error() {
				if r < 0x20 {
					t.Fatalf("the error holds %U: %q", r, err)
				}
			}
		}
	})
}

// fits checks a value against the property of a form that has just that.
func fits(property, value string) error {
	return Parse([]byte(`{"properties":{"a":` + property + `}}`)).Check([]byte(`{"a":` + value + `}`))
}
