package chat

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/form"
)

const testSchema = `{"type":"object","properties":{
	"name":{"type":"string","title":"Name","minLength":2,"maxLength":5},
	"count":{"type":"integer","minimum":1,"maximum":9,"default":3},
	"ratio":{"type":"number"},
	"sure":{"type":"boolean","default":true},
	"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":1,"maxItems":2}
},"required":["name","size","tags"]}`

func TestForm_IsFilledFieldByField(t *testing.T) {
	f := newFormEditor(testSchema)
	var r *supervisorv1.AnswerApprovalRequest
	press := func(keys string) bool {
		t.Helper()
		for k := range strings.FieldsSeq(keys) {
			if r = f.key(pressed(k)); r != nil {
				return true
			}
		}
		return false
	}
	steps := []struct{ keys, wrong string }{
		{"enter", "it is required"},
		{"x enter", "expected a text of at least 2 and at most 5 characters"},
		{"y z space a b enter", "expected a text of at least 2 and at most 5 characters"},
		{"backspace enter", ""},
		{"backspace x enter", "expected a whole number of at least 1 and at most 9"},
		{"backspace 9 9 enter", "expected a whole number of at least 1 and at most 9"},
		{"backspace enter", ""},
		{"enter", ""}, // not required
		{"n enter", ""},
		{"enter", "it is required"},
		{"2 enter", ""},
		{"enter", "it is required"},
		{"1 2 3 enter", `expected a list of at least 1 and at most 2 items, each one of "a", "b", "c"`},
		{"shift+tab shift+tab y enter enter", ""},
	}
	for i, step := range steps {
		if press(step.keys) {
			t.Fatalf("step %d: the form is sent", i)
		}
		if f.wrong != step.wrong {
			t.Fatalf("step %d: %q is wrong, want %q", i, f.wrong, step.wrong)
		}
	}
	if !press("1 enter") {
		t.Fatalf("the form is not sent: field %d, %q", f.at, f.wrong)
	}
	want := `{"name":"xyz a","count":9,"sure":true,"size":"l","tags":["b","c"]}`
	if got := r.GetAccept(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestForm_OptionalListCanBeOmitted(t *testing.T) {
	const schema = `{"properties":{"tags":{"type":"array","items":{"enum":["a"]},"minItems":1}}}`
	if r := newFormEditor(schema).key(pressed("enter")); r.GetAccept() != "{}" {
		t.Errorf("got %v", r)
	}
}

func TestForm_CancelAndDecline(t *testing.T) {
	for key, want := range map[string]func(*supervisorv1.AnswerApprovalRequest) bool{
		"esc":    (*supervisorv1.AnswerApprovalRequest).GetCancel,
		"ctrl+r": (*supervisorv1.AnswerApprovalRequest).GetDecline,
	} {
		if r := newFormEditor(testSchema).key(pressed(key)); !want(r) {
			t.Errorf("%s: got %v", key, r)
		}
	}
}

func TestForm_InvalidSchemaIsNotSent(t *testing.T) {
	for _, schema := range []string{`{"properties":[]}`, `{`, `{"properties":{"a":{"type":["string","null"]}}}`, `{"properties":{"a":1}}`} {
		f := newFormEditor(schema)
		if f.form.Err() == nil {
			t.Errorf("%s is taken", schema)
			continue
		}
		if r := f.key(pressed("enter")); r != nil {
			t.Errorf("%s is sent", schema)
		}
	}
}

func TestForm_EmptyFormIsSentByEnter(t *testing.T) {
	if r := newFormEditor(`{"type":"object","properties":{}}`).key(pressed("enter")); r.GetAccept() != "{}" {
		t.Errorf("got %v", r)
	}
}

func TestForm_ChecksValues(t *testing.T) {
	const schema = `{"properties":{"mail":{"type":"string","format":"email"},"word":{"type":"string","pattern":"^[a-z]+$"}},"required":["mail"]}`
	f := newFormEditor(schema)
	var r *supervisorv1.AnswerApprovalRequest
	press := func(keys string) (done bool) {
		for _, k := range strings.Fields(keys) {
			r = f.key(pressed(k))
		}
		return r != nil
	}
	if press("z enter"); f.at != 0 || f.wrong != "expected an e-mail address" {
		t.Errorf("field %d: %q", f.at, f.wrong)
	}
	press("@ e enter")
	if press("7 enter"); f.at != 1 || f.wrong != `expected a text that matches the pattern "^[a-z]+$"` {
		t.Errorf("field %d: %q", f.at, f.wrong)
	}
	if !press("backspace w enter") || r.GetAccept() != `{"mail":"z@e","word":"w"}` {
		t.Errorf("the answer is %v", r)
	}
}

func FuzzForm(f *testing.F) {
	f.Add(testSchema, "enter a enter 1 enter y enter")
	f.Add(`{"properties":{"a":{"type":"string","pattern":"(a+)+$"}}}`, "a enter esc")
	f.Fuzz(func(t *testing.T, schema, keys string) {
		e := newFormEditor(schema)
		m := &model{width: 40, height: 20}
		for i, k := range strings.Fields(keys) {
			if i > 100 || strings.HasSuffix(k, "+") {
				return
			}
			e.rows(m)
			if r := e.key(pressed(k)); r != nil {
				if a, ok := r.GetAnswer().(*supervisorv1.AnswerApprovalRequest_Accept); ok && form.Parse([]byte(schema)).Check([]byte(a.Accept)) != nil {
					t.Errorf("the supervisor does not take %s", a.Accept)
				}
				return
			}
		}
	})
}
