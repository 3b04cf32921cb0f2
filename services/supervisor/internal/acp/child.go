package acp

import (
	"encoding/json"
)

// Subagents are not part of ACP yet, and agents report their sessions in several ways: the parent's session/update
// names the child (as in the draft about subagents), or a message of the child names the parent, in a member of its own
// or in "_meta".

var (
	childNames  = []string{"subagentSessionId", "childSessionId", "subagent_session_id", "child_session_id"}
	parentNames = []string{"parentSessionId", "parent_session_id", "parentSessionID"}
)

// ChildSession returns the child session that a message of its parent names in its params, or "".
func ChildSession(params []byte) string { return namedSession(params, childNames) }

// ParentSession returns the parent that a message of a child session names in its params, or "".
func ParentSession(params []byte) string { return namedSession(params, parentNames) }

// namedSession returns the value of a member with one of the names. It searches params, the object that these describe,
// and the "_meta" of both, where agents have objects of their own.
func namedSession(params []byte, names []string) string {
	for _, place := range [...][]string{nil, {"update"}, {"toolCall"}, {"subject"}} {
		obj := Get(params, place...)
		if obj == nil {
			continue
		}
		if id := memberOf(obj, names); id != "" {
			return id
		}
		meta := Get(obj, "_meta")
		if id := memberOf(meta, names); id != "" {
			return id
		}
		var own map[string]json.RawMessage
		if json.Unmarshal(meta, &own) != nil {
			continue
		}
		for _, part := range own {
			if id := memberOf(part, names); id != "" {
				return id
			}
		}
	}
	return ""
}

func memberOf(obj []byte, names []string) string {
	if len(obj) == 0 || obj[0] != '{' {
		return ""
	}
	for _, name := range names {
		if id, ok := Exact(Get(obj, name)); ok && id != "" {
			return id
		}
	}
	return ""
}
