package chat

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/formschema"
)

const testSchema = `{"type":"object","properties":{
	"name":{"type":"string","title":"Name","minLength":2,"maxLength":5},
	"count":{"type":"integer","minimum":1,"maximum":9,"default":3},
	"ratio":{"type":"number"},
	"sure":{"type":"boolean","default":true},
	"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":1,"maxItems":2}
},"required":["name","size"]}`

func TestAFormIsFilledInFieldByField(t *testing.T) {
	f := newForm(testSchema)
	r := &supervisorv1.AnswerApprovalRequest{}
	press := func(keys string) bool {
		t.Helper()
		for k := range strings.FieldsSeq(keys) {
			if done, _ := f.key(pressed(k), r); done {
				return true
			}
		}
		return false
	}
	steps := []struct{ keys, wrong string }{
		{"enter", "it is needed"},
		{"x enter", "at least 2 characters"},
		{"y z space a b enter", "at most 5 characters"},
		{"backspace enter", ""},
		{"backspace x enter", "a number is needed"},
		{"backspace 9 9 enter", "at most 9"},
		{"backspace enter", ""},
		{"enter", ""}, // not required
		{"n enter", ""},
		{"enter", "choose one"},
		{"2 enter", ""},
		{"enter", "at least 1 chosen"},
		{"1 2 3 enter", "at most 2 chosen"},
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

func TestAFormCanBeLeft(t *testing.T) {
	for key, want := range map[string]func(*supervisorv1.AnswerApprovalRequest) bool{
		"esc":    (*supervisorv1.AnswerApprovalRequest).GetCancel,
		"ctrl+r": (*supervisorv1.AnswerApprovalRequest).GetDecline,
	} {
		r := &supervisorv1.AnswerApprovalRequest{}
		if done, _ := newForm(testSchema).key(pressed(key), r); !done || !want(r) {
			t.Errorf("%s: got %v", key, r)
		}
	}
}

func TestAFormThatCannotBeReadCanOnlyBeLeft(t *testing.T) {
	for _, schema := range []string{`{"properties":[]}`, `{`, `{"properties":{"a":{"type":["string","null"]}}}`, `{"properties":{"a":1}}`} {
		f := newForm(schema)
		if f.broken == "" {
			t.Errorf("%s is taken", schema)
			continue
		}
		if done, _ := f.key(pressed("enter"), &supervisorv1.AnswerApprovalRequest{}); done {
			t.Errorf("%s is sent", schema)
		}
	}
}

func TestAFormWithoutFieldsIsSentByEnter(t *testing.T) {
	r := &supervisorv1.AnswerApprovalRequest{}
	if done, _ := newForm(`{"type":"object","properties":{}}`).key(pressed("enter"), r); !done || r.GetAccept() != "{}" {
		t.Errorf("got %v", r)
	}
}

func TestAFormTakesOnlyWhatTheSupervisorWillTake(t *testing.T) {
	const schema = `{"properties":{"mail":{"type":"string","format":"email"},"word":{"type":"string","pattern":"^[a-z]+$"}},"required":["mail"]}`
	form, r := newForm(schema), &supervisorv1.AnswerApprovalRequest{}
	press := func(keys string) (done bool) {
		for _, k := range strings.Fields(keys) {
			done, _ = form.key(pressed(k), r)
		}
		return done
	}
	if press("z enter"); form.at != 0 || form.wrong != "expected an e-mail address" {
		t.Errorf("field %d: %q", form.at, form.wrong)
	}
	press("@ e enter")
	if press("7 enter"); form.at != 1 || form.wrong != `expected a text that matches the pattern "^[a-z]+$"` {
		t.Errorf("field %d: %q", form.at, form.wrong)
	}
	if !press("backspace w enter") || r.GetAccept() != `{"mail":"z@e","word":"w"}` {
		t.Errorf("the answer is %v", r)
	}
}

func FuzzForm(f *testing.F) {
	f.Add(testSchema, "enter a enter 1 enter y enter")
	f.Add(`{"properties":{"a":{"type":"string","pattern":"(a+)+$"}}}`, "a enter esc")
	f.Fuzz(func(t *testing.T, schema, keys string) {
		form := newForm(schema)
		m := &model{width: 40, height: 20}
		for i, k := range strings.Fields(keys) {
			if i > 100 || strings.HasSuffix(k, "+") {
				return
			}
			form.rows(m)
			r := &supervisorv1.AnswerApprovalRequest{}
			if done, _ := form.key(pressed(k), r); done {
				if a, ok := r.GetAnswer().(*supervisorv1.AnswerApprovalRequest_Accept); ok && formschema.Fits([]byte(schema), []byte(a.Accept)) != nil {
					t.Errorf("the supervisor does not take %s", a.Accept)
				}
				return
			}
		}
	})
}
