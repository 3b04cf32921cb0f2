package acp

import (
	"fmt"
	"path/filepath"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
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
	o.Cwd, _ = Exact(CwdOf(params))
	if older, _ := Exact(Get(params, olderCwd)); older != "" && older != o.Cwd {
		return o, fmt.Errorf("cwd %q and %s %q are not the same folder: name the folder once", o.Cwd, olderCwd, older)
	}
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

// olderCwd is the name that older clients have for cwd.
const olderCwd = "workingDirectory"

// CwdOf is the raw folder in the params of a request that opens a session: its cwd, or, from an older client, which names none,
// its workingDirectory. Nil: it names none.
func CwdOf(params []byte) []byte {
	if cwd := Get(params, "cwd"); cwd != nil && string(cwd) != "null" {
		return cwd
	}
	return Get(params, olderCwd)
}

// PromptOf is the raw list of blocks in the params of a prompt: its prompt, or, from an older client, which sends none, its
// content, which may be a single block or a text. Nil: it has none.
func PromptOf(params []byte) []byte {
	prompt := Get(params, "prompt")
	if prompt == nil || string(prompt) == "null" {
		prompt = Get(params, "content")
	}
	if len(prompt) > 0 && prompt[0] == '"' {
		prompt = block(prompt)
	}
	if isObject(prompt) {
		return append(append([]byte{'['}, prompt...), ']')
	}
	return prompt
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

// ModelOf is the model that an update of the kind current_model_update tells, and whether it tells one. Agents differ in how they
// say it; the update never was part of ACP v1.
func ModelOf(update []byte) (model string, ok bool) {
	for _, path := range [][]string{{"currentModelId"}, {"modelId"}, {"model", "modelId"}, {"model"}} {
		if model, ok = String(Get(update, path...)); ok {
			return model, true
		}
	}
	return "", false
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

// modeOption calls f with the option that has the category "mode", as OptionMode finds it, and its position among all.
func modeOption(result []byte, f func(option []byte, at int)) {
	at := 0
	_ = Elements(Get(result, "configOptions"), func(o []byte) bool {
		if one := append(append([]byte(`{"configOptions":[`), o...), "]}"...); OptionMode(one) != "" {
			f(o, at)
			return false
		}
		at++
		return true
	})
}

// OfferedModes returns the ids of the modes that a session offers, by the result of the request that opened it.
func OfferedModes(result []byte) (ids []string) {
	found := false
	modeOption(result, func(o []byte, _ int) {
		found = true
		_ = Elements(Get(o, "options"), func(choice []byte) bool {
			if id, ok := Exact(Get(choice, "value")); ok {
				ids = append(ids, id)
			}
			_ = Elements(Get(choice, "options"), func(grouped []byte) bool { // choices may be in groups
				if id, ok := Exact(Get(grouped, "value")); ok {
					ids = append(ids, id)
				}
				return true
			})
			return true
		})
	})
	if found {
		return ids
	}
	_ = Elements(Get(result, "modes", "availableModes"), func(mode []byte) bool {
		if id, ok := Exact(Get(mode, "id")); ok {
			ids = append(ids, id)
		}
		return true
	})
	return ids
}

// SetModeRequest returns the request that puts a session in a mode: by the option that has the category "mode" if the session
// has one, else by session/set_mode. result opened the session.
func SetModeRequest(result []byte, session, mode string) (method string, params []byte) {
	method, params = MethodSessionSetMode, []byte(`{"sessionId":`)
	params = jsonrpc.AppendString(params, session)
	member := []byte(`,"modeId":`)
	modeOption(result, func(o []byte, _ int) {
		id, ok := Exact(Get(o, "id"))
		if !ok {
			id, _ = Exact(Get(o, "configId"))
		}
		method = MethodSessionSetOption
		member = append(jsonrpc.AppendString([]byte(`,"configId":`), id), `,"value":`...)
	})
	return method, append(jsonrpc.AppendString(append(params, member...), mode), '}')
}

// WithMode returns a response that opened a session, with the mode that it tells replaced in modes and in configOptions.
func WithMode(line []byte, mode string) ([]byte, error) {
	value := jsonrpc.AppendString(nil, mode)
	var err error
	if Get(line, "result", "modes", "currentModeId") != nil {
		if line, err = Set(line, value, "result", "modes", "currentModeId"); err != nil {
			return nil, fmt.Errorf("replace the mode in the agent's answer: %w", err)
		}
	}
	result := Get(line, "result")
	modeOption(result, func(_ []byte, at int) {
		options, i := []byte{'['}, 0
		_ = Elements(Get(result, "configOptions"), func(o []byte) bool {
			if i > 0 {
				options = append(options, ',')
			}
			if i == at && err == nil {
				o, err = Set(o, value, "currentValue")
			}
			options = append(options, o...)
			i++
			return true
		})
		if err == nil {
			line, err = Set(line, append(options, ']'), "result", "configOptions")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("replace the mode in the agent's answer: %w", err)
	}
	return line, nil
}
