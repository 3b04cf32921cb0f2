package transcript

import (
	"bytes"
	"strings"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Limits of the state of commands.
const (
	maxCommands  = 1024     // starts in progress, and terminals
	maxCommand   = 16 << 10 // bytes of a command line
	maxCompared  = 256      // bytes of output by which the continuation of a terminal's output is found
	notTold      = "[earlier output is not recorded]\n"
	methodCreate = "terminal/create"
	methodRun    = "terminal/run"
)

// commands tracks the commands of an agent. The output of a command is not in events: it is in the answers to an agent
// that requests it, and in the messages that a client received.
type commands struct {
	open      map[string]request // by the request's id
	terminals ordered.Map[string, *terminal]
}

// request is an unanswered request about a terminal.
type request struct{ command, terminal string }

type terminal struct {
	size  uint64 // bytes of output
	tail  []byte // the last bytes of the output
	owner string // the tool call that shows it to the client first
	exit  []byte // the raw exit status; nil: unknown
	ended bool   // the end was returned
}

// asked processes a request of the agent.
func (c *commands) asked(call *supervisorv1.CallStarted, line []byte) {
	if !strings.HasPrefix(call.GetMethod(), "terminal/") {
		return
	}
	if c.open == nil || len(c.open) >= maxCommands {
		c.open = map[string]request{}
	}
	r := request{terminal: call.GetTerminalId()}
	if params := acp.Get(line, "params"); call.GetMethod() == methodCreate || call.GetMethod() == methodRun {
		r.command = text(params, "command")
		if args, ok := acp.Strings(acp.Get(params, "args")); ok && len(args) > 0 {
			r.command += " " + strings.Join(args, " ")
		}
		r.command = first(strings.ToValidUTF8(r.command, "\ufffd"), maxCommand)
	}
	c.open[call.GetId()] = r
}

// answered processes an answer. For the start of a command, it returns the command, and its terminal if it was started.
// out are the entries of terminals after the answer.
func (c *commands) answered(call *supervisorv1.CallEnded, line []byte) (command, id string, out []Entry) {
	r, ok := c.open[call.GetId()]
	if !ok {
		return "", "", nil
	}
	delete(c.open, call.GetId())
	if call.GetError() != "" || call.GetErrorCode() != 0 {
		return r.command, "", nil
	}
	result := acp.Get(line, "result")
	switch call.GetMethod() {
	case methodCreate:
		if id = call.GetTerminalId(); id != "" {
			c.terminals.Keep(id, &terminal{}, maxCommands)
		}
		return r.command, id, nil
	case methodRun: // it has no terminal that the agent could query
		id = "run " + call.GetId()
		t := &terminal{exit: acp.Get(result, "exitStatus")}
		return r.command, id, append(t.polled(id, result), t.end(id))
	}
	return "", "", c.terminalAnswered(call.GetMethod(), r.terminal, result)
}

// terminalAnswered processes the answer to a request about a terminal, and returns its entries.
func (c *commands) terminalAnswered(method, id string, result []byte) (out []Entry) {
	t := c.terminals.At(id)
	if t == nil || t.ended {
		return nil
	}
	switch method {
	case "terminal/output":
		out = t.polled(id, result)
		if status := acp.Get(result, "exitStatus"); isObject(status) {
			t.exit = bytes.Clone(status)
			out = append(out, t.end(id))
		}
	case "terminal/wait_for_exit":
		t.exit = bytes.Clone(result) // the agent may still request the last output
	case "terminal/release":
		out = append(out, t.end(id))
	}
	return out
}

// polled processes the stored output of a terminal, and returns the new part.
func (t *terminal) polled(id string, result []byte) []Entry {
	all := []byte(text(result, "output"))
	if string(acp.Get(result, "truncated")) != "true" {
		if uint64(len(all)) <= t.size {
			return nil
		}
		return t.piece(id, all[t.size:])
	}
	tail := t.tail[max(0, len(t.tail)-maxCompared):]
	if i := bytes.LastIndex(all, tail); len(tail) > 0 && i >= 0 {
		return t.piece(id, all[i+len(tail):])
	}
	return t.piece(id, append([]byte(notTold), all...))
}

// shown processes a message of acphost to a client, and returns its entries about terminals.
func (c *commands) shown(line []byte) []Entry {
	if c.terminals.Len() == 0 || !bytes.Contains(line, []byte(`"_meta"`)) {
		return nil
	}
	update := acp.Get(line, "params", "update")
	owner := acp.ToolCallID(update)
	if o := acp.Get(update, "_meta", "terminal_output"); isObject(o) {
		id := text(o, "terminal_id")
		if t := c.terminals.At(id); t != nil && !t.ended && (t.owner == owner || t.owner == "" && t.size == 0) {
			t.owner = owner
			return t.piece(id, []byte(text(o, "data")))
		}
	}
	if o := acp.Get(update, "_meta", "terminal_exit"); isObject(o) {
		id := text(o, "terminal_id")
		if t := c.terminals.At(id); t != nil && !t.ended && t.owner == owner {
			t.exit = bytes.Clone(o)
			return []Entry{t.end(id)}
		}
	}
	return nil
}

// finish returns the ends of terminals that are known to have ended.
func (c *commands) finish() (out []Entry) {
	for id, t := range c.terminals.All() {
		if !t.ended && t.exit != nil {
			out = append(out, t.end(id))
		}
	}
	return out
}

func (t *terminal) piece(id string, data []byte) []Entry {
	if len(data) == 0 {
		return nil
	}
	t.size += uint64(len(data))
	t.tail = append(t.tail, data[max(0, len(data)-maxCompared):]...)
	if len(t.tail) > 4*maxCompared {
		t.tail = bytes.Clone(t.tail[len(t.tail)-maxCompared:])
	}
	return []Entry{{Terminal: id, Output: &supervisorv1.WatchOutputResponse{Data: data}}}
}

func (t *terminal) end(id string) Entry {
	t.ended = true
	return Entry{Terminal: id, Output: ending(t.exit)}
}

// ending returns the event for the end of a command.
func ending(status []byte) *supervisorv1.WatchOutputResponse {
	o := &supervisorv1.WatchOutputResponse{Ended: true, Signal: text(status, "signal")}
	for _, name := range [...]string{"exitCode", "exit_code"} {
		if code, ok := acp.Int(acp.Get(status, name), 64); ok && o.GetSignal() == "" {
			n := uint32(code)
			o.ExitCode = &n
		}
	}
	return o
}

func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }
