package headless_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/gemini"
	"github.com/acphost/acphost/test/wire"
)

// geminiTurn plays a turn of Gemini CLI through acphost. The editor allows what it is asked, and serves nothing else.
func geminiTurn(t *testing.T, p *e2e.Place, model *gemini.Server, flags []string) *e2e.Host {
	t.Helper()
	command := gemini.Command(t)
	// Gemini's environment reaches it through the supervisor, but for the place's own marks.
	var env []string
	for _, e := range model.Env(t) {
		if name, _, _ := strings.Cut(e, "="); name != "PATH" && name != "TMPDIR" && name != "LANG" {
			env = append(env, e)
		}
	}
	h := p.Start(t, append([]string{"--log-level", "debug", "--log-format", "json", "--agent-name", "gemini"}, flags...), command, env...)
	h.Handle("session/request_permission", allowOnce)
	h.Initialize(`{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}`).Result(nil)
	var session struct{ SessionID string }
	h.Request("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}, &session)
	var answer struct{ StopReason string }
	h.Request("session/prompt", map[string]any{
		"sessionId": session.SessionID, "prompt": []any{map[string]any{"type": "text", "text": "Please."}},
	}, &answer)
	if answer.StopReason != "end_turn" {
		t.Errorf("the turn ended with %q, want end_turn", answer.StopReason)
	}
	if strange := model.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
	return h
}

// allowOnce answers a question with what allows it once.
func allowOnce(m wire.Message) (any, error) {
	var r struct {
		Options []struct{ OptionID, Kind string }
	}
	if err := json.Unmarshal(m.Params, &r); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(r.Options, func(o struct{ OptionID, Kind string }) bool { return o.Kind == "allow_once" })
	if i < 0 {
		return nil, &wire.Error{Code: -32602, Message: "no option allows it once"}
	}
	return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": r.Options[i].OptionID}}, nil
}

func TestGemini_WritesThroughFsd(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	old, edited, created := p.File(t, "old.txt", "old\n"), p.File(t, "edited.txt", "one\ntwo\n"), p.Path("sub/new.txt")
	model := gemini.Serve(t,
		gemini.Step{Text: "I'll overwrite a file.", Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": old, "content": "overwritten\n"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "replace", Args: map[string]any{"file_path": edited, "old_string": "two", "new_string": "three", "instruction": "count on"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": created, "content": "created\n"}}}},
		gemini.Step{Text: "All done."},
	)
	h := geminiTurn(t, p, model, nil)
	for path, want := range map[string]string{old: "overwritten\n", edited: "one\nthree\n", created: "created\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", path, got, err, want)
		}
	}
	// Only fsd can have written them: the editor received no request, and fsd did.
	for _, m := range h.Waiting() {
		if m.Method != "session/update" {
			t.Errorf("the editor was sent %s", m.Raw)
		}
	}
	routed := map[string]int{}
	for line := range strings.Lines(h.Stderr()) {
		var event struct{ Msg, Method, Handler, Error string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "routed" && event.Handler == "fs" {
			routed[event.Method]++
		}
	}
	if routed["fs/write_text_file"] != 3 || routed["fs/read_text_file"] < 3 {
		t.Errorf("fsd answered %v, want 3 writes, and a read before each", routed)
	}
	if status := h.Finish(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}

func TestGemini_AsksOnceForEachEdit(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	old, edited, created := p.File(t, "old.txt", "old\n"), p.File(t, "edited.txt", "\ufeffone\ntwo"), p.Path("sub/new.txt")
	p.File(t, "../config/policy.yaml", "version: 1\nrules: [{id: look, effect: allow, on: [fs.read, fs.list, tool.read, tool.search]}]\n")
	model := gemini.Serve(t,
		gemini.Step{Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": old, "content": "overwritten\n"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "replace", Args: map[string]any{"file_path": edited, "old_string": "two", "new_string": "three", "instruction": "count on"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "replace", Args: map[string]any{"file_path": edited, "old_string": "one", "new_string": "1", "instruction": "count on"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": created, "content": "created\n"}}}},
		gemini.Step{Text: "All done."},
	)
	h := geminiTurn(t, p, model, p.Config(t, "permission: {policy: policy.yaml}\n"))
	for path, want := range map[string]string{old: "overwritten\n", edited: "\ufeff1\nthree", created: "created\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", path, got, err, want)
		}
	}
	earlier := 0
	for line := range strings.Lines(h.Stderr()) {
		var event struct{ Msg, Action, By string }
		if json.Unmarshal([]byte(line), &event) != nil || event.Msg != "decided" || event.Action != "fs.write" {
			continue
		}
		if event.By != "earlier answer" {
			t.Errorf("a write was decided about anew: %s", line)
		}
		earlier++
	}
	if earlier != 4 {
		t.Errorf("%d writes passed for what was asked before, want 4", earlier)
	}
	h.Finish()
}

func TestGemini_FollowsPolicy(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	open, closed := p.File(t, "open.txt", "open\n"), p.File(t, "closed.txt", "closed\n")
	p.File(t, "../config/policy.yaml", `version: 1
rules:
  - {id: closed, effect: deny, path: ["/**/closed.txt"], reason: closed is closed}
  - {id: edits, effect: allow, on: [tool.edit, "fs.*"], path: ["${root}/**"]}
`)
	write := func(path string) gemini.Step {
		return gemini.Step{Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": path, "content": "written\n"}}}}
	}
	model := gemini.Serve(t, write(open), write(closed), gemini.Step{Text: "All done."})
	h := geminiTurn(t, p, model, p.Config(t, "permission: {policy: policy.yaml}\n"))
	for path, want := range map[string]string{open: "written\n", closed: "closed\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", path, got, err, want)
		}
	}
	e2e.ExpectContains(t, "the log", h.Stderr(), `"verdict":"allow"`, `"rule":"edits"`, `"verdict":"deny"`, `"rule":"closed"`)
	h.Finish()
}
