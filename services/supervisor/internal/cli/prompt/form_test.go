package prompt

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
)

const everyField = `{"type":"object","title":"Build","properties":{
	"name":{"type":"string","title":"Name","description":"What it is called","minLength":2,"maxLength":8},
	"mail":{"type":"string","format":"email"},
	"jobs":{"type":"integer","minimum":1,"maximum":16,"default":4},
	"load":{"type":"number","maximum":1.5},
	"clean":{"type":"boolean","default":false},
	"target":{"type":"string","oneOf":[{"const":"d","title":"Debug"},{"const":"r","title":"Release\u202e"}]},
	"mode":{"type":"string","enum":["fast","slow"],"default":"slow"},
	"tags":{"type":"array","items":{"anyOf":[{"const":"x","title":"Ex"},{"const":"y","title":"Why"},{"const":"z","title":"Zed"}]},"minItems":1,"maxItems":2}
},"required":["name","tags"]}`

// fill presses keys of a form, and returns the printed text and the answer.
func fill(d dialog, text string) (output string, answer *supervisorv1.AnswerApprovalRequest) {
	k := &fakeKeyboard{keys: make(chan key), closed: make(chan struct{})}
	go func() {
		k.press(text)
		close(k.keys)
	}()
	for pressed := range k.keys {
		s, a := d.key(pressed)
		output += s
		if a != nil {
			answer = a
			k.Close()
		}
		_ = d.line()
	}
	return output, answer
}

func TestForm_IsFilledFieldByField(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"all": {
			"\n" + "Zoë\n" + "a@b\n" + "8\n" + "0.5\n" + "y\n" + "2\n" + "1\n" + "1, 3\n" + "\n",
			`{"name":"Zoë","mail":"a@b","jobs":8,"load":0.5,"clean":true,"target":"r","mode":"fast","tags":["x","z"]}`,
		},
		"defaults": {"\n" + "ab\n" + "\n\n\n\n\n\n" + "why\n" + "\n", `{"name":"ab","jobs":4,"clean":false,"mode":"slow","tags":["y"]}`},
		"corrected": {
			"\n" + "\nx\n\x15xxxxxxxxxy\n\x7f\x7fok\x7f\x7f\n" + "\n" + "99\n\x15-\n\x150\n\x1516\n" + "2\n\x15inf\n\x151e-3\n" + "perhaps\n\x15no\n" + "9\n\x15debug\n" + "\n" + "1 2 3\n\x154\n\x152\n" + "\n",
			`{"name":"xxxxxxxx","jobs":16,"load":0.001,"clean":false,"target":"d","mode":"slow","tags":["y"]}`,
		},
		"begun again": {
			"\n" + "ab\n\x1b\n" + "cd\n" + "\n\n\n\n\n\n" + "3\n" + "\x1b" + "ef\n" + "\n\n\n\n\n\n" + "3\n" + "\n",
			`{"name":"ef","jobs":4,"clean":false,"mode":"slow","tags":["z"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDialog(&supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", RequestedSchema: everyField}}, nil)
			output, answer := fill(d, c.keys)
			if got := answer.GetAccept(); got != c.want {
				t.Errorf("got %s, want %s; it printed\n%s", got, c.want, output)
			}
			if strings.Contains(output, "\u202e") || !strings.Contains(output, "[2] Release\\u{202e}") {
				t.Errorf("it printed\n%s", output)
			}
		})
	}
}

func TestForm_IsDeclined(t *testing.T) {
	form := &supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", RequestedSchema: everyField}}
	for _, keys := range []string{"d", "\nab\x1bd", "\nab\n\n\n\n\n\n\n1\nd"} {
		if _, answer := fill(newDialog(form, nil), keys); !answer.GetDecline() {
			t.Errorf("%q answers %v", keys, answer)
		}
	}
}

func TestForm_InvalidSchemaIsOnlyDeclined(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                                      "cannot be read",
		`{"properties":[]}`:                      "no properties that can be read",
		`{"properties":{"a":{"type":7}}}`:        `field "a" cannot be read`,
		`{"properties":{"a":{"type":"object"}}}`: `of a kind that acphost does not know: "object"`,
		`{"properties":{"a":{"type":"array","items":{"type":"string"}}}}`:                           "nothing to choose from",
		`{"properties":{"a\u001b":{"type":"object"}}}`:                                              `field "a\x1b"`,
		`{"properties":{` + strings.Repeat(`"a":{"type":"string"},`, 2) + `"b":{"type":"string"}}}`: "cannot be read", // names twice
	} {
		d := newDialog(&supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", RequestedSchema: schema}}, nil)
		if got := d.intro(); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", schema, got, want)
		}
		if _, answer := fill(d, "\n\n\x1ba"); answer != nil {
			t.Errorf("%s: answered %v", schema, answer)
		}
		if _, answer := fill(d, "d"); !answer.GetDecline() {
			t.Errorf("%s: it cannot be declined", schema)
		}
	}
}

func TestForm_EmptyIsSent(t *testing.T) {
	for _, schema := range []string{`{}`, `{"type":"object","properties":{}}`, `{"properties":null}`} {
		d := newDialog(&supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", RequestedSchema: schema}}, nil)
		if _, answer := fill(d, "\n\n"); answer.GetAccept() != "{}" {
			t.Errorf("%s: answered %v", schema, answer)
		}
	}
}

func TestForm_IgnoresInvalidDefault(t *testing.T) {
	for property, want := range map[string]string{
		`{"type":"string","default":7}`:                                   `{}`,
		`{"type":"string","default":"x"}`:                                 `{"a":"x"}`,
		`{"type":"string","enum":["y"],"default":"x"}`:                    `{}`,
		`{"type":"integer","default":"7"}`:                                `{}`,
		`{"type":"boolean","default":null}`:                               `{}`,
		`{"type":"array","items":{"enum":["x","y"]},"default":["y"]}`:     `{"a":["y"]}`,
		`{"type":"array","items":{"enum":["x","y"]},"default":["y","z"]}`: `{}`,
		`{"type":"array","items":{"enum":["x","y"]},"default":null}`:      `{}`,
		`{"type":"string","pattern":"^[a-z]+$","default":"X"}`:            `{}`,
		`{"type":"integer","maximum":8,"default":9}`:                      `{}`,
	} {
		d := newDialog(&supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{
			Mode: "form", RequestedSchema: `{"properties":{"a":` + property + `}}`}}, nil)
		if _, answer := fill(d, "\n\n\n"); answer.GetAccept() != want {
			t.Errorf("%s: %s, want %s", property, answer.GetAccept(), want)
		}
	}
}

func TestForm_ChecksValues(t *testing.T) {
	const schema = `{"properties":{"name":{"type":"string","pattern":"^[a-z]+$"},"mail":{"type":"string","format":"email"},"day":{"type":"string","format":"date"}}}`
	d := newDialog(&supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", RequestedSchema: schema}}, nil)
	output, answer := fill(d, "\n"+"Zoë\n\x15zoe\n"+"zoe\n\x15z@e\n"+"today\n\x152024-02-29\n"+"\n")
	const want = `{"name":"zoe","mail":"z@e","day":"2024-02-29"}`
	if answer.GetAccept() != want || form.Parse([]byte(schema)).Check([]byte(want)) != nil {
		t.Errorf("got %s, want %s", answer.GetAccept(), want)
	}
	for _, words := range []string{`expected a text that matches the pattern "^[a-z]+$"`, "expected an e-mail address", "expected a date"} {
		if !strings.Contains(output, words) {
			t.Errorf("it does not contain %q:\n%s", words, output)
		}
	}
}

func FuzzForm(f *testing.F) {
	f.Add(everyField, "\nab\n\n\n\n\n\n\n1\n\n")
	f.Add(`{"properties":{"a":{"type":"string","default":7}}}`, "\n\n\n")
	f.Fuzz(func(t *testing.T, schema, keys string) {
		if len(schema) > 4<<10 || len(keys) > 512 {
			return
		}
		d := newDialog(&supervisorv1.Approval{Elicitation: &supervisorv1.Elicitation{Mode: "form", RequestedSchema: schema}}, nil)
		_, answer := fill(d, keys)
		if a, ok := answer.GetAnswer().(*supervisorv1.AnswerApprovalRequest_Accept); ok && (!jsontext.Value(a.Accept).IsValid() || form.Parse([]byte(schema)).Check([]byte(a.Accept)) != nil) {
			t.Errorf("the content is not what the supervisor takes: %s", a.Accept)
		}
		for _, r := range d.line() + d.intro() {
			if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f { // a tab is what was typed
				t.Fatalf("a line holds %U", r)
			}
		}
	})
}
