package day

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// configuration is the configuration of acphost in a run. Unattended: there is no person to answer, so all questions
// are denied.
type configuration struct {
	policy, sandbox, network, reads string
	unattended                      bool
}

func (c configuration) String() string {
	name := c.policy + " + " + c.sandbox
	if c.network != "" {
		name += ", network " + c.network
	}
	if c.reads != "" {
		name += ", reads " + c.reads
	}
	if c.unattended {
		name += ", unattended"
	}
	return name
}

func (c configuration) yaml() string {
	settings := fmt.Sprintf("mode: %s, require: %t", c.sandbox, c.sandbox == "enforce")
	if c.network != "" {
		settings += ", network: " + c.network
	}
	if c.reads != "" {
		settings += ", reads: " + c.reads
	}
	return fmt.Sprintf("permission: {policy: %s}\nsandbox: {%s}\n", c.policy, settings)
}

// way is how the agent runs a line.
type way string

const (
	byTerminal way = "terminal"
	byItself   way = "own process"
)

// result is the result of a line. For a line that was rejected as a whole, status is refused.
type result struct {
	status int
	output string
	tree   tree
}

const refused = -1

// outcome is the result of a step through acphost.
type outcome struct {
	result
	questions []string // their titles
	again     bool     // the line was run again
	denials   []string // the rules that denied something, each once
}

// host is acphost between an agent and its user, both of which the test plays.
type host struct {
	*e2e.Fixture
	hand   *e2e.Hand
	answer string // the kind of the option that the user chooses

	mu        sync.Mutex
	questions []string
	tried     int // the questions about actions that were refused before
}

// nextTry is in a question about an action that was refused before: the answer is for the next try.
const nextTry = "the next try works"

// maxTries limits how often the agent tries a line: a command can need an answer to each start, and another one for
// what it does.
const maxTries = 4

// hosted runs a step through acphost. As long as it ends with another status than wanted, and the user was asked about
// what was refused, the agent tries again, up to maxTries.
func (p *place) hosted(t *testing.T, s *step, c configuration, w way, wanted int) outcome {
	t.Helper()
	p.restore(t)
	end := p.begin(t, s)
	h := p.open(t, c)
	turn := h.Send("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{map[string]any{"type": "text", "text": "Go on."}}})
	prompted := h.Agent.Expect("session/prompt")
	var o outcome
	o.status, o.output = h.run(s.Run, w)
	for tries, asked := 1, 0; ; tries++ {
		before := asked
		if asked = h.settle(); asked == before || o.status == wanted || c.unattended || tries == maxTries {
			break
		}
		o.again = true
		o.status, o.output = h.run(s.Run, w)
	}
	h.Agent.Reply(prompted, map[string]any{"stopReason": "end_turn"})
	turn.Result(nil)
	end()
	h.Finish()
	o.tree, o.questions = p.tree(t), h.questions
	o.output = strings.ReplaceAll(o.output, p.root+"/", "")
	for _, d := range p.Decisions(t) {
		if d.Outcome == "denied" && d.Rule != "" && !slices.Contains(o.denials, d.Rule) {
			o.denials = append(o.denials, d.Rule)
		}
	}
	return o
}

func (p *place) open(t *testing.T, c configuration) *host {
	t.Helper()
	how, await := p.WithHand(t)
	h := &host{Fixture: p.FixtureWith(t, `{}`, p.Config(t, c.yaml()), []string{how}, p.environ()...)}
	h.hand, h.answer = await(), "allow_once"
	if c.unattended {
		h.answer = "reject_once"
	}
	h.Handle("session/request_permission", h.reply)
	h.Handle("session/update", func(wire.Message) (any, error) { return nil, nil })
	return h
}

func (h *host) reply(m wire.Message) (any, error) {
	var q struct {
		Options  []struct{ OptionID, Kind string }
		ToolCall struct{ Title string }
	}
	if err := json.Unmarshal(m.Params, &q); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.questions = append(h.questions, q.ToolCall.Title)
	if strings.Contains(string(m.Params), nextTry) {
		h.tried++
	}
	for _, o := range q.Options {
		if o.Kind == h.answer {
			return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": o.OptionID}}, nil
		}
	}
	return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil
}

// run has the agent run a line, and returns its exit status and output.
func (h *host) run(line string, w way) (status int, output string) {
	h.T.Helper()
	if w == byItself {
		return h.hand.Run(line, h.Work)
	}
	answer := h.Agent.Send("terminal/create", map[string]any{"sessionId": "s1", "command": line, "cwd": h.Work}).Answer()
	if answer.Error != nil {
		return refused, answer.Error.Message
	}
	var made struct{ TerminalID string }
	answer.Decode(h.T, &made)
	terminal := map[string]any{"sessionId": "s1", "terminalId": made.TerminalID}
	var end struct{ ExitCode *int }
	h.Agent.Request("terminal/wait_for_exit", terminal, &end)
	var result struct{ Output string }
	h.Agent.Request("terminal/output", terminal, &result)
	h.Agent.Request("terminal/release", terminal, nil)
	if end.ExitCode == nil {
		return refused, result.Output
	}
	return *end.ExitCode, result.Output
}

// settle waits until no question is open and none is expected: acphost asks about an action of a process after it was
// rejected. It returns the number of such questions so far.
func (h *host) settle() (tried int) {
	h.T.Helper()
	sockets, _ := filepath.Glob(filepath.Join(h.Home, "run", "acphost", fmt.Sprintf("%d-*.sock", h.PID())))
	if len(sockets) != 1 {
		h.T.Fatalf("the supervisor has the sockets %q, want one", sockets)
	}
	last := -1
	testkit.Eventually(h.T, "the questions are answered", func() bool {
		open := wire.Status(h.T, sockets[0]).GetGate().GetOpenQuestions()
		h.mu.Lock()
		defer h.mu.Unlock()
		settled := open == 0 && len(h.questions) == last
		last, tried = len(h.questions), h.tried
		return settled
	})
	return tried
}
