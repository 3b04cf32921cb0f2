package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// allWalls is the configuration with which a ready-made policy decides all that processes do.
const allWalls = "sandbox: {mode: enforce, reads: true, network: proxy}\n"

// walled is what was observed of an agent behind all walls: the data of a table in docs/agents.md, in testdata/walls.
type walled struct {
	Version string `json:"version"`
	// Starts are a first start of the agent, and one after it, with the same home folder.
	Starts []walledStart `json:"starts"`
}

// walledStart is one start of an agent, with a session.
type walledStart struct {
	// Acts are turns in which the user allows, for always if that is offered, what acphost asks.
	Acts []seen `json:"acts"`
	// Questions are all questions, also those that no act has to do with.
	Questions []string `json:"questions,omitempty"`
	// Refused are what a wall refused, each once.
	Refused []string `json:"refused,omitempty"`
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

// nameModels writes agents.json with the machines of the models beside those of the agent's built-in entry.
func (r *rig) nameModels(id string) {
	r.t.Helper()
	text, err := os.ReadFile("../../services/supervisor/internal/preset/builtin.json")
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

// everyday are the acts of a session: reading, looking, changing, testing and committing. Texts differ from one number to the next.
func (r *rig) everyday(t tools, number int) []act {
	greet, note := r.path("src/greet.js"), r.path(fmt.Sprintf("note-%d.txt", number))
	before, after := fmt.Sprintf("Hello%d", number), fmt.Sprintf("Hello%d", number+1)
	change := t.write
	if change == nil {
		change = t.patch
	}
	line := fmt.Sprintf("git add -A && git -c user.name=A -c user.email=a@example.com commit -q -m Next%d && git log --oneline -1", number)
	return []act{
		{does: "reads a file", call: t.read(greet), answer: before},
		{does: "runs `ls -la`", call: t.run("ls -la"), answer: "package.json"},
		{does: "runs `git status`", call: t.run("git status"), answer: "On branch main"},
		{does: "writes a file", call: change(note, "written\n"), changed: func() bool { return holds(note, "written") }},
		{does: "edits a file", call: t.edit(greet, before, after), changed: func() bool { return holds(greet, after) }},
		{does: "runs the tests, `npm test`", call: t.run("npm test"), answer: "all tests pass"},
		{does: "runs `git commit`", call: t.run(line), answer: fmt.Sprintf("Next%d", number)},
	}
}

// The agents as they are, behind all walls.
func TestAgentsBehindAllWalls(t *testing.T) {
	for _, c := range slices.Concat(candidates, others) {
		t.Run(c.id, func(t *testing.T) {
			if c.folder != "" {
				located(t, c.folder, c.command)
			} else {
				executable(t, c.command)
			}
			c.behindWalls(t)
		})
	}
}

// behindWalls starts an agent twice in one home folder, and has it work in a session each time.
func (c *candidate) behindWalls(t *testing.T) walled {
	t.Helper()
	r := newRigWith(t, "workspace", allWalls)
	r.walled, r.tries = true, true
	r.project()
	r.file("src/greet.js", "exports.greet = (name) => \"Hello0, \" + name;\n")
	t.Cleanup(r.logRefusals)
	var all walled
	for number := range 2 {
		s := walledStart{}
		agent, m := c.launch(r)
		if agent == nil {
			t.Errorf("start %d: %s", number, r.anonymous(r.unstarted.Error()))
			break
		}
		all.Version = agent.GetInfo().GetVersion()
		resp, err := r.Sessions.NewSession(r.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: r.work})
		if err != nil {
			t.Errorf("start %d: no session: %s", number, r.anonymous(explain(err).Error()))
			break
		}
		for _, a := range r.everyday(c.tools, number) {
			first := r.play(resp.GetSession(), m, a, "allow_always")
			if asked := len(first.Questions) > 0; !first.Worked && asked {
				again := r.play(resp.GetSession(), m, a, "allow_always")
				first.Again, first.Worked = again.Worked, again.Worked
				first.Questions = append(first.Questions, again.Questions...)
			}
			s.Questions = append(s.Questions, first.Questions...)
			s.Acts = append(s.Acts, first)
			t.Logf("start %d: %s: done %v %v, asked %q", number, first.Does, first.Worked, first.Again, first.Questions)
			if !first.Worked {
				bodies := m.Requests()
				t.Logf("   heard: %s", r.anonymous(heard(bodies[len(bodies)-2], bodies[len(bodies)-1])))
			}
		}
		all.Starts = append(all.Starts, s)
		if strange := m.Strange(); len(strange) > 0 {
			t.Logf("the model was asked what it does not know: %q", strange)
		}
		if _, err := r.Agents.StopAgent(r.ctx, &supervisorv1.StopAgentRequest{AgentId: agent.GetId()}); err != nil {
			t.Errorf("stop: %v", explain(err))
		}
	}
	r.finish()
	for i, s := range all.Starts {
		t.Logf("RESULT %s start %d: %d of %d done, %d questions", c.id, i, s.done(), len(s.Acts), len(s.Questions))
	}
	return all
}

// logRefusals logs what walls refused, and the requests of the agent that the policy did not decide, each once with its number.
func (r *rig) logRefusals() {
	r.t.Helper()
	count := map[string]int{}
	var order []string
	for _, d := range r.decisions() {
		a := d.GetAction()
		kernel := a.GetDoor() == permissionv1.Door_DOOR_KERNEL
		if a == nil || kernel && d.GetOutcome() == "allowed" || !kernel && d.GetAnsweredBy() == "policy" {
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
