package gemini_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/test/gemini"
	"github.com/acphost/acphost/test/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// editor answers for files itself and keeps what it was asked.
type editor struct {
	mu    sync.Mutex
	asked []string
}

func (e *editor) serve(p *wire.Process) {
	note := func(what, path string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.asked = append(e.asked, what+" "+filepath.Base(path))
	}
	p.Handle("fs/read_text_file", func(m wire.Message) (any, error) {
		var r struct{ Path string }
		if err := json.Unmarshal(m.Params, &r); err != nil {
			return nil, err
		}
		note("read", r.Path)
		text, err := os.ReadFile(r.Path)
		if errors.Is(err, os.ErrNotExist) {
			return map[string]any{"content": ""}, nil // with an error it cannot create a file
		}
		return map[string]any{"content": string(text)}, err
	})
	p.Handle("fs/write_text_file", func(m wire.Message) (any, error) {
		var w struct{ Path, Content string }
		if err := json.Unmarshal(m.Params, &w); err != nil {
			return nil, err
		}
		note("write", w.Path)
		return map[string]any{}, os.WriteFile(w.Path, []byte(w.Content), 0o600)
	})
	p.Handle("session/request_permission", func(m wire.Message) (any, error) {
		var r struct {
			Options []struct{ OptionID, Kind string }
		}
		if err := json.Unmarshal(m.Params, &r); err != nil {
			return nil, err
		}
		for _, o := range r.Options {
			if o.Kind == "allow_once" {
				note("permission", o.OptionID)
				return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": o.OptionID}}, nil
			}
		}
		return nil, errors.New("no allow_once on offer")
	})
	p.Handle("session/update", func(wire.Message) (any, error) { return nil, nil })
}

func TestGemini_WritesThroughClient(t *testing.T) {
	work := t.TempDir()
	old, edited, created := filepath.Join(work, "old.txt"), filepath.Join(work, "edited.txt"), filepath.Join(work, "new.txt")
	for path, text := range map[string]string{old: "old\n", edited: "one\ntwo\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model := gemini.Serve(t,
		gemini.Step{Text: "I'll overwrite a file.", Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": old, "content": "overwritten\n"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "replace", Args: map[string]any{"file_path": edited, "old_string": "two", "new_string": "three", "instruction": "count on"}}}},
		gemini.Step{Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": created, "content": "created\n"}}}},
		gemini.Step{Text: "All done."},
	)
	cli := wire.Start(t, wire.Options{Name: "editor", Command: gemini.Command(t), Dir: work, Env: model.Env(t)})
	e := &editor{}
	e.serve(cli)
	cli.Request("initialize", map[string]any{
		"protocolVersion":    1,
		"clientCapabilities": map[string]any{"fs": map[string]any{"readTextFile": true, "writeTextFile": true}, "terminal": true},
	}, nil)
	var session struct{ SessionID string }
	cli.Request("session/new", map[string]any{"cwd": work, "mcpServers": []any{}}, &session)
	var answer struct{ StopReason string }
	cli.Request("session/prompt", map[string]any{
		"sessionId": session.SessionID, "prompt": []any{map[string]any{"type": "text", "text": "Please."}},
	}, &answer)
	if answer.StopReason != "end_turn" {
		t.Errorf("the turn ended with %q, want end_turn", answer.StopReason)
	}
	for path, want := range map[string]string{old: "overwritten\n", edited: "one\nthree\n", created: "created\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", filepath.Base(path), got, err, want)
		}
	}
	for _, want := range []string{"write old.txt", "write edited.txt", "write new.txt"} {
		if !strings.Contains(strings.Join(e.asked, "\n"), want) {
			t.Errorf("the client was asked for %q, want %q among it", e.asked, want)
		}
	}
	if strange := model.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
}
