package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// outsideRules ask about everything outside of the workspace, but for a folder that a rule names.
func outsideRules(allowed string) string {
	return `
version: 1
rules:
  - {id: secrets, effect: deny, path: ["**/.env"], reason: Secrets stay where they are.}
  - {id: inside, effect: allow, on: [fs.read, fs.write, tool.edit], path: ["${root}/**"]}
  - {id: notes, effect: allow, on: [fs.read, fs.write], path: ["` + allowed + `/**"]}
  - {id: texts, effect: allow, on: [fs.read], path: ["**/*.txt"]}
`
}

// outsider is a fixture with a folder outside of its workspace.
type outsider struct {
	*e2e.Fixture
	dir string
}

func newOutsider(t *testing.T) (*e2e.Place, outsider) {
	t.Helper()
	p := e2e.NewPlace(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := outsider{dir: dir}
	o.put(t, "f", "old")
	o.Fixture = p.Fixture(t, p.Policy(t, outsideRules(dir+"/notes"), ""))
	return p, o
}

func (o outsider) at(name string) string { return filepath.Join(o.dir, name) }

func (o outsider) put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(o.at(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.at(name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (o outsider) holds(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(o.at(name))
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
	}
}

func (o outsider) reads(path string) *wire.Call {
	return o.Agent.Send("fs/read_text_file", e2e.Params("path", path))
}

func (o outsider) writes(path, text string) *wire.Call {
	return o.Agent.Send("fs/write_text_file", e2e.Params("path", path, "content", text))
}

// no answers acphost's question about a call with no, and demands that the call is refused.
func (o outsider) no(c *wire.Call) {
	o.T.Helper()
	q := o.Asked()
	o.Choose(q, "reject_once")
	c.Refused(-32603)
	o.Status(q, "failed")
}

// diff is a tool call that shows an edit.
func (o outsider) diff(id, path, was, becomes string) map[string]any {
	return map[string]any{"toolCallId": id, "title": "Edit", "kind": "edit",
		"content": []any{map[string]any{"type": "diff", "path": path, "oldText": was, "newText": becomes}}}
}

// answers answers the agent's own question, and returns the response to the agent.
func (o outsider) answers(t *testing.T, call map[string]any, option string) string {
	t.Helper()
	asked := o.Ask(call, e2e.Options)
	q := o.Expect("session/request_permission")
	o.Reply(q, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}})
	return e2e.Chosen(t, asked)
}

func TestOutside_AllowedWrite(t *testing.T) {
	t.Parallel()
	_, o := newOutsider(t)
	write := o.writes(o.at("f"), "new")
	q := o.Asked()
	if c := q.Params.ToolCall.Content; len(c) != 2 || c[1].OldText == nil || *c[1].OldText != "old" || c[1].NewText != "new" {
		t.Errorf("the person is shown %+v, want the reason and the diff", c)
	}
	e2e.ExpectContains(t, "the question", q.Params.ToolCall.Title, "outside the workspace")
	o.Choose(q, "allow_once")
	o.Status(q, "in_progress")
	write.Result(nil)
	o.holds(t, "f", "new")
	o.Status(q, "completed")

	read := o.reads(o.at("f"))
	q = o.Asked()
	o.Choose(q, "allow_once")
	if got := e2e.Content(read); got != "new" {
		t.Errorf("the read returned %q", got)
	}
	o.Status(q, "in_progress")
	o.Status(q, "completed")

	// Once is once, and no is no.
	o.no(o.writes(o.at("f"), "again"))
	o.holds(t, "f", "new")
}

func TestOutside_ShownWriteIsAskedOnce(t *testing.T) {
	t.Parallel()
	p, o := newOutsider(t)
	if got := o.answers(t, o.diff("e", o.at("f"), "old", "new"), "yes"); got != "yes" {
		t.Fatalf("the agent got %q", got)
	}
	o.writes(o.at("f"), "new").Result(nil)
	o.holds(t, "f", "new")
	if d := lastDecision(t, p); d.AnsweredBy != "earlier answer" || d.Outcome != "allowed" {
		t.Errorf("the write was decided by %+v", d)
	}
	// The same again is asked about: the answer was for one write.
	o.no(o.writes(o.at("f"), "new"))

	// A new file.
	if got := o.answers(t, o.diff("n", o.at("sub/new"), "", "made"), "yes"); got != "yes" {
		t.Fatalf("the agent got %q", got)
	}
	o.writes(o.at("sub/new"), "made").Result(nil)
	o.holds(t, "sub/new", "made")
}

func TestOutside_AnswerCoversShownContent(t *testing.T) {
	t.Parallel()
	_, o := newOutsider(t)
	o.put(t, "hidden", "secret")
	// The diff is of a file inside; the location names another, which people need not see.
	call := o.diff("e", o.Path("inside"), "", "x")
	call["locations"] = []any{map[string]any{"path": o.at("hidden")}}
	call["rawInput"] = map[string]any{"path": o.at("hidden")}
	if got := o.answers(t, call, "yes!"); got != "yes!" {
		t.Fatalf("the agent got %q", got)
	}
	o.no(o.reads(o.at("hidden")))
	o.no(o.writes(o.at("hidden"), "x"))
	o.holds(t, "hidden", "secret")
}

func TestOutside_SwappedFileIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path string
		swap func(t *testing.T, o outsider)
	}{
		"a link of the workspace": {"link", func(t *testing.T, o outsider) {
			replace(t, o.Path("link"), func(at string) error { return os.Symlink(o.at("victim"), at) })
		}},
		"the file, by a link": {"f", func(t *testing.T, o outsider) {
			replace(t, o.at("f"), func(at string) error { return os.Symlink(o.at("victim"), at) })
		}},
		"its folder, by a link": {"sub/f", func(t *testing.T, o outsider) {
			replace(t, o.at("sub"), func(at string) error { return os.Symlink(o.at("elsewhere"), at) })
		}},
		"the file, by a hard link to another": {"f", func(t *testing.T, o outsider) {
			replace(t, o.at("f"), func(at string) error { return os.Link(o.at("victim"), at) })
		}},
		"its folder, by another": {"sub/f", func(t *testing.T, o outsider) {
			replace(t, o.at("sub"), func(at string) error { return os.Rename(o.at("elsewhere"), at) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, o := newOutsider(t)
			o.put(t, "sub/f", "old")
			o.put(t, "elsewhere/f", "victim")
			o.put(t, "victim", "victim")
			path := o.at(c.path)
			if c.path == "link" {
				path = o.Path("link")
				if err := os.Symlink(o.at("f"), path); err != nil {
					t.Fatal(err)
				}
			}
			write := o.writes(path, "new")
			q := o.Asked()
			c.swap(t, o)
			o.Choose(q, "allow_once")
			refused := refusal(t, write)
			if strings.Contains(strings.ToLower(refused.Message), "not found") {
				t.Errorf("the agent is notified of a missing file: %s", refused.Message)
			}
			o.holds(t, "victim", "victim")
			for _, at := range []string{"elsewhere/f", "sub/f"} {
				if got, err := os.ReadFile(o.at(at)); err == nil && string(got) == "new" {
					t.Errorf("%s was written", at)
				}
			}
		})
	}
}

// refusal is the error that a call is answered with, of whatever code.
func refusal(t *testing.T, c *wire.Call) *wire.Error {
	t.Helper()
	m := c.Answer()
	if m.Error == nil {
		t.Fatalf("the call was answered with %s, want an error", m.Raw)
	}
	return m.Error
}

// replace puts something else in the place of a file or folder.
func replace(t *testing.T, at string, by func(at string) error) {
	t.Helper()
	if err := os.Rename(at, at+".away"); err != nil {
		t.Fatal(err)
	}
	if err := by(at); err != nil {
		t.Fatal(err)
	}
}

func TestOutside_ProtectedFileIsDenied(t *testing.T) {
	t.Parallel()
	p, o := newOutsider(t)
	o.put(t, "repo/.git/config", "[core]")
	o.put(t, ".env", "KEY=1")
	state := filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl")
	for name, c := range map[string]struct {
		call *wire.Call
		why  string
	}{
		"a folder":       {o.Agent.Send("fs/list_directory", e2e.Params("path", o.dir)), "rule acphost/outside"},
		"a device":       {o.writes("/dev/null", "x"), "rule acphost/outside"},
		"a process":      {o.reads("/proc/self/environ"), "rule acphost/outside"},
		"git's own":      {o.writes(o.at("repo/.git/config"), "x"), "rule acphost/git"},
		"acphost's own":  {o.writes(state, "x"), "rule acphost/protected"},
		"a denied file":  {o.reads(o.at(".env")), "rule secrets"},
		"a denied write": {o.writes(o.at("sub/../.env"), "x"), "rule secrets"},
	} {
		e2e.ExpectContains(t, name, refusal(t, c.call).Message, c.why)
	}
	o.holds(t, "repo/.git/config", "[core]")
}

func TestOutside_RuleNamesPath(t *testing.T) {
	t.Parallel()
	_, o := newOutsider(t)
	o.put(t, "notes/a", "noted")
	o.put(t, "b.txt", "text")
	if got := e2e.Content(o.reads(o.at("notes/a"))); got != "noted" {
		t.Errorf("the read returned %q", got)
	}
	o.writes(o.at("notes/new"), "new").Result(nil)
	o.holds(t, "notes/new", "new")
	// A rule that names no place leaves the file where it is.
	e2e.ExpectContains(t, "the agent's error", o.reads(o.at("b.txt")).Refused(-32602).Message, "Path escapes workspace")
	// A link in the place leads out of it.
	if err := os.Symlink(o.at("f"), o.at("notes/link")); err != nil {
		t.Fatal(err)
	}
	o.no(o.writes(o.at("notes/link"), "new"))
	o.holds(t, "f", "old")
}

func TestOutside_WithoutPolicy(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	out := filepath.Join(t.TempDir(), "f")
	asked := s.Ask(e2e.Edit(out), e2e.Options)
	q := s.Expect("session/request_permission")
	s.Reply(q, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	e2e.Chosen(t, asked)
	refused := s.Agent.Send("fs/write_text_file", e2e.Params("path", out, "content", "b")).Refused(-32602)
	e2e.ExpectContains(t, "the agent's error", refused.Message, "Path escapes workspace")
}

// TestOutside_LinkTargetIsNotShown: the agent's own request names only a link in the workspace. The write is asked
// about, with the target of the link.
func TestOutside_LinkTargetIsNotShown(t *testing.T) {
	t.Parallel()
	_, o := newOutsider(t)
	if err := os.Symlink(o.at("f"), o.Path("notes.md")); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"yes", "yes!"} {
		if got := o.answers(t, o.diff("e-"+option, o.Path("notes.md"), "old", "new"), option); got != option {
			t.Fatalf("the agent got %q", got)
		}
		write := o.writes(o.Path("notes.md"), "new")
		q := o.Asked()
		e2e.ExpectContains(t, "the question", q.Params.ToolCall.Title, "outside the workspace", "which is")
		o.Choose(q, "reject_once")
		write.Refused(-32603)
		o.Status(q, "failed")
		o.holds(t, "f", "old")
	}
}
