package approval

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

func TestApproval_HidesSecrets(t *testing.T) {
	q := &question.Question{Method: acp.MethodRequestPermission, SessionID: "s", Reason: "no mysql -phush", Params: []byte(
		`{"sessionId":"s","toolCall":{"toolCallId":"t","title":"mysql -phush app","kind":"execute","rawInput":{"command":"sshpass -p hush ssh h","token":"hush"},` +
			`"content":[{"type":"content","content":{"type":"text","text":"curl -u me:hush https://h"}}]},"options":[{"optionId":"a","kind":"allow_always","name":"Always allow: mysql -phush app"}]}`)}
	a := approvalOf("agent", "1", q)
	text := prototext.Format(a)
	if strings.Contains(text, "hush") {
		t.Errorf("a secret is shown: %s", text)
	}
	for _, want := range []string{"mysql -p[redacted] app", "sshpass -p [redacted] ssh h", "curl -u me:[redacted] https://h"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown: %s", want, text)
		}
	}
	if !strings.Contains(string(q.Params), "hush") {
		t.Error("the question itself was changed")
	}
}

func TestApproval_ShowsFormFieldsForSecrets(t *testing.T) {
	const form = `{"sessionId":"s","mode":"form","message":"Log in","requestedSchema":{"type":"object","properties":{"password":{"type":"string","title":"Password"}}}}`
	if a := approvalOf("agent", "1", &question.Question{Method: acp.MethodElicitationCreate, SessionID: "s", Params: []byte(form)}); a.GetRaw() != form {
		t.Errorf("it is shown as %s", a.GetRaw())
	}
}
