package acp

import (
	"fmt"
	"path/filepath"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// Opening holds the members of a request that opens a session which the data path needs. The request is session/new,
// session/load, session/resume or session/fork.
type Opening struct {
	// SessionID is the session that is loaded, resumed or forked. It is empty for session/new.
	SessionID string
	// Cwd is the session's working directory, as sent.
	Cwd string
	// AdditionalDirectories are further roots of the session.
	AdditionalDirectories []string
}

// ParseOpening parses the params of a request that opens a session. It returns an error if cwd or a directory is not an
// absolute path, because such a session could have no roots.
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

// olderCwd is the name of cwd in older clients.
const olderCwd = "workingDirectory"

// CwdOf returns the raw folder in the params of a request that opens a session: its cwd, or the workingDirectory of an
// older client. Nil means that there is none.
func CwdOf(params []byte) []byte {
	if cwd := Get(params, "cwd"); cwd != nil && string(cwd) != "null" {
		return cwd
	}
	return Get(params, olderCwd)
}

// PromptOf returns the raw list of blocks in the params of a prompt: its prompt, or the content of an older client,
// which may be a single block or a string. Nil means that there is none.
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

// Opened holds the members of the answer to such a request that the data path needs.
type Opened struct {
	// SessionID is the new session's id. It is empty for session/load and session/resume.
	SessionID string
	// Mode is the id of the current mode, or empty. If the agent has an option for the mode, it is the value of that
	// option.
	Mode string
}

// ParseOpened parses the result of a request that opens a session.
func ParseOpened(result []byte) Opened {
	var o Opened
	o.SessionID, _ = Exact(Get(result, "sessionId"))
	o.Mode, _ = Exact(Get(result, "modes", "currentModeId"))
	if mode := OptionMode(result); mode != "" {
		o.Mode = mode
	}
	return o
}

// OptionMode returns the mode in a session's options: the value of the option with the category "mode" (or with that
// id, if it has no category). obj has the options as its member configOptions: it is an update, or the answer to a
// request that sets an option or opens a session. The result is empty if there is no such option.
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

// ModeOf returns the mode in an update of the kind current_mode_update, and whether there is one.
func ModeOf(update []byte) (mode string, ok bool) {
	if mode, ok = Exact(Get(update, "currentModeId")); !ok {
		mode, ok = Exact(Get(update, "modeId"))
	}
	return mode, ok
}

// ModelOf returns the model in an update of the kind current_model_update, and whether there is one. The formats of
// agents differ, because the update was never a part of ACP v1.
func ModelOf(update []byte) (model string, ok bool) {
	for _, path := range [][]string{{"currentModelId"}, {"modelId"}, {"model", "modelId"}, {"model"}} {
		if model, ok = String(Get(update, path...)); ok {
			return model, true
		}
	}
	return "", false
}

// PromptAccepted reports whether the answer to a prompt means that its turn continues, as in ACP v2, where the turn
// ends when the session is idle (see Idle). version is the negotiated version. In drafts of version 2 the answer is
// empty.
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

// EndTurnReason returns the stop reason in a session/end_turn. It is empty if the turn ended with an error.
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

// ParseCancelRequest returns the raw id in the params of $/cancel_request, or nil if there is none. It also accepts the
// member's name in the Language Server Protocol.
func ParseCancelRequest(params []byte) []byte {
	if id := Get(params, "requestId"); id != nil {
		return id
	}
	return Get(params, "id")
}

// TraceContext returns the W3C trace context in params._meta. The strings are empty if it is missing.
func TraceContext(params []byte) (traceparent, tracestate string) {
	meta := Get(params, "_meta")
	traceparent, _ = Exact(Get(meta, "traceparent"))
	tracestate, _ = Exact(Get(meta, "tracestate"))
	return traceparent, tracestate
}

// modeOption calls f with the option that OptionMode uses, and its position in the list.
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

// OfferedModes returns the ids of the modes of a session. result is the answer to the request that opened it.
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

// SetModeRequest returns the request that sets the mode of a session: it sets the option with the category "mode" if
// the session has one, else it is a session/set_mode. result is the answer to the request that opened the session.
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

// WithMode returns a response that opened a session with another current mode in modes and in configOptions.
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
