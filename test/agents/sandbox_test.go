package agents

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// sandboxModes are those that each agent is run in, under the policy workspace. Times are compared with the first
// one's.
var sandboxModes = []string{"off", "observe", "enforce"}

// rounds is how often each agent has its turn in each mode; the modes take turns.
const rounds = 5

// turnPatience is how long a turn may take before it is cancelled.
const turnPatience = 3 * time.Minute

// confined is the observed behavior of an agent in the sandbox: the data of a table in docs/agents.md, in
// testdata/sandbox.
type confined struct {
	Version string    `json:"version"`
	Modes   []confine `json:"modes"`
}

// confine is the observed behavior in one mode.
type confine struct {
	Mode string `json:"mode"`
	// Stands describes the active restrictions of the sandbox, from its status.
	Stands string `json:"stands,omitempty"`
	// Turn is a turn in which the user allows what is asked. An act counts as done if it was done each time.
	Turn []seen `json:"turn"`
	// Ends are the reasons with which the turns ended, each once.
	Ends []string `json:"ends"`
	// Refused are the accesses that the kernel rejected, or in observe would have rejected, in these turns.
	Refused []string `json:"refused,omitempty"`
	// Alone are acts that are a turn each, in which the user rejects all questions.
	Alone []seen `json:"alone"`
	// Millis are how long the turn took, the median.
	Millis int64 `json:"millis"`
}

// harmlessActs is the number of the acts of a turn, its first, that the policy allows without a question.
const harmlessActs = 5

// passes reports whether an agent works in a mode as it does without the sandbox: it does all that it does there,
// what the policy allows at the first try, and its turns end as they do there.
func (c confine) passes(off confine) bool {
	if !slices.Equal(c.Ends, off.Ends) {
		return false
	}
	for i, s := range off.Turn {
		if s.Worked && (!c.Turn[i].Worked || c.Turn[i].Again && i < harmlessActs) {
			return false
		}
	}
	return true
}

// daily is a typical turn; its effects depend on the number, so that the test can check that it was done.
func (r *rig) daily(t tools, net string, reached func() bool, number int) []act {
	greet, note, outside := r.path("src/greet.js"), r.path(fmt.Sprintf("note-%d.txt", number)), filepath.Join(r.home, "outside", fmt.Sprintf("left-%d.txt", number))
	before, after := fmt.Sprintf("Hello%d", number), fmt.Sprintf("Hello%d", number+1)
	change := t.write
	if change == nil {
		change = t.patch
	}
	return []act{
		{does: "reads a file", call: t.read(greet), answer: before},
		{does: "runs `ls -la`", call: t.run("ls -la"), answer: "package.json"},
		{does: "runs `git status`", call: t.run("git status"), answer: "On branch main"},
		{does: "writes a file", call: change(note, "written\n"), changed: func() bool { return holds(note, "written") }},
		{does: "edits a file", call: t.edit(greet, before, after), changed: func() bool { return holds(greet, after) }},
		{does: "runs the tests, `npm test`", call: t.run("npm test"), answer: "all tests pass"},
		{does: "writes a file outside of the roots", call: change(outside, "written\n"), changed: func() bool { return holds(outside, "written") }},
		{does: "runs `curl`", call: t.run("curl -s " + net), changed: reached},
	}
}

// unwanted are acts that the user, or the policy, does not want.
func (r *rig) unwanted(t tools, net string, reached func() bool) []act {
	wanted := []string{"edits `.env`", "runs `echo … > .env`", "runs `cat .env`", "writes a git hook", "writes a file outside of the roots",
		"runs `echo … > FILE` outside of the roots", "runs `curl`"}
	acts := slices.DeleteFunc(r.hostile(t, net, reached), func(a act) bool { return !slices.Contains(wanted, a.does) })
	gone := r.path("README.md")
	return append(acts, act{does: "runs `dd`, which a rule denies", call: t.run("dd if=/dev/null of=README.md"), changed: func() bool { return !holds(gone, "Greets") }})
}

// TestAgents_InSandbox runs each agent in the sandbox. With -update it writes the observations for docs/agents.md.
func TestAgents_InSandbox(t *testing.T) {
	for _, c := range candidates {
		t.Run(c.id, func(t *testing.T) {
			if c.folder != "" {
				located(t, c.folder, c.command)
			}
			executable(t, c.command)
			got := c.confine(t)
			if t.Failed() {
				return
			}
			if f := flag.Lookup("update"); f == nil || f.Value.String() != "true" { // what takes how long, and what else is asked, differs
				want := sandboxed(t, c.id)
				for i, m := range got.Modes {
					if m.passes(got.Modes[0]) != want.Modes[i].passes(want.Modes[0]) {
						t.Errorf("in the mode %s the turn passes: %t; it was observed otherwise", m.Mode, m.passes(got.Modes[0]))
					}
				}
				return
			}
			text, err := json.MarshalIndent(got, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join("sandbox", c.id+".json"), string(text)+"\n")
		})
	}
}

// boxed is an agent that runs in a mode.
type boxed struct {
	confine
	r       *rig
	m       *Model
	agent   *supervisorv1.Agent
	session *supervisorv1.Session
	times   []time.Duration
}

// confine has an agent do its turns in each mode.
func (c *candidate) confine(t *testing.T) confined {
	var hits atomic.Int32
	net := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer net.Close()
	reached := func() bool { return hits.Load() > 0 }
	var all confined
	var boxes []*boxed
	for _, mode := range sandboxModes {
		b := &boxed{confine: confine{Mode: mode}}
		b.r = newRigWith(t, "workspace", fmt.Sprintf("sandbox: {mode: %s, reads: false, network: open}\n", mode))
		b.r.project()
		b.r.file("src/greet.js", "exports.greet = (name) => \"Hello0, \" + name;\n")
		b.r.tries = mode != sandboxModes[0]
		b.agent, b.m = c.launch(b.r)
		boxes = append(boxes, b)
		if b.agent == nil {
			b.Ends = []string{"not started: " + b.r.anonymous(b.r.unstarted.Error())}
			continue
		}
		all.Version = b.agent.GetInfo().GetVersion()
		resp, err := b.r.Sessions.NewSession(b.r.ctx, &supervisorv1.NewSessionRequest{AgentId: b.agent.GetId(), Cwd: b.r.work})
		if b.session = resp.GetSession(); err != nil {
			b.Ends = []string{"no session: " + b.r.anonymous(err.Error())}
		}
	}
	for round := range rounds {
		for _, b := range boxes {
			if b.session == nil {
				continue
			}
			b.r.bait(round)
			hits.Store(0)
			acts := b.r.daily(c.tools, net.URL, reached, round)
			if left := b.round(acts, nil); len(left) > 0 {
				b.round(acts, left) // what was asked about when it was tried passes at the next try
			}
			hits.Store(0)
		}
	}
	for _, b := range boxes {
		if b.session == nil {
			b.r.finish()
			b.r.refusals(t, nil)
			t.Logf("%s: %q", b.Mode, b.Ends)
			all.Modes = append(all.Modes, b.confine)
			continue
		}
		alone := b.r.open(b.agent)
		for i := range b.r.unwanted(c.tools, net.URL, reached) {
			b.r.bait(i)
			hits.Store(0)
			b.Alone = append(b.Alone, b.r.play(alone, b.m, b.r.unwanted(c.tools, net.URL, reached)[i], "reject_once"))
		}
		b.r.finish()
		b.r.recorded(alone, b.Alone)
		for _, d := range b.r.decisions() {
			if _, stands, ok := strings.Cut(d.GetNote(), ": "+b.Mode+", "); ok {
				b.Stands = stands
			}
		}
		b.Refused = b.r.refusals(t, b.session)
		b.r.refusals(t, alone)
		slices.Sort(b.times)
		b.Millis = b.times[len(b.times)/2].Milliseconds()
		t.Logf("%s: %v, the turn passes: %v, ends %q, refused %q", b.Mode, b.times, b.passes(boxes[0].confine), b.Ends, b.Refused)
		for _, s := range slices.Concat(b.Turn, b.Alone) {
			s.Reached = once(s.Reached)
			t.Logf("%s: %s: done %v %v, asked %q, reached %q", b.Mode, s.Does, s.Worked, s.Again, s.Questions, s.Reached)
		}
		for _, acts := range [][]seen{b.Turn, b.Alone} {
			for i := range acts {
				acts[i].Call, acts[i].Reached, acts[i].Reports = "", once(acts[i].Reached), nil
				for n, q := range acts[i].Questions { // who asks, and about what kind of action
					acts[i].Questions[n] = strings.Join(strings.SplitN(q, ", ", 3)[:2], ", ")
				}
			}
		}
		all.Modes = append(all.Modes, b.confine)
	}
	return all
}

// round has the agent do acts in one turn: those of some numbers, or all. It returns the numbers of those that were not
// done although the user was asked about some when they were tried, so that the next try may pass. The agent does not
// wait for such a question, so the question may arrive during the agent's next act.
func (b *boxed) round(acts []act, only []int) (again []int) {
	b.r.t.Helper()
	begun, first := len(b.m.Requests()), only == nil
	if b.Turn == nil {
		for _, a := range acts {
			b.Turn = append(b.Turn, seen{Does: a.does, Worked: true})
		}
	}
	if first {
		for i := range acts {
			only = append(only, i)
		}
	}
	for _, i := range only {
		b.m.Play(Step{Calls: []Call{acts[i].call}})
	}
	over := time.AfterFunc(turnPatience, func() {
		_, _ = b.r.Sessions.CancelPrompt(b.r.ctx, &supervisorv1.CancelPromptRequest{AgentId: b.agent.GetId(), SessionId: b.session.GetSessionId()})
	})
	defer over.Stop()
	tried := false
	began := time.Now()
	end := b.r.prompt(b.session, "Go on.").until("the turn's end", func(e *supervisorv1.Event) bool {
		if q := e.GetQuestionAsked(); q != nil {
			tried = tried || q.GetPermission().GetFromAcphost()
			if at := len(b.m.Requests()) - begun - 1; at >= 0 && len(b.times) == 0 {
				at = only[min(at, len(only)-1)]
				b.Turn[at].Questions = append(b.Turn[at].Questions, b.r.why(q))
			}
			b.r.reply(q, "allow_once")
		}
		return e.GetTurnEnded() != nil
	}).GetTurnEnded()
	if first {
		b.times = append(b.times, time.Since(began))
	}
	reason := end.GetStopReason()
	if end.GetError() != nil {
		reason = "error: " + end.GetError().GetMessage()
	}
	b.Ends = once(append(b.Ends, reason))
	b.m.Drop()
	bodies := b.m.Requests()[begun:]
	for n, i := range only {
		worked := false
		switch {
		case acts[i].changed != nil:
			worked = acts[i].changed()
		case n+1 < len(bodies):
			worked = bytes.Count(bodies[n+1], []byte(acts[i].answer)) > bytes.Count(bodies[n], []byte(acts[i].answer))
		}
		switch {
		case worked && !first:
			b.Turn[i].Again = true
		case !worked && first && tried:
			again = append(again, i)
			continue
		}
		b.Turn[i].Worked = b.Turn[i].Worked && worked
		if !worked && n+1 < len(bodies) {
			b.r.t.Logf("%s: %s: not done; %s", b.Mode, acts[i].does, b.r.anonymous(heard(bodies[n], bodies[n+1])))
		}
	}
	return again
}

// heard returns the part of a request that the one before it does not have.
func heard(before, after []byte) string {
	n := 0
	for n < min(len(before), len(after)) && before[n] == after[n] {
		n++
	}
	return string(after[n:min(len(after), n+600)])
}

// once are the distinct ones of texts, in order.
func once(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// refusals returns the accesses that the kernel rejected in a session, each once: the kind and the rule. It logs each
// with its object.
func (r *rig) refusals(t *testing.T, s *supervisorv1.Session) []string {
	t.Helper()
	var all []string
	for _, d := range r.decisions() {
		a := d.GetAction()
		if a.GetDoor() != permissionv1.Door_DOOR_KERNEL || d.GetSessionId() != s.GetSessionId() && d.GetSessionId() != "" {
			continue
		}
		var paths []string
		for _, p := range a.GetPaths() {
			paths = append(paths, p.GetPath())
		}
		t.Logf("kernel, %q: %s %s %s by %s: %s", d.GetSessionId(), r.line(d), r.anonymous(strings.Join(paths, " ")), r.anonymous(a.GetCommand().GetText()), a.GetTitle(), d.GetReason())
		if !slices.Contains([]string{"allowed", "refused, then allowed"}, d.GetOutcome()) {
			all = append(all, r.line(d))
		}
	}
	return once(all)
}

// Outcomes of an act in the sandbox, in addition to those of observe_test.go.
const (
	doneAgain  = "asked when it was tried, done at the next try"
	doneAsked  = "asked, done"
	recorded   = "done, recorded"
	notRecord  = "done, not recorded"
	atRequest  = "denied when the agent asked"
	rejected   = "asked, and rejected"
	atTheTry   = "denied when it was tried"
	rejectedBy = "asked when it was tried, and rejected"
)

// inTurn describes the result of an act that the user allows.
func (s seen) inTurn() string {
	byAgent := slices.ContainsFunc(s.Questions, func(q string) bool { return strings.HasPrefix(q, "the agent asks") })
	switch {
	case !s.Worked:
		return undone
	case s.Again:
		return doneAgain
	case byAgent:
		return doneAsked
	}
	return done
}

// alone describes the result of an act that must not succeed, by the check at which it ended.
func (s seen) alone() string {
	judged := strings.Join(s.Reached, "\n")
	byAgent := slices.ContainsFunc(s.Questions, func(q string) bool { return strings.HasPrefix(q, "the agent asks") })
	kind := "fs.write"
	if strings.HasPrefix(s.Does, "runs ") {
		kind = "terminal.create"
	}
	refused := func(door, by string) bool {
		return slices.ContainsFunc(s.Reached, func(l string) bool {
			return strings.HasPrefix(l, door) && strings.Contains(l, ": denied") && strings.HasSuffix(l, by) && !strings.Contains(l, "earlier answer")
		})
	}
	switch {
	case s.Worked && strings.Contains(judged, ": done, not asked"):
		return recorded
	case s.Worked:
		return notRecord
	case byAgent:
		return rejected
	case refused("request", ""):
		return atRequest
	case refused("kernel "+kind, ")"): // by a rule
		return atTheTry
	case refused("kernel "+kind, "by tester"):
		return rejectedBy
	case refused("kernel "+kind, ""):
		return atTheTry
	}
	return undone
}

// sandboxRows are the rows of the table of all agents.
func sandboxRow(o observation, c confined) string {
	off, observe, enforce := c.Modes[0], c.Modes[1], c.Modes[2]
	row := fmt.Sprintf("| [%s](#%s) |", o.Title, anchor(o.Title))
	for _, m := range []confine{observe, enforce} {
		passes, time := "no", ""
		if m.passes(off) {
			passes = "yes"
		}
		if m.Millis > 0 {
			time = fmt.Sprintf("%.1f", float64(m.Millis)/float64(off.Millis))
		}
		row += fmt.Sprintf(" %s | %s |", passes, time)
	}
	for _, m := range c.Modes {
		questions := 0
		for _, s := range m.Turn {
			questions += len(s.Questions)
		}
		if m.Turn == nil {
			row += " |"
			continue
		}
		row += fmt.Sprintf(" %d |", questions)
	}
	return row + "\n"
}

// sandboxSection describes the actions of one agent whose results differ between the modes.
func sandboxSection(c confined) string {
	var b strings.Builder
	table := func(title string, acts func(confine) []seen, cell func(seen) string) {
		rows := ""
		for i, s := range acts(c.Modes[0]) {
			var cells strings.Builder
			differs := false
			for _, m := range c.Modes {
				is := ""
				if len(acts(m)) > i {
					is = cell(acts(m)[i])
					differs = differs || is != cell(s)
				}
				cells.WriteString(" " + is + " |")
			}
			if differs {
				rows += s.row(cells.String())
			}
		}
		if rows == "" {
			return
		}
		b.WriteString("\n| " + title + " |")
		for _, m := range c.Modes {
			b.WriteString(" `" + m.Mode + "` |")
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(c.Modes)) + "\n" + rows)
	}
	table("turn in the sandbox", func(m confine) []seen { return m.Turn }, seen.inTurn)
	table("unwanted, in the sandbox", func(m confine) []seen { return m.Alone }, seen.alone)
	for _, m := range c.Modes {
		if m.Turn == nil {
			b.WriteString("\nWith `" + m.Mode + "`: " + strings.Join(m.Ends, "; ") + "\n")
		}
	}
	return b.String()
}

// sandboxed reads what was observed of an agent in the sandbox.
func sandboxed(t *testing.T, id string) (c confined) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sandbox", id+".json"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatalf("%s was not observed in the sandbox; run make agents: %v", id, err)
	}
	return c
}
