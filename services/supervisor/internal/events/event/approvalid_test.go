package event

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

func TestApprovalID_IsUniquePerRequest(t *testing.T) {
	seen := map[string]string{}
	for id, want := range map[string]string{
		`7`: "a/7", `"7"`: `a/"7"`, `"7e1"`: `a/"7e1"`, `-1`: "a/-1", `null`: "a/null", `"null"`: `a/"null"`, `"true"`: "a/true", `""`: `a/""`,
		`"3f2504e0-4f89"`: "a/3f2504e0-4f89", `"a/b"`: "a/a/b", `"a b"`: `a/"a b"`, `"\"7\""`: `a/"\"7\""`, `"a\nb"`: `a/"a\u{a}b"`,
		`"\u202e"`: `a/"\u{202e}"`, "\"\xff\"": `a/"\xff"`, `"~"`: `a/"\u{7e}"`,
	} {
		got := approvalID("a", jsonrpc.CanonicalID([]byte(id)))
		if got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s are both %s", id, other, got)
		}
		seen[got] = id
	}
	for a, b := range map[string]string{`7`: `7.0`, `"ab"`: `"\u0061b"`, `100`: `1e2`} {
		if approvalID("a", jsonrpc.CanonicalID([]byte(a))) != approvalID("a", jsonrpc.CanonicalID([]byte(b))) {
			t.Errorf("%s and %s mean the same", a, b)
		}
	}
	long := strings.Repeat("x", 1000)
	one, two := approvalID("a", jsonrpc.CanonicalID([]byte(`"`+long+`1"`))), approvalID("a", jsonrpc.CanonicalID([]byte(`"`+long+`2"`)))
	if one == two || len(one) != len("a/")+maxApprovalID {
		t.Errorf("long ids: %s, %s", one, two)
	}
}

func TestApprovalID_ShowsRequestIDAsJSON(t *testing.T) {
	for id, want := range map[string]string{`7`: `7`, `"7"`: `"7"`, `"true"`: `"true"`, `"q"`: `"q"`, `null`: `null`} {
		w := newFolded(t)
		w.pass(frame.AgentToClient, "", asks(id, "session/request_permission", `{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}`))
		if got := w.show().GetPendingRequests(); len(got) != 1 || got[0].GetId() != want {
			t.Errorf("%s is shown as %v", id, got)
		}
	}
}

func TestAnswerID_ExtendsHandle(t *testing.T) {
	for _, handle := range []string{"a/7", "a/x.y", "a/" + strings.Repeat("A", 26), "a/x." + strings.Repeat("A", 26)} {
		one, two := AnswerID(handle), AnswerID(handle)
		if one == two || !strings.HasPrefix(one, handle) || len(one) < len(handle)+26 {
			t.Errorf("%s is answered by %s and %s", handle, one, two)
		}
		if got := Handle(one); got != handle {
			t.Errorf("the handle of %s is %s, want %s", one, got, handle)
		}
	}
	for _, handle := range []string{"a/7", "a/7~2", "a/x.y", ""} {
		if got := Handle(handle); got != handle {
			t.Errorf("the handle of %s is %s", handle, got)
		}
	}
}
