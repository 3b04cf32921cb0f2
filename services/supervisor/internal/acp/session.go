package acp

import (
	"fmt"
	"path/filepath"
)

// Opening is what the path needs of a request that opens a session: session/new, session/load, session/resume or
// session/fork.
type Opening struct {
	// SessionID is the session that is loaded, resumed or forked; empty for session/new.
	SessionID string
	// Cwd is the session's working directory, as sent.
	Cwd string
	// AdditionalDirectories are the session's further roots.
	AdditionalDirectories []string
}

// ParseOpening reads the params of a request that opens a session. It fails if cwd or a directory is not an absolute
// path, since such a session could have no roots.
func ParseOpening(params []byte) (Opening, error) {
	var o Opening
	o.SessionID, _ = Exact(Get(params, "sessionId"))
	o.Cwd, _ = Exact(Get(params, "cwd"))
	o.AdditionalDirectories, _ = Strings(Get(params, "additionalDirectories"))
	if o.Cwd != "" && !filepath.IsAbs(o.Cwd) {
		return o, fmt.Errorf("cwd %q is not an absolute path", o.Cwd)
	}
	for _, d := range o.AdditionalDirectories {
		if !filepath.IsAbs(d) {
			return o, fmt.Errorf("additional directory %q is not an absolute path", d)
		}
	}
	return o, nil
}

// Opened is what the path needs of the answer to such a request.
type Opened struct {
	// SessionID is the new session's id; empty for session/load and session/resume.
	SessionID string
	// Mode is the current mode's id, empty if the agent has none. An agent that has an option for it says it there.
	Mode string
}

// ParseOpened reads the result of a request that opens a session.
func ParseOpened(result []byte) Opened {
	var o Opened
	o.SessionID, _ = Exact(Get(result, "sessionId"))
	o.Mode, _ = Exact(Get(result, "modes", "currentModeId"))
	if mode := OptionMode(result); mode != "" {
		o.Mode = mode
	}
	return o
}

// OptionMode is the mode that a session's options say it is in: the value of the option whose category is "mode" (or, if
// it has no category, whose id is). obj is what has the options as its configOptions: an update, or the answer to a
// request that sets one or opens a session. It is empty if they say nothing of it.
func OptionMode(obj []byte) (mode string) {
	_ = Elements(Get(obj, "configOptions"), func(o []byte) bool {
		category, ok := Exact(Get(o, "category"))
		if !ok {
			if category, ok = Exact(Get(o, "id")); !ok {
				category, _ = Exact(Get(o, "configId")) // ACP v2
			}
		}
		if category == "mode" {
			mode, _ = Exact(Get(o, "currentValue"))
		}
		return mode == ""
	})
	return mode
}

// ModeOf is the mode that an update of the kind current_mode_update tells, and whether it tells one.
func ModeOf(update []byte) (mode string, ok bool) {
	if mode, ok = Exact(Get(update, "currentModeId")); !ok {
		mode, ok = Exact(Get(update, "modeId"))
	}
	return mode, ok
}

// PromptAccepted reports whether the answer to a prompt says that its turn goes on, as in ACP v2: the turn ends when the
// session is idle (see Idle). version is the one that the agent speaks; in drafts of version 2 the answer is empty.
func PromptAccepted(result []byte, version int) bool {
	_, stopped := String(Get(result, "stopReason"))
	_, accepted := String(Get(result, "messageId"))
	return (accepted || version >= 2) && !stopped
}

// Idle reports whether an update of the kind state_update says that its session is idle.
func Idle(update []byte) bool {
	state, _ := String(Get(update, "state"))
	return state == "idle"
}

// EndTurnReason is the stop reason of a turn whose end the agent tells by session/end_turn; empty: it ended with an error.
func EndTurnReason(params []byte) string {
	reason, ok := String(Get(params, "stopReason"))
	if !ok {
		reason, _ = String(Get(params, "reason"))
	}
	switch reason {
	case "", "complete", "completed":
		return "end_turn"
	case "error":
		return ""
	}
	return reason
}

// ParseCancelRequest returns the raw id that a $/cancel_request names, nil if it names none. Some peers name it as the
// Language Server Protocol does.
func ParseCancelRequest(params []byte) []byte {
	if id := Get(params, "requestId"); id != nil {
		return id
	}
	return Get(params, "id")
}

// TraceContext returns the W3C trace context in params._meta, empty strings where there is none.
func TraceContext(params []byte) (traceparent, tracestate string) {
	meta := Get(params, "_meta")
	traceparent, _ = Exact(Get(meta, "traceparent"))
	tracestate, _ = Exact(Get(meta, "tracestate"))
	return traceparent, tracestate
}
