package acp

// UpdateOf returns the update in the params of a session/update in the current format of ACP, or nil if the format is
// unknown. Some agents write the members of the update into the params themselves, or in a format that Today converts.
func UpdateOf(params []byte) []byte {
	update := Get(params, "update")
	if !isObject(update) {
		update = params
	}
	if kind := Get(update, "sessionUpdate"); kind != nil && !IsOlderUpdate(kind) {
		return update
	}
	return CurrentUpdate(update)
}

// IsOlderUpdate reports whether a raw sessionUpdate is a name for the result of a tool in a format that Today converts.
func IsOlderUpdate(kind []byte) bool {
	switch string(kind) {
	case `"tool_result"`, `"toolResult"`, `"tool_response"`, `"toolResponse"`, `"tool_error"`, `"toolError"`:
		return true
	}
	return false
}

// CurrentUpdate converts an update of the format {type, content} to the current format of ACP: a message ("text",
// "agentMessage") or thought ("thinking", "agentThought") of the agent, a message of the user ("userMessage"), a tool
// call ("tool_call" or "tool_use") and its result ("tool_result", "tool_response", "tool_error"; also as
// sessionUpdate), an error ("error"), which becomes a notice, or the state of a session, {status: "idle"}. It returns
// nil for all others.
func CurrentUpdate(update []byte) []byte {
	kind, _ := String(Get(update, "type"))
	if kind == "" {
		kind, _ = String(Get(update, "sessionUpdate"))
	}
	u := foreign{update, Get(update, "content")}
	switch kind {
	case "text", "agentMessage", "agent_message":
		return u.chunk("agent_message_chunk")
	case "thinking", "agentThought", "agent_thought":
		return u.chunk("agent_thought_chunk")
	case "userMessage", "user_message":
		return u.chunk("user_message_chunk")
	case "tool_call", "tool_use", "toolCall":
		return u.toolCall()
	case "tool_result", "toolResult", "tool_response", "toolResponse":
		return u.toolResult(false)
	case "tool_error", "toolError":
		return u.toolResult(true)
	case "", "status":
		return u.state()
	case "error":
		return u.failure()
	}
	return nil
}

// foreign is an update of the format {type, content}.
type foreign struct{ whole, content []byte }

// get returns the first of the members in the content or in its member within, or else in the update itself. Null
// counts as missing.
func (u foreign) get(within string, names ...string) []byte {
	for _, of := range [...][]byte{Get(u.content, within), Get(u.whole, within), u.content, u.whole} {
		for _, name := range names {
			if v := Get(of, name); v != nil && string(v) != "null" {
				return v
			}
		}
	}
	return nil
}

// text returns the text of the update, or nil.
func (u foreign) text() []byte {
	for _, v := range [...][]byte{u.content, u.get("", "text", "message"), Get(u.get("", "error"), "message"), u.get("", "error")} {
		if len(v) > 0 && v[0] == '"' {
			return v
		}
	}
	return nil
}

// begin returns the beginning of an update of a kind.
func begin(kind string) object {
	var o object
	o.add("sessionUpdate", []byte(`"`+kind+`"`))
	return o
}

// block returns a content block with a text.
func block(text []byte) []byte {
	var b object
	b.add("type", []byte(`"text"`))
	b.add("text", text)
	return b.end()
}

func (u foreign) chunk(kind string) []byte {
	o := begin(kind)
	said := u.content
	if Get(said, "type") == nil { // otherwise it is a content block already
		text := u.text()
		if text == nil {
			return nil
		}
		said = block(text)
	}
	o.add("content", said)
	o.add("messageId", Get(u.whole, "messageId"))
	return o.end()
}

func (u foreign) toolCall() []byte {
	name := u.get("toolCall", "name", "toolName", "tool")
	o := begin(UpdateToolCall)
	o.add("toolCallId", u.get("toolCall", "toolCallId", "id", "callId"), name, []byte(`""`))
	o.add("title", u.get("toolCall", "title"), name, u.text())
	o.add("name", name)
	o.add("kind", u.get("toolCall", "kind"))
	status := u.get("toolCall", "status")
	if string(status) == `"running"` {
		status = []byte(`"in_progress"`)
	}
	o.add("status", status)
	o.add("rawInput", u.get("toolCall", "input", "rawInput", "toolInput", "arguments"))
	return o.end()
}

// toolResult returns the end of a tool call. failed reports an error.
func (u foreign) toolResult(failed bool) []byte {
	o := begin(UpdateToolCallUpdate)
	o.add("toolCallId", u.get("toolResult", "toolCallId", "callId", "id", "toolName", "name", "tool"), []byte(`""`))
	status := `"completed"`
	if failed || string(u.get("toolResult", "isError", "is_error")) == "true" {
		status = `"failed"`
	}
	o.add("status", []byte(status))
	output := u.get("toolResult", "output", "result", "rawOutput")
	if output == nil {
		output = u.get("", "toolResult")
	}
	if output == nil {
		output = u.text()
	}
	o.add("rawOutput", output)
	if len(output) > 0 && output[0] == '"' {
		var item object
		item.add("type", []byte(`"content"`))
		item.add("content", block(output))
		o.add("content", append(append([]byte{'['}, item.end()...), ']'))
	}
	return o.end()
}

// state returns the state of a session, if the update has one and does not describe a tool call.
func (u foreign) state() []byte {
	status := u.get("", "status")
	if len(status) == 0 || status[0] != '"' || u.get("toolCall", "toolCallId", "callId", "id") != nil {
		return nil
	}
	o := begin(UpdateState)
	o.add("state", status)
	return o.end()
}

func (u foreign) failure() []byte {
	o := begin("notice")
	o.add("severity", []byte(`"error"`))
	o.add("title", []byte(`"The agent reports an error"`))
	o.add("description", u.text())
	return o.end()
}
