package headless_test

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/gemini"
)

func TestGemini_Headless(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	file := p.File(t, "a.txt", "old\n")
	model := gemini.Serve(t,
		gemini.Step{Text: "I'll overwrite a file.", Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": file, "content": "new\n"}}}},
		gemini.Step{Text: "All done."},
		gemini.Step{Text: "Still here."},
	)
	s := p.Serve(t, nil)
	req := &supervisorv1.StartAgentRequest{Command: gemini.Command(t), Name: "gemini", Cwd: p.Work, Env: map[string]*supervisorv1.EnvValue{}}
	for _, e := range model.Env(t) {
		if name, v, _ := strings.Cut(e, "="); name != "PATH" && name != "TMPDIR" && name != "LANG" {
			req.Env[name] = e2e.Value(v)
		}
	}
	agent := s.Start(req)
	if i := agent.GetInfo(); i.GetVersion() == "" || !i.GetCapabilities().GetPromptImage() || len(i.GetAuthMethods()) == 0 {
		t.Errorf("the agent sends %v", i)
	}
	opened := s.Open(agent.GetId())
	if len(opened.GetModes()) == 0 || opened.GetMode() == "" {
		t.Errorf("the session is %v, want its modes", opened)
	}
	id := opened.GetSessionId()
	answered := s.AnswerAll(s.Ctx)
	turn := s.Prompt(id, "Please.")
	turn.Stopped("end_turn")
	e2e.ExpectFile(t, file, "new\n")
	k := e2e.Kinds(turn.Seen)
	if k["question_asked"] != 1 || k["question_answered"] != 1 || k["tool_call"] == 0 && k["tool_call_update"] == 0 || k["call_started"] == 0 {
		t.Errorf("there were the events %v", k)
	}
	for _, e := range turn.Seen {
		if q := e.GetQuestionAsked().GetPermission(); q != nil && (len(q.GetContent()) == 0 || q.GetContent()[0].GetDiff().GetNewText() != "new\n") {
			t.Errorf("the question shows %v", q)
		}
	}
	e2e.ExpectContains(t, "the agent's message", turn.Said(), "I'll overwrite a file.", "All done.")
	turn = s.Prompt(id, "And?")
	turn.Stopped("end_turn")
	e2e.ExpectContains(t, "the agent's message", turn.Said(), "Still here.")
	if strange := model.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
	s.Finish()
	<-answered
}
