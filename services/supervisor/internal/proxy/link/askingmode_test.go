package link

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// openedInAuto is the answer of an agent that opens a session in a mode in which it does not ask.
const openedInAuto = `{"jsonrpc":"2.0","id":"n","result":{"sessionId":"s","modes":{"currentModeId":"auto","availableModes":[{"id":"default"},{"id":"auto"}]}}}`

// opens sends a session/new up to the agent, for an agent that asks in the modes default and plan.
func opens(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := newRig(t, append([]func(*Options){func(o *Options) { o.Modes = []string{"default", "plan"} }}, change...)...)
	r.client.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	r.agent.next()
	r.agent.send(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"2"}}}`)
	r.client.next()
	r.client.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	r.agent.next()
	return r
}

// wantRequest reads acphost's own request at the agent and returns its id.
func (p *peer) wantRequest(method, params string) (id string) {
	p.t.Helper()
	line := p.next()
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Method != method || string(m.Params) != params {
		p.t.Fatalf("the agent got %s, want %s with %s", line, method, params)
	}
	return string(m.ID)
}

func TestLink_SetsModeThatAsks(t *testing.T) {
	const update = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[]}}}`
	t.Run("by session/set_mode", func(t *testing.T) {
		r := opens(t)
		r.agent.send(openedInAuto, update)
		id := r.agent.wantRequest("session/set_mode", `{"sessionId":"s","modeId":"default"}`)
		r.agent.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		r.client.want(strings.Replace(openedInAuto, `"currentModeId":"auto"`, `"currentModeId":"default"`, 1))
		r.client.want(update)
		if got := r.opts.Sessions.Snapshot(); len(got) != 1 || got[0].GetMode() != "default" {
			t.Errorf("the sessions are %v, want one in the mode default", got)
		}
	})
	t.Run("by an option", func(t *testing.T) {
		const answer = `{"jsonrpc":"2.0","id":"n","result":{"sessionId":"s","configOptions":[{"id":"x","currentValue":"auto"},{"id":"m","category":"mode","currentValue":"auto","options":[{"value":"auto"},{"value":"plan"}]}]}}`
		r := opens(t)
		r.agent.send(answer)
		id := r.agent.wantRequest("session/set_config_option", `{"sessionId":"s","configId":"m","value":"plan"}`)
		r.agent.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"configOptions":[]}}`)
		r.client.want(strings.Replace(answer, `"category":"mode","currentValue":"auto"`, `"category":"mode","currentValue":"plan"`, 1))
	})
	t.Run("a session that asks is left alone", func(t *testing.T) {
		r := opens(t)
		line := strings.Replace(openedInAuto, `"currentModeId":"auto"`, `"currentModeId":"plan"`, 1)
		r.agent.send(line)
		r.client.want(line)
	})
	t.Run("a mode that the agent refuses", func(t *testing.T) {
		r := opens(t)
		r.agent.send(openedInAuto)
		id := r.agent.wantRequest("session/set_mode", `{"sessionId":"s","modeId":"default"}`)
		r.agent.send(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"no such mode"}}`)
		r.client.wantError(`"n"`, -32603, `could not be put in mode "default", in which it asks before it acts: it answered with the error "no such mode"`)
		if got := r.opts.Sessions.Open(); len(got) != 0 {
			t.Errorf("the sessions %q are open, want none", got)
		}
	})
	t.Run("an agent without a mode that asks", func(t *testing.T) {
		r := opens(t, func(o *Options) { o.Modes = []string{"ask"} })
		r.agent.send(openedInAuto)
		r.client.wantError(`"n"`, -32603, "offers none of the modes in which it asks before it acts (ask)")
	})
	t.Run("an agent that ends instead", func(t *testing.T) {
		r := opens(t)
		r.agent.send(openedInAuto)
		r.agent.wantRequest("session/set_mode", `{"sessionId":"s","modeId":"default"}`)
		_ = r.agent.in.Close()
		r.client.wantError(`"n"`, -32603, "the agent cannot answer any more")
	})
}

func TestLink_WarnsOfUntestedVersions(t *testing.T) {
	for name, tt := range map[string]struct {
		tested []string
		warns  bool
	}{
		"tested":     {[]string{"1", "2"}, false},
		"not tested": {[]string{"1"}, true},
		"not known":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			opens(t, func(o *Options) { o.Tested, o.Logger = tt.tested, slog.New(slog.NewTextHandler(&log, nil)) })
			if got := strings.Contains(log.String(), "was not tested with this version") && strings.Contains(log.String(), "version=2 tested=1"); got != tt.warns {
				t.Errorf("the log is %q, want a warning: %v", log.String(), tt.warns)
			}
		})
	}
}

func TestLink_NotifiesOfUntestedVersionOnce(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Tested = []string{"0"} })
	r.client.send(`{"id":"i","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"session":{"notices":{}}}}}`)
	r.agent.next()
	r.agent.send(`{"id":"i","result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"1"}}}`)
	r.client.next()
	for _, id := range []string{"s", "t"} {
		r.client.send(`{"id":"n","method":"session/new","params":{"cwd":"/w"}}`)
		r.agent.next()
		answer := `{"id":"n","result":{"sessionId":"` + id + `"}}`
		r.agent.send(answer)
		r.client.want(answer)
		if id == "s" {
			if got := r.client.next(); !strings.Contains(got, `"sessionUpdate":"notice"`) || !strings.Contains(got, `is of version \"1\". Tested versions are 0.`) {
				t.Errorf("the client was told %s", got)
			}
		}
	}
}

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
