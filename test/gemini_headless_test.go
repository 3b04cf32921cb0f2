package e2e_test

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/gemini"
)

func TestGeminiIsDrivenWithoutAnEditor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := p.file(t, "a.txt", "old\n")
	model := gemini.Serve(t,
		gemini.Step{Text: "I'll overwrite a file.", Calls: []gemini.Call{{Name: "write_file", Args: map[string]any{"file_path": file, "content": "new\n"}}}},
		gemini.Step{Text: "All done."},
		gemini.Step{Text: "Still here."},
	)
	s := p.serve(t, nil)
	req := &supervisorv1.StartAgentRequest{Command: gemini.Command(t), Name: "gemini", Cwd: p.work, Env: map[string]*supervisorv1.EnvValue{}}
	for _, e := range model.Env(t) {
		if name, v, _ := strings.Cut(e, "="); name != "PATH" && name != "TMPDIR" && name != "LANG" {
			req.Env[name] = value(v)
		}
	}
	agent := s.start(req)
	if i := agent.GetInfo(); i.GetVersion() == "" || !i.GetCapabilities().GetPromptImage() || len(i.GetAuthMethods()) == 0 {
		t.Errorf("the agent says %v", i)
	}
	opened := s.open(agent.GetId())
	if len(opened.GetModes()) == 0 || opened.GetMode() == "" {
		t.Errorf("the session is %v, want its modes", opened)
	}
	id := opened.GetSessionId()
	answered := s.answerAll(s.ctx)
	turn := s.prompt(id, "Please.")
	turn.stopped("end_turn")
	expectFile(t, file, "new\n")
	k := kinds(turn.seen)
	if k["question_asked"] != 1 || k["question_answered"] != 1 || k["tool_call"] == 0 && k["tool_call_update"] == 0 || k["call_started"] == 0 {
		t.Errorf("there were the events %v", k)
	}
	for _, e := range turn.seen {
		if q := e.GetQuestionAsked().GetPermission(); q != nil && (len(q.GetContent()) == 0 || q.GetContent()[0].GetDiff().GetNewText() != "new\n") {
			t.Errorf("the question shows %v", q)
		}
	}
	expectContains(t, "the agent's message", turn.said(), "I'll overwrite a file.", "All done.")
	turn = s.prompt(id, "And?")
	turn.stopped("end_turn")
	expectContains(t, "the agent's message", turn.said(), "Still here.")
	if strange := model.Strange(); len(strange) > 0 {
		t.Errorf("the model was asked what it does not know: %q", strange)
	}
	s.finish()
	<-answered
}
