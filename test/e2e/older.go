package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// older is an agent that knows only the names of ACP's methods in the first drafts, and uses no current form. Each line
// of a prompt is a step: "write FILE", "run COMMAND", "ask". It reports the end of a turn by session/end_turn, and
// never answers a prompt.
type older struct {
	in      *bufio.Scanner
	out     io.Writer
	session string
	id      int
}

func playOlder() int {
	o := &older{in: bufio.NewScanner(os.Stdin), out: os.Stdout}
	for {
		m, ok := o.read()
		if !ok {
			return 0
		}
		o.take(m)
	}
}

// message has the members of a message that the agent reads.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Prompt []struct{ Text string }
	}
	Result map[string]any
	Error  *struct{ Message string }
}

func (o *older) read() (m message, ok bool) {
	if !o.in.Scan() {
		return m, false
	}
	return m, json.Unmarshal(o.in.Bytes(), &m) == nil
}

func (o *older) say(v map[string]any) {
	v["jsonrpc"] = "2.0"
	b, _ := json.Marshal(v)
	_, _ = o.out.Write(append(b, '\n'))
}

// call makes a request of a session that it does not name: it knows one alone.
func (o *older) call(method string, params map[string]any) message {
	o.id++
	o.say(map[string]any{"id": o.id, "method": method, "params": params})
	for {
		m, ok := o.read()
		if !ok {
			os.Exit(0)
		}
		if m.Method == "" && string(m.ID) == fmt.Sprint(o.id) {
			return m
		}
		o.take(m)
	}
}

func (o *older) update(kind string, content any) {
	o.say(map[string]any{"method": "sessionUpdate", "params": map[string]any{"sessionId": o.session, "type": kind, "content": content}})
}

func (o *older) take(m message) {
	switch m.Method {
	case "initialize":
		o.say(map[string]any{"id": m.ID, "result": map[string]any{"protocolVersion": 1}})
	case "newSession":
		o.session = "the-one"
		o.say(map[string]any{"id": m.ID, "result": map[string]any{"sessionId": o.session}})
	case "prompt":
		o.update("thinking", "Hm.")
		for step := range strings.Lines(m.Params.Prompt[0].Text) {
			verb, what, _ := strings.Cut(strings.TrimSpace(step), " ")
			o.step(verb, what)
		}
		o.say(map[string]any{"method": "session/end_turn", "params": map[string]any{"sessionId": o.session, "reason": "complete"}})
	case "cancel", "":
	default:
		if m.ID != nil {
			o.say(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "what is " + m.Method + "?"}})
		}
	}
}

func (o *older) step(verb, what string) {
	var m message
	switch verb {
	case "write":
		m = o.call("writeTextFile", map[string]any{"path": what, "content": "written\n"})
	case "read":
		m = o.call("readTextFile", map[string]any{"path": what})
	case "run":
		m = o.call("createTerminal", map[string]any{"command": what})
		if id := m.Result["terminalId"]; id != nil {
			o.call("waitForTerminalExit", map[string]any{"terminalId": id})
			m = o.call("terminalOutput", map[string]any{"terminalId": id})
			o.call("releaseTerminal", map[string]any{"terminalId": id})
		}
	case "ask":
		m = o.call("requestPermission", map[string]any{"id": "perm_1", "tool": "bash", "description": what,
			"options": []map[string]any{{"id": "once", "label": "Allow Once"}, {"id": "deny", "label": "Deny"}}})
	}
	text := fmt.Sprintf("[%s %s: %v]", verb, what, m.Result)
	if m.Error != nil {
		text = fmt.Sprintf("[%s %s: %s]", verb, what, m.Error.Message)
	}
	o.update("text", text)
}
