package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/test/wire"
)

// mostAsked is the share of harmless lines, in percent, that a policy may ask about.
const mostAsked = 5

// policyOfList is a ready policy, whether it allows commands that only look, and whether such commands are run to their ends under it: what
// they do there is the same under each policy that allows them.
type policyOfList struct {
	name        string
	looks, runs bool
}

// The rules that allow what an entry says is meant, and what it says is an edit; and those that only look, of which others of the
// line's commands may be taken.
var (
	runsProject = []string{"build-and-test"}
	edits       = []string{"edit-by-command", "make-folders", "commit"}
	looksOnly   = []string{"look-around"}
)

var ready = []policyOfList{{"ask", false, false}, {"workspace", true, true}, {"readonly", true, false}, {"headless", true, false}}

// What became of a line.
const (
	allowed = "allowed"
	tamed   = "tamed" // it was allowed, and ran, and did not do what it does elsewhere
	asked   = "asked"
	denied  = "denied"
)

// tally counts what became of the lines of a corpus, under a policy.
type tally struct {
	mu sync.Mutex
	// wrong are the policies under which something else became of an entry than it should, by the entry's name.
	wrong  map[string][]string
	counts map[string]map[string]int
}

func newTally() *tally {
	return &tally{wrong: map[string][]string{}, counts: map[string]map[string]int{}}
}

func (c *tally) note(policy, outcome string, e *entry, ok bool, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[policy] == nil {
		c.counts[policy] = map[string]int{}
	}
	c.counts[policy][outcome]++
	if !ok {
		c.wrong[e.Name] = append(c.wrong[e.Name], policy+": "+outcome+": "+why)
	}
}

func (c *tally) row(policy string) string {
	n := c.counts[policy]
	return fmt.Sprintf("%3d allowed, %3d tamed, %3d asked, %3d denied", n[allowed], n[tamed], n[asked], n[denied])
}

// judge fails the test for each entry that is not known to fail and fails, and for each that is and does not.
func (c *tally) judge(t *testing.T, all []entry) {
	t.Helper()
	for i := range all {
		e := &all[i]
		switch wrong := c.wrong[e.Name]; {
		case len(wrong) > 0 && e.Known == "":
			t.Errorf("%s: %s\n  %s", e.Name, e.text(), strings.Join(wrong, "\n  "))
		case len(wrong) == 0 && e.Known != "":
			t.Errorf("%s: it is as it should be now: take out that it is known to fail (%s)", e.Name, e.Known)
		}
	}
}

func TestReadyPolicies_DenyHostileAndRarelyAsk(t *testing.T) {
	t.Parallel()
	bad, good := hostile(t), harmless(t)
	var connections atomic.Int32
	b := builder{base: t.TempDir(), git: repository(t), port: listen(t, &connections)}
	(&fixture{home: b.home()}).furnish(t)
	badly, well := newTally(), newTally()
	badFixtures, goodFixtures := b.build(t, "hostile", bad), b.build(t, "harmless", good)
	t.Run("policy", func(t *testing.T) {
		for _, policy := range ready {
			t.Run(policy.name, func(t *testing.T) {
				t.Parallel()
				d := openDesk(t, policy.name, b.home())
				// Many lines run in this one, and only one after another: "git status" makes a lock that a search beside it may list and
				// not find.
				plain := b.fixture(t, policy.name)
				for i := range bad {
					e := &bad[i]
					outcome, why, _ := d.create(cmp.Or(badFixtures[i], plain), e, true)
					wrong := e.judged(policy.name, outcome, d.lastRules)
					badly.note(policy.name, outcome, e, wrong == "", strings.TrimSpace(why+" "+wrong))
				}
				for i := range good {
					e := &good[i]
					outcome, why, status := d.create(cmp.Or(goodFixtures[i], plain), e, policy.runs)
					well.note(policy.name, outcome, e, policy.looks == (outcome == allowed), why)
					if status != 0 && status != 1 && e.lacks() == "" {
						t.Errorf("%s: %s: it ran, and its status is %d", e.Name, e.text(), status)
					}
				}
				d.finish()
			})
		}
	})
	for _, policy := range ready {
		t.Logf("%-10s hostile: %s   harmless: %s", policy.name, badly.row(policy.name), well.row(policy.name))
	}
	badly.judge(t, bad)
	well.judge(t, good)
	if n := len(good) - well.counts["workspace"][allowed]; n*100 > mostAsked*len(good) {
		t.Errorf("workspace asks about %d of %d harmless lines, that is more than %d %%", n, len(good), mostAsked)
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// judged says what is wrong with an outcome of a hostile line; empty: nothing. rules are those of the last decision.
func (e *entry) judged(policy, outcome string, rules func() []string) string {
	by := runsProject
	why, asMeant := e.Meant[policy]
	if !asMeant {
		by = edits
		why, asMeant = e.Edits[policy]
	}
	switch {
	case !asMeant && outcome == allowed:
		return "it has its effect"
	case !asMeant:
		return ""
	case outcome != allowed && outcome != tamed: // its program may be missing
		return "the entry says that it is allowed: " + why
	}
	took := rules()
	others := slices.DeleteFunc(slices.Clone(took), func(rule string) bool { return slices.Contains(slices.Concat(by, looksOnly), rule) })
	if len(others) > 0 || !slices.ContainsFunc(took, func(rule string) bool { return slices.Contains(by, rule) }) {
		return fmt.Sprintf("it is allowed by %q, and not by %q: %s", took, by, why)
	}
	return ""
}

// builder makes fixtures. Nothing that is hostile runs in them.
type builder struct {
	base, git string
	port      int
}

// home is that of all.
func (b builder) home() string { return filepath.Join(b.base, "home") }

// build returns a fixture for each entry, and nil for those that need nothing of their own.
func (b builder) build(t *testing.T, kind string, all []entry) []*fixture {
	t.Helper()
	fixtures := make([]*fixture, len(all))
	for i := range all {
		e := &all[i]
		if len(e.Files) == 0 && e.Setup == "" && len(e.Meant) == 0 && len(e.Edits) == 0 {
			continue
		}
		fixtures[i] = b.fixture(t, fmt.Sprint(kind, i))
		fixtures[i].prepare(t, e)
	}
	return fixtures
}

func (b builder) fixture(t *testing.T, name string) *fixture {
	t.Helper()
	s := newFixture(t, filepath.Join(b.base, name), b.home(), b.git)
	s.port, s.victim = b.port, os.Getpid()
	return s
}

// desk is acphost between an editor that refuses whatever it is asked and an agent, both of which the test plays.
type desk struct {
	*wire.Process // the editor's end
	*wire.Place
	t        *testing.T
	agent    *wire.Peer
	asked    atomic.Int32
	question atomic.Pointer[string] // the text of the last one
	sessions int
}

// openDesk starts acphost with a policy, and with more flags of acphost run.
func openDesk(t *testing.T, policy, home string, flags ...string) *desk {
	t.Helper()
	p := wire.NewPlace(t)
	stage := p.NewStage(t)
	command := append([]string{program("acphost")}, p.Config(t, "permission: {audit: {file: "+filepath.Join(p.Home, "audit.jsonl")+"}}\n")...)
	command = append(append(append(command, "run", "--policy", policy), flags...), "--", os.Args[0], puppet, stage.Path)
	d := &desk{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "editor", Command: command, Dir: p.Work, Env: p.Env("HOME="+home, "PATH="+searched(), "TERM=dumb", "GIT_CONFIG_NOSYSTEM=1")})}
	d.Handle("session/update", func(wire.Message) (any, error) { return nil, nil })
	d.Handle("session/request_permission", func(m wire.Message) (any, error) {
		d.asked.Add(1)
		var q struct {
			Options  []struct{ OptionID, Kind string }
			ToolCall struct {
				Content []struct{ Content struct{ Text string } }
			}
		}
		if err := json.Unmarshal(m.Params, &q); err != nil {
			return nil, err
		}
		var said []string
		for _, c := range q.ToolCall.Content {
			said = append(said, c.Content.Text)
		}
		text := strings.Join(said, " / ")
		d.question.Store(&text)
		for _, o := range q.Options {
			if o.Kind == "reject_once" {
				return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": o.OptionID}}, nil
			}
		}
		return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil
	})
	call := d.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`))
	conn, in, _ := stage.Accept(t)
	d.agent = wire.NewPeer(t, "agent", conn, in)
	d.agent.Reply(d.agent.Expect("initialize"), json.RawMessage(`{"protocolVersion":1,"agentInfo":{"name":"puppet","version":"0.1"},"agentCapabilities":{"sessionCapabilities":{"close":{}}}}`))
	call.Result(nil)
	return d
}

// lastRules are the rules by which the last line was decided.
func (d *desk) lastRules() []string {
	d.t.Helper()
	audit, err := os.ReadFile(filepath.Join(d.Home, "audit.jsonl"))
	if err != nil {
		d.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(audit)), "\n")
	var last struct{ Rule string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		d.t.Fatalf("the audit ends with a line that is no JSON: %v", err)
	}
	return strings.Split(last.Rule, ", ")
}

// create has the agent send a line, in a session of its own, and says what became of it, and why. A line that is allowed is ended at
// once, or runs to its end if it runs; status is its own then, and else 0.
func (d *desk) create(s *fixture, e *entry, runs bool) (outcome, why string, status int) {
	d.t.Helper()
	id := d.open(s)
	before := d.asked.Load()
	answer := d.agent.Send("terminal/create", s.params(e, id)).Answer()
	switch {
	case answer.Error == nil:
		var made struct{ TerminalID string }
		answer.Decode(d.t, &made)
		terminal := map[string]any{"sessionId": id, "terminalId": made.TerminalID}
		if !runs {
			d.agent.Request("terminal/release", terminal, nil)
			outcome = allowed
			break
		}
		outcome, status = d.watch(s, e, terminal)
	case d.asked.Load() > before:
		outcome, why = asked, *d.question.Load()
	default:
		outcome, why = denied, answer.Error.Message
	}
	d.close(id)
	return outcome, why, status
}

// open opens a session in a fixture.
func (d *desk) open(s *fixture) (id string) {
	d.t.Helper()
	d.sessions++
	id = fmt.Sprintf("s%d", d.sessions)
	opened := d.Send("session/new", map[string]any{"cwd": s.ws, "mcpServers": []any{}})
	d.agent.Reply(d.agent.Expect("session/new"), map[string]any{"sessionId": id})
	opened.Result(nil)
	return id
}

func (d *desk) close(id string) {
	d.t.Helper()
	closed := d.Send("session/close", map[string]any{"sessionId": id})
	d.agent.Reply(d.agent.Expect("session/close"), map[string]any{})
	closed.Result(nil)
}

// watch waits for the end of a line that was allowed, and sees whether it did what it does without a policy.
func (d *desk) watch(s *fixture, e *entry, terminal map[string]any) (outcome string, status int) {
	d.t.Helper()
	var end struct{ ExitCode *int }
	d.agent.Request("terminal/wait_for_exit", terminal, &end)
	if status = -1; end.ExitCode != nil {
		status = *end.ExitCode
	}
	var said struct{ Output string }
	d.agent.Request("terminal/output", terminal, &said)
	d.agent.Request("terminal/release", terminal, nil)
	r := run{fixture: s, output: said.Output, changed: s.traces()}
	switch e.Does {
	case "reads", "secret", "lists", "runs", "environment":
		if !effects[e.Does](r) {
			return tamed, status
		}
	}
	return allowed, status
}

// traces are the files of the fixture that programs leave which were not to run.
func (s *fixture) traces() []string {
	var found []string
	_ = filepath.WalkDir(s.base, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "ran" {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// params are those of the terminal/create that an agent sends for an entry.
func (s *fixture) params(e *entry, session string) map[string]any {
	params := map[string]any{"sessionId": session, "command": s.expand(e.Line)}
	if len(e.Argv) > 0 {
		argv := s.expandAll(e.Argv)
		params["command"], params["args"] = argv[0], argv[1:]
	}
	if e.Cwd != "" {
		params["cwd"] = s.cwd(e)
	}
	env := []any{}
	for _, variable := range s.expandAll(e.Env) {
		name, value, _ := strings.Cut(variable, "=")
		env = append(env, map[string]any{"name": name, "value": value})
	}
	if len(env) > 0 {
		params["env"] = env
	}
	return params
}

// finish leaves as an editor does, and expects that nothing of acphost is left.
func (d *desk) finish() {
	d.t.Helper()
	family, err := proc.Descendants(d.PID())
	if err != nil {
		d.t.Fatal(err)
	}
	d.Close()
	d.ExpectExit()
	d.ExpectNobody(d.t, family)
}
