package acp

import "testing"

func TestOptionKind_ContradictionIsUnknown(t *testing.T) {
	for _, tt := range []struct{ id, name, kind, want string }{
		{"reject", "Reject", AllowOnce, ""},
		{"reject", "Reject", AllowAlways, ""},
		{"reject_once", "Yes", AllowOnce, ""},
		{"rejectOnce", "", AllowOnce, ""},
		{"a", "No", AllowOnce, ""},
		{"a", "❌ Please reject this", AllowOnce, ""},
		{"a", "re\u200bject", AllowOnce, ""},
		{"a", "RE\u3164JECT", AllowAlways, ""},
		{"a", "Don't do it", AllowOnce, ""},
		{"a", "Do not allow", AllowOnce, ""},
		{"a", "Nein", AllowOnce, ""},
		{"a", "Ablehnen", AllowOnce, ""},
		{"a", "Refuser", AllowOnce, ""},
		{"a", "Отклонить", AllowOnce, ""},
		{"a", "拒绝", AllowOnce, ""},
		{"a", "1. 拒否する", AllowOnce, ""},
		{"a", "거부", AllowOnce, ""},
		{"a", "رفض", AllowOnce, ""},
		{"a", "Allow", RejectOnce, ""},
		{"a", "Yes, proceed", RejectAlways, ""},

		{"allow", "Allow", AllowOnce, AllowOnce},
		{"y", "", AllowOnce, AllowOnce},
		{"proceed_once", "Submit", AllowOnce, AllowOnce},
		{"accept_execpolicy_amendment", "Yes, and don't ask again for commands that start with `git log`", AllowAlways, AllowAlways},
		{"proceed_once_and_switch_to_default", "Switch to Default Mode and allow once (recommended)", AllowOnce, AllowOnce},
		{"exit-plan-default", "Yes, manually approve edits", AllowOnce, AllowOnce},
		{"abort", "No, and tell Codex what to do differently", RejectOnce, RejectOnce},
		{"never", "Never", RejectAlways, RejectAlways},
		{"cancel", "Don't allow", RejectOnce, RejectOnce},
		{"x", "Do not", RejectOnce, RejectOnce},
	} {
		if got := optionKind(tt.kind, tt.id, tt.name); got != tt.want {
			t.Errorf("id %q, name %q, kind %s: got %q, want %q", tt.id, tt.name, tt.kind, got, tt.want)
		}
	}
}
