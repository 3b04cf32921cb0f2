package acp

import (
	"encoding/json"
)

// Subagents are not in ACP yet, and agents tell of their sessions in several ways: the parent's session/update names the child
// (as the draft of subagents has it), or a message of the child names the parent, in a member of its own or within "_meta".

var (
	childNames  = []string{"subagentSessionId", "childSessionId", "subagent_session_id", "child_session_id"}
	parentNames = []string{"parentSessionId", "parent_session_id", "parentSessionID"}
)

// ChildSession is the child session that a message of its parent names in its params; empty: it names none.
func ChildSession(params []byte) string { return namedSession(params, childNames) }

// ParentSession is the parent that a message of a child session names in its params; empty: it names none.
func ParentSession(params []byte) string { return namedSession(params, parentNames) }

// namedSession looks for a member with one of the names in params, in what these are about, and within the "_meta" of both,
// where agents have objects of their own.
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
