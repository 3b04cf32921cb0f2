package headless_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestPrompt_FailsOnDeniedCallsOfChildSessions(t *testing.T) {
	t.Parallel()
	const (
		options = `,"options":[{"optionId":"a","name":"Allow","kind":"allow_once"},{"optionId":"r","name":"Reject","kind":"reject_once"}]`
		edits   = `"toolCall":{"toolCallId":"1","title":"Edit a.txt","kind":"edit","locations":[{"path":%q}]}` + options
		removes = `"toolCall":{"toolCallId":"1","title":"Remove a.txt","kind":"execute","rawInput":{"command":"rm %s"}}` + options
	)
	denied := func(e *supervisorv1.Event) bool {
		return e.GetNotice().GetFromAcphost() && e.GetNotice().GetTitle() == "An action of the agent was denied"
	}
	unanswered := func(e *supervisorv1.Event) bool { return e.GetQuestionAnswered().GetAnsweredBy() == "nobody" }
	for name, c := range map[string]struct {
		method, params, policy string
		want                   int
		says                   string
		event                  func(*supervisorv1.Event) bool
	}{
		"file":                {"fs/write_text_file", `"path":%q,"content":"x"`, "readonly", 8, "1 action denied: write ", denied},
		"file with parent":    {"fs/write_text_file", `"path":%q,"content":"x","_meta":{"parentSessionId":"s1"}`, "readonly", 8, "1 action denied: write ", denied},
		"terminal":            {"terminal/create", `"command":"touch","args":[%q]`, "readonly", 8, "1 action denied: run touch ", denied},
		"permission by rule":  {"session/request_permission", edits, "readonly", 8, "1 action denied: edit ", denied},
		"permission, no user": {"session/request_permission", removes, "workspace", 8, "no user was here to answer 1 question: $ rm ", unanswered},
		"allowed file":        {"fs/write_text_file", `"path":%q,"content":"x"`, "workspace", 0, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			file := p.Path("a.txt")
			prompt := []string{"prompt", "--policy", c.policy, "--fail-on-denied", "--json", "continue", "--"}
			status, out, errs := p.Cli(t, append(prompt, e2e.Role("subagent", c.method, fmt.Sprintf(c.params, file))...)...)
			if status != c.want {
				t.Errorf("the exit status is %d, want %d\n%s\n%s", status, c.want, out, errs)
			}
			if e2e.ExpectContains(t, "standard error", errs, c.says); c.want == 0 && errs != "" {
				t.Errorf("standard error is %q, want nothing", errs)
			}
			if _, err := os.Stat(file); (err == nil) != (c.want == 0) {
				t.Errorf("the file that the child session writes exists: %v", err == nil)
			}
			events := 0
			for line := range strings.Lines(out) {
				e := &supervisorv1.Event{}
				if err := protojson.Unmarshal([]byte(line), e); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if e.GetSessionId() != "s1" {
					t.Errorf("an event is of the session %q, want the parent's: %s", e.GetSessionId(), line)
				}
				if c.event != nil && c.event(e) {
					events++
				}
			}
			if want := min(c.want, 1); events != want {
				t.Errorf("%d events report the denial, want %d:\n%s", events, want, out)
			}
		})
	}
}
