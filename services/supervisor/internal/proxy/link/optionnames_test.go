package link

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestNamedByKind_NamesMeaningOfAnswer(t *testing.T) {
	for name, tt := range map[string]struct{ options, want string }{
		"plain names stay":         {`[{"optionId":"a","kind":"allow_once","name":"Allow"},{"optionId":"b","kind":"reject_once","name":"Reject"}]`, ""},
		"in other words":           {`[{"optionId":"a","kind":"allow_once","name":"Weiter"}]`, `[{"optionId":"a","kind":"allow_once","name":"Allow once: “Weiter”"}]`},
		"another kind's name":      {`[{"optionId":"a","kind":"allow_always","name":"Allow once"}]`, `[{"optionId":"a","kind":"allow_always","name":"Always allow: “Allow once”"}]`},
		"letters of other scripts": {`[{"optionId":"a","kind":"allow_once","name":"R\u0435ject"}]`, `[{"optionId":"a","kind":"allow_once","name":"Allow once: “Rеject”"}]`},
		"without a name":           {`[{"optionId":"a","kind":"reject_always"}]`, `[{"optionId":"a","kind":"reject_always","name":"Always reject"}]`},
		"a label beside a name":    {`[{"id":"a","kind":"allow_once","label":"Nope"}]`, ""},
		"a label":                  {`[{"id":"a","kind":"allow_once","label":"Go on"}]`, `[{"id":"a","kind":"allow_once","label":"Allow once: “Go on”","name":"Allow once: “Go on”"}]`},
		"no certain kind":          {`[{"optionId":"reject","kind":"allow_once","name":"Reject"},"allow",7]`, ""},
		"what shows nothing":       {`[{"optionId":"a","kind":"allow_once","name":"\u3164"}]`, `[{"optionId":"a","kind":"allow_once","name":"Allow once: “\\u{3164}”"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.options
			}
			if got := string(namedByKind([]byte(tt.options))); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestPermissionRequest_HasOwnNamesIfPolicyAsks(t *testing.T) {
	r := policyRig(t, permissionv1.Verdict_VERDICT_ASK, false)
	line := `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","kind":"allow_once","name":"Weiter"}],"_meta":{"n":1.50}}}`
	r.agent.send(line)
	r.client.want(strings.Replace(line, `"Weiter"`, `"Allow once: “Weiter”"`, 1))
	r.client.send(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
	r.agent.want(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
}
