package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/test/wire"
)

// Place is where a supervisor is run: its own home and runtime folder, and a workspace.
type Place struct {
	*wire.Place
}

// NewPlace makes a place, which is removed after the test.
func NewPlace(t testing.TB) *Place {
	t.Helper()
	return &Place{Place: wire.NewPlace(t)}
}

// Host is a running supervisor; its embedded peer is the editor's end.
type Host struct {
	*wire.Process
	*Place
	T testing.TB
}

// Start runs "acphost run FLAGS -- AGENT" in a place.
func (p *Place) Start(t testing.TB, flags, agent []string, env ...string) *Host {
	t.Helper()
	command := slices.Concat([]string{Program("acphost"), "run"}, flags, []string{"--"}, agent)
	return &Host{
		Process: wire.Start(t, wire.Options{Name: "editor", Command: command, Dir: p.Work, Env: p.Env(env...)}),
		Place:   p, T: t,
	}
}

// Finish leaves as an editor does, by closing the supervisor's input, and returns the supervisor's exit status. Nothing
// that it started may be left.
func (h *Host) Finish() int {
	h.T.Helper()
	family := h.Family()
	h.Close()
	status := h.ExpectExit()
	h.ExpectNobody(h.T, family)
	return status
}

// Family is every process below the supervisor.
func (h *Host) Family() []int {
	h.T.Helper()
	pids, err := proc.Descendants(h.PID())
	if err != nil {
		h.T.Fatal(err)
	}
	return pids
}

// Initialize asks for it as an editor that serves nothing itself, but with the capabilities that are given.
func (h *Host) Initialize(capabilities string) *wire.Call {
	h.T.Helper()
	return h.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":`+capabilities+`}`))
}

// ScriptedAgent is an agent that the test plays.
type ScriptedAgent struct {
	*wire.Peer
	Pid  int
	Conn *net.UnixConn
}

// stage is where a scripted agent connects.
type stage struct {
	*wire.Stage
	Command []string
}

// Stage returns the command line of an agent that the test will play.
func (p *Place) Stage(t testing.TB, how ...string) *stage {
	t.Helper()
	s := p.NewStage(t)
	return &stage{Stage: s, Command: Role("puppet", append([]string{s.Path}, how...)...)}
}

// Play returns the agent's end.
func (s *stage) Play(t testing.TB) *ScriptedAgent {
	t.Helper()
	conn, in, pid := s.Accept(t)
	return &ScriptedAgent{Peer: wire.NewPeer(t, "agent", conn, in), Pid: pid, Conn: conn}
}

// Fixture is a supervisor with the test at both ends.
type Fixture struct {
	*Host
	Agent *ScriptedAgent
}

// Fixture starts a supervisor and an agent that the test plays, and has both past initialize and session/new.
func (p *Place) Fixture(t testing.TB, flags []string, env ...string) *Fixture {
	t.Helper()
	return p.FixtureWith(t, `{}`, flags, nil, env...)
}

// FixtureWith is Fixture with the capabilities of the editor, and words for the agent (Role).
func (p *Place) FixtureWith(t testing.TB, capabilities string, flags, how []string, env ...string) *Fixture {
	t.Helper()
	st := p.Stage(t, how...)
	h := p.Start(t, flags, st.Command, env...)
	s := &Fixture{Host: h, Agent: st.Play(t)}
	call := h.Initialize(capabilities)
	s.Agent.Reply(s.Agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
	call.Result(nil)
	s.Open("s1")
	return s
}

// Open opens a session in the workspace.
func (s *Fixture) Open(id string) {
	s.T.Helper()
	call := s.Send("session/new", map[string]any{"cwd": s.Work, "mcpServers": []any{}})
	s.Agent.Reply(s.Agent.Expect("session/new"), map[string]any{"sessionId": id})
	call.Result(nil)
}

// Read is the agent's request for a file of the workspace.
func (s *Fixture) Read(name string) *wire.Call {
	s.T.Helper()
	return s.Agent.Send("fs/read_text_file", map[string]any{"sessionId": "s1", "path": s.Path(name)})
}

// WriteFile is the agent's request to write one.
func (s *Fixture) WriteFile(name, text string) *wire.Call {
	s.T.Helper()
	return s.Agent.Send("fs/write_text_file", map[string]any{"sessionId": "s1", "path": s.Path(name), "content": text})
}

// Content waits for what was read.
func Content(c *wire.Call) string {
	var r struct{ Content string }
	c.Result(&r)
	return r.Content
}

// ExpectContains fails the test unless text holds every part.
func ExpectContains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not contain %q:\n%s", what, part, Shorten(text))
		}
	}
}

// Shorten cuts a text to what can be read in the output of a test.
func Shorten(s string) string {
	if len(s) > 4000 {
		return fmt.Sprintf("%s … (%d bytes)", s[:4000], len(s))
	}
	return s
}
