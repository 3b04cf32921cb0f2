package transcript

import (
	"bytes"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
)

// Bounds on what is remembered of commands.
const (
	maxCommands  = 1024     // that are being started, and terminals
	maxCommand   = 16 << 10 // bytes of a command line
	maxCompared  = 256      // bytes of output by which it is found where a terminal's output goes on
	notTold      = "[earlier output is not recorded]\n"
	methodCreate = "terminal/create"
	methodRun    = "terminal/run"
)

// commands follows what an agent has run. What a command wrote is no event: it stands in the answers to an agent that asks
// for it, and in what a client was shown.
type commands struct {
	open      map[string]request // by the request's id
	terminals ordered.Map[string, *terminal]
}

// request is one about a terminal that is not answered.
type request struct{ command, terminal string }

type terminal struct {
	told  uint64 // bytes of output
	tail  []byte // the last of them
	owner string // the tool call by which a client is shown it; another may show it again
	exit  []byte // how it ended, raw; nil: it is not known to have
	ended bool   // that was told
}

// asked takes a request of the agent's.
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

// answered takes the answer. Where it is about a command's start, it returns that command, and its terminal if it was
// started; and what is told of terminals behind the answer.
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
	case methodRun: // it has no terminal that anybody could ask for
		id = "run " + call.GetId()
		t := &terminal{exit: acp.Get(result, "exitStatus")}
		return r.command, id, append(t.polled(id, result), t.end(id))
	}
	return "", "", c.terminalAnswered(call.GetMethod(), r.terminal, result)
}

// terminalAnswered takes the answer to a request about a terminal, and returns what it tells.
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
		t.exit = bytes.Clone(result) // its last output may be asked for yet
	case "terminal/release":
		out = append(out, t.end(id))
	}
	return out
}

// polled takes a terminal's output as far as it is kept, and returns what is new of it.
func (t *terminal) polled(id string, result []byte) []Entry {
	all := []byte(text(result, "output"))
	if string(acp.Get(result, "truncated")) != "true" {
		if uint64(len(all)) <= t.told {
			return nil
		}
		return t.piece(id, all[t.told:])
	}
	tail := t.tail[max(0, len(t.tail)-maxCompared):]
	if i := bytes.LastIndex(all, tail); len(tail) > 0 && i >= 0 {
		return t.piece(id, all[i+len(tail):])
	}
	return t.piece(id, append([]byte(notTold), all...))
}

// shown takes a message of acphost's to a client, and returns what it shows of terminals.
func (c *commands) shown(line []byte) []Entry {
	if c.terminals.Len() == 0 || !bytes.Contains(line, []byte(`"_meta"`)) {
		return nil
	}
	update := acp.Get(line, "params", "update")
	owner := acp.ToolCallID(update)
	if o := acp.Get(update, "_meta", "terminal_output"); isObject(o) {
		id := text(o, "terminal_id")
		if t := c.terminals.At(id); t != nil && !t.ended && (t.owner == owner || t.owner == "" && t.told == 0) {
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

// finish tells the end of what is known to have ended.
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
	t.told += uint64(len(data))
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

// ending is how a command ended.
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
