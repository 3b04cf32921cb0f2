package yamlproto_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestUnmarshal_ReadsMessages(t *testing.T) {
	md := all(t)
	tests := map[string]struct{ yaml, json string }{
		"an empty file as nothing set":               {"", `{}`},
		"a file of comments as nothing set":          {"# nothing\n\n# here\n", `{}`},
		"a null document as nothing set":             {"---\n", `{}`},
		"a mapping without entries":                  {"{}", `{}`},
		"scalars of every kind":                      {"bool_field: true\nint32_field: -2147483648\nuint32_field: 4294967295\nint64_field: -9223372036854775808\nuint64_field: 18446744073709551615\nfloat_field: 1.5\ndouble_field: 2\nstring_field: x\nbytes_field: AQI=\n", `{"boolField":true,"int32Field":-2147483648,"uint32Field":4294967295,"int64Field":"-9223372036854775808","uint64Field":"18446744073709551615","floatField":1.5,"doubleField":2,"stringField":"x","bytesField":"AQI="}`},
		"JSON names as well":                         {"boolField: true\nint32Field: 7", `{"boolField":true,"int32Field":7}`},
		"numbers in other bases":                     {"int32_field: 0x10\nuint32_field: 0o10\nint64_field: 0b11\nuint64_field: 1_000", `{"int32Field":16,"uint32Field":8,"int64Field":"3","uint64Field":"1000"}`},
		"infinity and not-a-number":                  {"float_field: .inf\ndouble_field: -.inf", `{"floatField":"Infinity","doubleField":"-Infinity"}`},
		"text in any quotes":                         {"strings:\n- \"1\"\n- 'true'\n- yes\n- |\n  a\n  b\n- >-\n  c\n  d\n", `{"strings":["1","true","yes","a\nb\n","c d"]}`},
		"text that looks like a date":                {"string_field: 2026-01-31", `{"stringField":"2026-01-31"}`},
		"text with an explicit tag":                  {"string_field: !!str 12", `{"stringField":"12"}`},
		"enum values by full, short and lower name":  {"children: [{verdict: VERDICT_ALLOW}, {verdict: DENY}, {verdict: deny}]", `{"children":[{"verdict":"VERDICT_ALLOW"},{"verdict":"VERDICT_DENY"},{"verdict":"VERDICT_DENY"}]}`},
		"an enum value that is spelled like no text": {"verdict: off", `{"verdict":"VERDICT_OFF"}`},
		"null as absent":                             {"string_field: null\nchild: ~\nstrings: null\nlabels: null\nmaybe: null\nint32_field: 1", `{"int32Field":1}`},
		"presence of an optional zero":               {"maybe: 0", `{"maybe":0}`},
		"a present and empty message":                {"child: {}", `{"child":{}}`},
		"maps by text, number and boolean":           {"labels: {a: b, \"1\": c}\nby_number: {-4: {maybe: 1}, 0x10: {}}\nflags: {true: allow, false: deny}", `{"labels":{"a":"b","1":"c"},"byNumber":{"-4":{"maybe":1},"16":{}},"flags":{"true":"VERDICT_ALLOW","false":"VERDICT_DENY"}}`},
		"one of a group":                             {"or: 0", `{"or":0}`},
		"one of a group, the other null":             {"either: null\nor: 3", `{"or":3}`},
		"aliases":                                    {"child: &c {string_field: x}\nchildren: [*c, *c]", `{"child":{"stringField":"x"},"children":[{"stringField":"x"},{"stringField":"x"}]}`},
		"a Struct":                                   {"settings: {a: 1, b: [x, true, null, 1.5], c: {d: {}}, d: 2026-01-31}", `{"settings":{"a":1,"b":["x",true,null,1.5],"c":{"d":{}},"d":"2026-01-31"}}`},
		"a null Value":                               {"value: null", `{"value":null}`},
		"durations in both spellings":                {"children: [{wait: 1.5s}, {wait: 2m30s}, {wait: 500ms}, {wait: -0.000000001s}, {wait: 315576000000s}]", `{"children":[{"wait":"1.5s"},{"wait":"150s"},{"wait":"0.5s"},{"wait":"-0.000000001s"},{"wait":"315576000000s"}]}`},
		"a time":                                     {"children: [{at: 2026-01-31T12:00:00Z}, {at: \"2026-01-31T12:00:00.5+02:00\"}]", `{"children":[{"at":"2026-01-31T12:00:00Z"},{"at":"2026-01-31T10:00:00.5Z"}]}`},
		"a wrapper and a mask":                       {"wrapped: 0\nmask: stringField,child.maybe", `{"wrapped":0,"mask":"stringField,child.maybe"}`},
		"numbers of a zigzag list":                   {"numbers:\n- 1\n- -1\n", `{"numbers":["1","-1"]}`},
		"a document with its markers":                {"---\nmaybe: 1\n...\n", `{"maybe":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, want := newAll(md), newAll(md)
			if err := protojson.Unmarshal([]byte(tt.json), want); err != nil {
				t.Fatalf("the test's own JSON: %v", err)
			}
			if err := yamlproto.Unmarshal("f.yaml", []byte(tt.yaml), got); err != nil {
				t.Fatalf("Unmarshal: %v", err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestUnmarshal_RejectsInvalid(t *testing.T) {
	md := all(t)
	deep := strings.Repeat("{child: ", 101) + "{}" + strings.Repeat("}", 101)
	laughs := "settings:\n  a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'j'; c++ {
		laughs += "  " + string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 10) + "]\n"
	}
	tests := map[string]struct{ yaml, want string }{
		"an unknown field near a known one": {"chld: {}", `f.yaml:1:1: chld: expected a known field, got "chld" (did you mean "child"?)`},
		"an unknown field in camel case":    {"child: {Int32-Field: 1}", `f.yaml:1:9: child.Int32-Field: expected a known field, got "Int32-Field" (did you mean "int32_field"?)`},
		"an unknown field near none":        {"\n\nzzzzzzzzzzzzzz: 1", `f.yaml:3:1: zzzzzzzzzzzzzz: expected one of bool_field, int32_field`},
		"a field twice":                     {"maybe: 1\nmaybe: 2", "f.yaml:2:1: maybe: expected each field once, got it again (first on line 1)"},
		"a field by both of its names":      {"bool_field: true\nboolField: true", "f.yaml:2:1: bool_field: expected each field once, got it again (first on line 1)"},
		"a map key twice":                   {"labels:\n  a: b\n  \"a\": c", "f.yaml:3:3: labels.a: expected each key once, got it again (first on line 2)"},
		"a number key twice in other bases": {"by_number: {16: {}, 0x10: {}}", `f.yaml:1:21: by_number["16"]: expected each key once`},
		"a Struct key twice":                {"settings: {a: 1, a: 2}", "f.yaml:1:18: settings.a: expected each key once"},
		"a number for a string":             {"string_field: 12", "f.yaml:1:15: string_field: expected a string, got the number 12 (write it in quotes if it is meant as text)"},
		"a boolean for a string":            {"strings: [a, true]", "f.yaml:1:14: strings[1]: expected a string, got the boolean true (write it in quotes"},
		"null in a list":                    {"strings: [a, null]", "f.yaml:1:14: strings[1]: expected a string, got null"},
		"null in a map":                     {"labels: {a: }", "f.yaml:1:13: labels.a: expected a string, got null"},
		"a string for a number":             {"int32_field: \"1\"", `f.yaml:1:14: int32_field: expected an integer, got "1"`},
		"a fraction for an integer":         {"int32_field: 1.5", "f.yaml:1:14: int32_field: expected an integer, got the number 1.5"},
		"a number over the range":           {"int32_field: 2147483648", "f.yaml:1:14: int32_field: expected an integer from -2147483648 to 2147483647, got 2147483648"},
		"a negative number for unsigned":    {"uint32_field: -1", "f.yaml:1:15: uint32_field: expected an integer from 0 to 4294967295, got -1"},
		"a number over 64 bits":             {"uint64_field: 18446744073709551616", "f.yaml:1:15: uint64_field: expected an integer, got the number 18446744073709551616"},
		"a float over the range":            {"float_field: 1e39", "f.yaml:1:14: float_field: expected a number in the range of a float, got 1e39"},
		"a leading zero":                    {"int32_field: 0644", "f.yaml:1:14: int32_field: expected a number without a leading zero, got 0644 (octal is written 0o644)"},
		"a word for a boolean":              {"bool_field: yes", `f.yaml:1:13: bool_field: expected true or false, got "yes"`},
		"a wrong enum value":                {"verdict: alow", `f.yaml:1:10: verdict: expected one of unspecified, allow, deny, off, got "alow" (did you mean "allow"?)`},
		"a number for an enum":              {"verdict: 1", `f.yaml:1:10: verdict: expected one of unspecified, allow, deny, off, got the number 1`},
		"a scalar for a list":               {"strings: a", `f.yaml:1:10: strings: expected a list of strings, got "a"`},
		"a list for a scalar":               {"string_field: [a]", "f.yaml:1:15: string_field: expected a string, got a list"},
		"a list for a message":              {"child: []", "f.yaml:1:8: child: expected a mapping, got a list"},
		"a list for a map":                  {"labels: []", "f.yaml:1:9: labels: expected a mapping, got a list"},
		"a mapping for an enum":             {"verdict: {}", "f.yaml:1:10: verdict: expected one of unspecified, allow, deny, off, got a mapping"},
		"a list as the document":            {"- a", "f.yaml:1:1: expected a mapping, got a list"},
		"bytes that are not base64":         {"bytes_field: \"*\"", `f.yaml:1:14: bytes_field: expected bytes in base64, got "*"`},
		"both of a group":                   {"either: a\nor: 1", "f.yaml:2:1: or: expected only one of the group choice, got this beside either"},
		"a wrong place deep down":           {"children:\n- {}\n- by_number:\n    7:\n      labels:\n        fs/read: 1\n", `f.yaml:6:18: children[1].by_number["7"].labels["fs/read"]: expected a string, got the number 1`},
		"a merge key":                       {"child: &c {}\nchildren:\n- <<: *c\n", `f.yaml:3:3: children[0]: expected a name as the key, got the merge key "<<"`},
		"a merge key in a map":              {"labels: {<<: {a: b}}", `f.yaml:1:10: labels: expected a name as the key, got the merge key "<<"`},
		"a merge key in a Struct":           {"settings: {<<: {a: b}}", `f.yaml:1:12: settings: expected a name as the key, got the merge key "<<"`},
		"a key that is no text":             {"1: a", "f.yaml:1:1: expected a name as the key, got the number 1"},
		"a key that is a list":              {"[a]: b", "f.yaml:1:1: expected a name as the key, got a list"},
		"a foreign tag":                     {"string_field: !secret x", `f.yaml:1:15: string_field: expected a plain value, got one with the tag "!secret"`},
		"two documents":                     {"maybe: 1\n---\nmaybe: 2\n", "f.yaml:2:1: expected one YAML document, got a second one"},
		"text that is not YAML":             {"child: {\n", "f.yaml:"},
		"an unknown anchor":                 {"child: *nope", "f.yaml:1:1: expected YAML: unknown anchor 'nope' referenced"},
		"a tab for indentation":             {"child:\n\tmaybe: 1\n", "f.yaml:2:1: expected spaces at the beginning of the line, got a tab: YAML indents with spaces alone"},
		"bytes that are not UTF-8":          {"maybe: 1\nx\xff: 1", "f.yaml:2:2: expected text in UTF-8, got other bytes"},
		"a name without a value":            {"child:\n", "has no value: write one, or remove the line"},
		"too deep a nesting":                {deep, "expected at most 100 levels of nesting, got more"},
		"an alias of itself":                {"settings: &s {a: *s}", "expected at most 100 levels of nesting, got more"},
		"a billion laughs":                  {laughs, "expected at most 10000 values by way of aliases, got more"},
		"a bad duration":                    {"wait: 5", `f.yaml:1:7: wait: expected a duration like "1.5s" or "2m", got the number 5`},
		"a duration over the range":         {"wait: 315576000000.1s", `f.yaml:1:7: wait: expected a duration`},
		"a bad time":                        {"at: yesterday", `f.yaml:1:5: at: expected a time like "2026-01-31T12:00:00Z", got "yesterday"`},
		"a number that JSON lacks":          {"settings: {a: .nan}", "f.yaml:1:15: settings.a: expected a number that JSON has, got .nan"},
		"an integer that a double loses":    {"settings: {a: 9007199254740993}", "f.yaml:1:15: settings.a: expected an integer less than 2^53"},
		"an Any":                            {"any: {}", "f.yaml:1:6: any: expected nothing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			into := newAll(md)
			into.Set(md.Fields().ByName("string_field"), protoreflect.ValueOfString("kept"))
			before := proto.Clone(into)
			err := yamlproto.Unmarshal("f.yaml", []byte(tt.yaml), into)
			if err == nil {
				t.Fatalf("no error; want %q", tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("got %q; want it to begin with the file", err)
			}
			if _, ok := errors.AsType[*yamlproto.Error](err); !ok {
				t.Errorf("got a %T; want an *Error in it", err)
			}
			if !proto.Equal(into, before) {
				t.Errorf("the message was changed to %v", into)
			}
		})
	}
}

func TestUnmarshal_ReportsErrorsInOrder(t *testing.T) {
	data := "version: x\nrules:\n- id: 1\n  pth: []\ndescription: 7\nversion: 1\n"
	err := yamlproto.Unmarshal("p.yaml", []byte(data), new(permissionv1.Policy))
	want := `p.yaml:1:10: version: expected an integer, got "x"
p.yaml:3:7: rules[0].id: expected a string, got the number 1 (write it in quotes if it is meant as text)
p.yaml:4:3: rules[0].pth: expected a known field, got "pth" (did you mean "path"?)
p.yaml:5:14: description: expected a string, got the number 7 (write it in quotes if it is meant as text)
p.yaml:6:1: version: expected each field once, got it again (first on line 1)`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestUnmarshal_ReportsAtMostFiftyErrors(t *testing.T) {
	err := yamlproto.Unmarshal("p.yaml", []byte("rules:\n"+strings.Repeat("- x\n", 1000)), new(permissionv1.Policy))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 51 || !strings.Contains(lines[50], "more than 50 errors") {
		t.Errorf("got %d lines, the last of them %q; want 51 and a word on the rest", len(lines), lines[len(lines)-1])
	}
}

func TestUnmarshal_ReplacesMessage(t *testing.T) {
	into := &permissionv1.Policy{Version: 7, Rules: []*permissionv1.Rule{{Id: "old"}}}
	if err := yamlproto.Unmarshal("p.yaml", []byte("version: 1"), into); err != nil {
		t.Fatal(err)
	}
	if want := (&permissionv1.Policy{Version: 1}); !proto.Equal(into, want) {
		t.Errorf("got %v, want %v", into, want)
	}
}

func TestParse_RejectsLargeFile(t *testing.T) {
	_, err := yamlproto.Parse("big.yaml", []byte(strings.Repeat("#", 16<<20+1)))
	if err == nil || !strings.Contains(err.Error(), "big.yaml:1:1: expected at most 16777216 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestErrorf_PointsAtField(t *testing.T) {
	const data = `version: 1
deny:
- id: a
  path:
  - /x
  - "/y"
- {id: b, notGrantable: true}
settings: &s
  fs/*: handler
  plain: x
again: *s
`
	doc, err := yamlproto.Parse("p.yaml", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"version":                    "1:10",
		"deny":                       "3:1",
		"deny[0]":                    "3:3",
		"deny[0].path":               "5:3",
		"deny[0].path[1]":            "6:5",
		"deny[0].path[9]":            "5:3",
		"deny[0].reason":             "3:3",
		"deny[1].not_grantable":      "7:25",
		"deny[7].id":                 "3:1",
		`settings["fs/*"]`:           "9:9",
		`settings["plain"]`:          "10:10",
		"settings.plain":             "10:10",
		"again":                      "11:8",
		`again["fs/*"]`:              "9:9",
		"nowhere":                    "1:1",
		"":                           "1:1",
		"deny[":                      "3:1",
		"deny[-1]":                   "3:1",
		"deny[99999999999999999999]": "3:1",
		"..":                         "1:1",
	}
	for field, want := range tests {
		got := doc.Errorf(field, "no %s", "good").Error()
		sep := ": "
		if field != "" {
			sep = ": " + field + ": "
		}
		if got != "p.yaml:"+want+sep+"no good" {
			t.Errorf("%q: got %q, want it at %s", field, got, want)
		}
	}
	empty, err := yamlproto.Parse("e.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := empty.Errorf("deny[0]", "x").Error(), "e.yaml:1:1: deny[0]: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestErrorf_AgreesWithDecode(t *testing.T) {
	const data = "rules:\n- id: a\n  path:\n  - ok\n  - 5\n"
	doc, err := yamlproto.Parse("p.yaml", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	var e *yamlproto.Error
	if !errors.As(doc.Decode(new(permissionv1.Policy)), &e) {
		t.Fatal("no *Error")
	}
	if line, column := doc.Position(e.Field); line != e.Line || column != e.Column {
		t.Errorf("%s: Position returns %d:%d, Decode %d:%d", e.Field, line, column, e.Line, e.Column)
	}
}

func TestErrors_OfBothKindsAreReportedTogether(t *testing.T) {
	unread := errors.Join(
		&yamlproto.Error{File: "f", Line: 3, Column: 1, Field: "a.b[0].typo", Message: "unknown"},
		&yamlproto.Error{File: "f", Line: 9, Column: 1, Field: "typo", Message: "unknown"})
	mistake := func(line int, field string) error {
		return &yamlproto.Error{File: "f", Line: line, Column: 1, Field: field, Message: "wrong"}
	}
	err := yamlproto.Join(unread, []error{
		mistake(8, "z"), mistake(2, "a.b[0].missing"), mistake(2, "a.b[0]"), mistake(1, "a.b"), mistake(4, "a.b[01]"), mistake(5, "a.c"),
	})
	want := "f:1:1: a.b: wrong\nf:3:1: a.b[0].typo: unknown\nf:4:1: a.b[01]: wrong\nf:5:1: a.c: wrong\nf:8:1: z: wrong\nf:9:1: typo: unknown"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := yamlproto.Join(nil, nil); err != nil {
		t.Errorf("without mistakes: %v", err)
	}
}
