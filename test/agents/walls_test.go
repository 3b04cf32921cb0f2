package agents

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// allWalls is the configuration with which a ready-made policy decides all that processes do.
const allWalls = "sandbox: {mode: enforce, reads: true, network: proxy}\n"

// walled is the observed behavior of an agent with all restrictions: the data of a table in docs/agents.md, in
// testdata/walls.
type walled struct {
	Title   string `json:"title"`
	Version string `json:"version"`
	// Starts are a first start of the agent, and one after it, with the same home folder.
	Starts []walledStart `json:"starts"`
}

// walledStart is one start of an agent, with a session.
type walledStart struct {
	// Acts are turns in which the user allows what acphost asks, for always if that is offered.
	Acts []seen `json:"acts"`
	// Refused is how many different actions were refused without a question.
	Refused int `json:"refused"`
}

// questions returns how many questions the user was asked.
func (s walledStart) questions() (n int) {
	for _, a := range s.Acts {
		n += len(a.Questions)
	}
	return n
}

// done returns how many acts were done.
func (s walledStart) done() (n int) {
	for _, a := range s.Acts {
		if a.Worked {
			n++
		}
	}
	return n
}

// nameModels writes agents.json with the machines of the models, in addition to those of the agent's built-in entry.
func (r *rig) nameModels(id string) {
	r.t.Helper()
	text, err := os.ReadFile("../../services/supervisor/internal/config/preset/builtin.json")
	if err != nil {
		r.t.Fatal(err)
	}
	var builtin struct {
		Agents []struct {
			ID      string
			Acphost struct{ Aliases, Hosts []string }
		}
	}
	if err := json.Unmarshal(text, &builtin); err != nil {
		r.t.Fatal(err)
	}
	hosts := slices.Clone(r.models)
	for _, a := range builtin.Agents {
		if a.ID == id || slices.Contains(a.Acphost.Aliases, id) {
			id, hosts = a.ID, append(hosts, a.Acphost.Hosts...)
			break
		}
	}
	own, err := json.Marshal(map[string]any{"agents": []any{map[string]any{"id": id, "acphost": map[string]any{"hosts": hosts}}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.file("../.config/acphost/agents.json", string(own))
}

// everyday are the acts of a session: reading, looking, changing, testing and committing. Texts differ from one number
// to the next.
func (r *rig) everyday(t tools, number int) []act {
	greet, note := r.path("src/greet.js"), r.path(fmt.Sprintf("note-%d.txt", number))
	before, after := fmt.Sprintf("Hello%d", number), fmt.Sprintf("Hello%d", number+1)
	change := t.write
	if change == nil {
		change = t.patch
	}
	const commit = "git add -A && git -c user.name=A -c user.email=a@example.com commit -q -m Next && git rev-list --count HEAD | sed s/^/commits=/"
	return []act{
		{does: "reads a file", call: t.read(greet), answer: before},
		{does: "runs `ls -la`", call: t.run("ls -la"), answer: "package.json"},
		{does: "runs `git status`", call: t.run("git status"), answer: "On branch main"},
		{does: "writes a file", call: change(note, "written\n"), changed: func() bool { return holds(note, "written") }},
		{does: "edits a file", call: t.edit(greet, before, after), changed: func() bool { return holds(greet, after) }},
		{does: "runs the tests, `npm test`", call: t.run("npm test"), answer: "all tests pass"},
		{does: "runs `git commit`", call: t.run(commit), answer: fmt.Sprintf("commits=%d", number+2)},
	}
}

// TestAgents_WorkBehindAllWalls runs unmodified agents. With -update it writes its observations, from which
// docs/agents.md is generated.
func TestAgents_WorkBehindAllWalls(t *testing.T) {
	for _, c := range slices.Concat(candidates, others) {
		t.Run(c.id, func(t *testing.T) {
			if c.folder != "" {
				located(t, c.folder, c.command)
			} else {
				executable(t, c.command)
			}
			got := c.behindWalls(t)
			for i, s := range got.Starts {
				t.Logf("start %d: %d of %d acts done, %d questions, %d refusals", i+1, s.done(), len(s.Acts), s.questions(), s.Refused)
				if s.done() < len(s.Acts) || s.questions() > 1 {
					t.Errorf("start %d: %d of %d acts were done with %d questions; want all with at most one", i+1, s.done(), len(s.Acts), s.questions())
				}
			}
			if f := flag.Lookup("update"); t.Failed() || f == nil || f.Value.String() != "true" { // what is refused differs from run to run
				return
			}
			text, err := json.MarshalIndent(got, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join("walls", c.id+".json"), string(text)+"\n")
		})
	}
}

// behindWalls starts an agent twice in one home folder, and has it work in a session each time.
func (c *candidate) behindWalls(t *testing.T) walled {
	t.Helper()
	r := newRigWith(t, "workspace", allWalls)
	t.Cleanup(r.logRefusals)
	r.walled = true
	r.project()
	r.file("src/greet.js", "exports.greet = (name) => \"Hello0, \" + name;\n")
	all := walled{Title: c.title}
	for number := range 2 {
		began := time.Now()
		agent, m := c.launch(r)
		all.Version = agent.GetInfo().GetVersion()
		session, s := r.open(agent), walledStart{}
		for _, a := range r.everyday(c.tools, number) {
			act := r.play(session, m, a, "allow_always")
			if !act.Worked && len(act.Questions) > 0 {
				again := r.play(session, m, a, "allow_always")
				act.Again, act.Worked, act.Questions = again.Worked, again.Worked, append(act.Questions, again.Questions...)
			}
			t.Logf("start %d: %s: done %t, asked %q", number+1, act.Does, act.Worked, act.Questions)
			if bodies := m.Requests(); !act.Worked && len(bodies) > 1 {
				t.Logf("the model received %s", r.anonymous(heard(bodies[len(bodies)-2], bodies[len(bodies)-1])))
			}
			act.Call = ""
			s.Acts = append(s.Acts, act)
		}
		if _, err := r.Agents.StopAgent(r.ctx, &supervisorv1.StopAgentRequest{AgentId: agent.GetId()}); err != nil {
			t.Fatal(explain(err))
		}
		s.Refused = r.refused(began)
		all.Starts = append(all.Starts, s)
	}
	r.finish()
	return all
}

// refused counts the different actions of processes that were refused since a time, without a question to the user.
func (r *rig) refused(since time.Time) int {
	r.t.Helper()
	var all []string
	for _, d := range r.decisions() {
		a := d.GetAction()
		if a.GetDoor() != permissionv1.Door_DOOR_KERNEL || d.GetOutcome() == "allowed" || d.GetTime().AsTime().Before(since) {
			continue
		}
		all = append(all, strings.Join([]string{a.GetKind(), a.GetCommand().GetText(), fmt.Sprint(a.GetPaths()), fmt.Sprint(a.GetEndpoint())}, " "))
	}
	return len(once(all))
}

// wallsSection is the table of docs/agents.md.
func wallsSection(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(wallsHead)
	for _, c := range slices.Concat(candidates, others) {
		text, err := os.ReadFile(filepath.Join("testdata", "walls", c.id+".json"))
		var w walled
		if err == nil {
			err = json.Unmarshal(text, &w)
		}
		if err != nil {
			t.Fatalf("%s was not observed behind all walls; run make agents: %v", c.title, err)
		}
		fmt.Fprintf(&b, "| %s | %s |", w.Title, w.Version)
		for _, s := range w.Starts {
			fmt.Fprintf(&b, " %d of %d | %d | %d |", s.done(), len(s.Acts), s.questions(), s.Refused)
		}
		b.WriteString("\n")
	}
	return b.String()
}

const wallsHead = `
## In the sandbox

With all three [walls](sandbox.md#walls) and the policy ` + "`workspace`" + `, each agent is started twice with the same home folder.
In each session it reads a file, runs ` + "`ls -la`, `git status`, `npm test` and `git commit`" + `, and writes and edits files.
The user allows what is asked, for always if the agent or acphost offers that. *Done* counts actions that succeeded at the first attempt,
or at the second after a question. *Refused* counts different actions that were refused without a question. Agents often
work without such an action, for example a connection for telemetry. The [reference](reference-agents.md#sandbox-modes)
compares the modes of the sandbox.

| agent | version | first start: done | questions | refused | second start: done | questions | refused |
|---|---|---|---|---|---|---|---|
`

// logRefusals logs what walls refused and what the user was asked about, each once with its number.
func (r *rig) logRefusals() {
	r.t.Helper()
	count := map[string]int{}
	var order []string
	for _, d := range r.decisions() {
		a := d.GetAction()
		asked := d.GetAnsweredBy() == "tester"
		if a == nil || !asked && (a.GetDoor() != permissionv1.Door_DOOR_KERNEL || d.GetOutcome() == "allowed") {
			continue
		}
		about := []string{a.GetCommand().GetText()}
		for _, p := range a.GetPaths() {
			about = append(about, p.GetPath())
		}
		if to := a.GetEndpoint(); to != nil {
			about = append(about, fmt.Sprintf("%s:%d", to.GetHost(), to.GetPort()))
		}
		line := r.anonymous(fmt.Sprintf("%s%s %s: %s", r.line(d), strings.Join(about, " "), a.GetTitle(), d.GetReason()))
		if d.GetSessionId() == "" {
			line = "before a session: " + line
		}
		if count[line]++; count[line] == 1 {
			order = append(order, line)
		}
	}
	for _, line := range order {
		r.t.Logf("%d x %s", count[line], line)
	}
}
