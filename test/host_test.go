package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/test/wire"
)

// place is where a supervisor is run: a home and a runtime folder of its own, and a workspace.
type place struct {
	*wire.Place
	home, work string
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := wire.NewPlace(t)
	return &place{Place: p, home: p.Home, work: p.Work}
}

func (p *place) env(more ...string) []string { return p.Env(more...) }

func (p *place) path(name string) string { return p.Path(name) }

func (p *place) file(t testing.TB, name, text string) string {
	t.Helper()
	return p.File(t, name, text)
}

func (p *place) config(t testing.TB, text string) []string { t.Helper(); return p.Config(t, text) }

func (p *place) expectNobody(t testing.TB, pids []int) { t.Helper(); p.ExpectNobody(t, pids) }

// host is a running supervisor; its embedded peer is the editor's end.
type host struct {
	*wire.Process
	*place
	t testing.TB
}

// start runs "acphost run FLAGS -- AGENT" in a place.
func (p *place) start(t testing.TB, flags, agent []string, env ...string) *host {
	t.Helper()
	command := slices.Concat([]string{program("acphost"), "run"}, flags, []string{"--"}, agent)
	return &host{
		Process: wire.Start(t, wire.Options{Name: "editor", Command: command, Dir: p.work, Env: p.env(env...)}),
		place:   p, t: t,
	}
}

// finish leaves as an editor does, by closing the supervisor's input, and returns the supervisor's exit status. Nothing
// that it started may be left.
func (h *host) finish() int {
	h.t.Helper()
	family := h.family()
	h.Close()
	status := h.ExpectExit()
	h.expectNobody(h.t, family)
	return status
}

// family is every process below the supervisor.
func (h *host) family() []int {
	h.t.Helper()
	pids, err := proc.Descendants(h.PID())
	if err != nil {
		h.t.Fatal(err)
	}
	return pids
}

// initialize asks for it as an editor that serves nothing itself, but with the capabilities that are given.
func (h *host) initialize(capabilities string) *wire.Call {
	h.t.Helper()
	return h.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":`+capabilities+`}`))
}

// pupil is an agent that the test plays.
type pupil struct {
	*wire.Peer
	pid  int
	conn *net.UnixConn
}

// stage is where a pupil comes to.
type stage struct {
	*wire.Stage
	command []string
}

// newStage returns the command line of an agent that the test will play.
func (p *place) newStage(t testing.TB, how ...string) *stage {
	t.Helper()
	s := p.NewStage(t)
	return &stage{Stage: s, command: role("puppet", append([]string{s.Path}, how...)...)}
}

// accept waits for the agent's process and returns its connection and pid.
func (s *stage) accept(t testing.TB) (*net.UnixConn, *bufio.Reader, int) {
	t.Helper()
	return s.Accept(t)
}

// play returns the agent's end.
func (s *stage) play(t testing.TB) *pupil {
	t.Helper()
	conn, in, pid := s.accept(t)
	return &pupil{Peer: wire.NewPeer(t, "agent", conn, in), pid: pid, conn: conn}
}

// scene is a supervisor with the test at both ends.
type scene struct {
	*host
	agent *pupil
}

// scene starts a supervisor and an agent that the test plays, and has both past initialize and session/new.
func (p *place) scene(t testing.TB, flags []string, env ...string) *scene {
	t.Helper()
	return p.sceneWith(t, `{}`, flags, nil, env...)
}

func (p *place) sceneWith(t testing.TB, capabilities string, flags, how []string, env ...string) *scene {
	t.Helper()
	st := p.newStage(t, how...)
	h := p.start(t, flags, st.command, env...)
	s := &scene{host: h, agent: st.play(t)}
	call := h.initialize(capabilities)
	s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
	call.Result(nil)
	s.open("s1")
	return s
}

// open opens a session in the workspace.
func (s *scene) open(id string) {
	s.t.Helper()
	call := s.Send("session/new", map[string]any{"cwd": s.work, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": id})
	call.Result(nil)
}

// read is the agent's request for a file of the workspace.
func (s *scene) read(name string) *wire.Call {
	s.t.Helper()
	return s.agent.Send("fs/read_text_file", map[string]any{"sessionId": "s1", "path": s.path(name)})
}

// write is the agent's request to write one.
func (s *scene) write(name, text string) *wire.Call {
	s.t.Helper()
	return s.agent.Send("fs/write_text_file", map[string]any{"sessionId": "s1", "path": s.path(name), "content": text})
}

// content waits for what was read.
func content(c *wire.Call) string {
	var r struct{ Content string }
	c.Result(&r)
	return r.Content
}

// expectContains fails the test unless text holds every part.
func expectContains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q:\n%s", what, part, shorten(text))
		}
	}
}

func shorten(s string) string {
	if len(s) > 4000 {
		return fmt.Sprintf("%s … (%d bytes)", s[:4000], len(s))
	}
	return s
}
