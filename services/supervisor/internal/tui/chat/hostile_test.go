package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	"github.com/charmbracelet/x/ansi"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// evil is text that an agent may send anywhere.
const evil = "x\x1b]0;title\x07\x1b[2J\x1b[31m\u202e\u2066\x9b1m\x00\rEVIL\r\n\x1bPq#\x1b\\y"

// harm returns the sequences in a text that a terminal would obey, except acphost's own colors.
func harm(text string) string {
	text = ansi.Strip(text)
	for _, c := range text {
		switch {
		case c == '\n' || c == '\t':
		case c < ' ' || c >= 0x7f && c < 0xa0 || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069:
			return string(c)
		}
	}
	return ""
}

func TestScreen_RemovesEscapesOfAgent(t *testing.T) {
	s := newScreen(t, 80, 40, func(o *Options) { o.Color = true })
	check := func(where string) {
		t.Helper()
		view, out := s.m.View().Content, strings.Join(s.m.out, "\n")
		for _, text := range []string{view, out} {
			if h := harm(text); h != "" || strings.Contains(text, "\x1b]") || strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\x1bP") {
				t.Errorf("%s: %q is obeyed in %q", where, h, text)
			}
		}
		s.m.out = nil
	}
	a := testAgent()
	a.Name, a.Info.Title, a.Info.Version = evil, evil, evil
	a.Info.AuthMethods = []*supervisorv1.AuthMethod{{Id: evil, Name: evil, Description: evil}}
	s.send(startedMsg{agent: a})
	check("the agent")
	o := testSession()
	o.Title, o.Mode, o.Modes[0].Id, o.Modes[0].Name, o.Modes[1].Name = evil, evil, evil, evil, evil
	o.Options[0].Name, o.Options[0].Choices[0].Name, o.Options[0].Choices[1].Value = evil, evil, evil
	o.Commands[0].Description, o.Commands[0].InputHint, o.Commands[1].Name = evil, proto.String(evil), evil
	o.Usage.Currency = evil
	s.send(openedMsg{session: o, how: "new"})
	check("the session")
	for _, text := range []string{"/", "//help", "/mode", "/model", "/set", "/mode nothing", "/set model nothing", "/frob" + "nicate"} {
		s.m.edit.Set(text)
		s.m.completion()
		check(text + " is written")
		s.press("enter")
		check(text)
		s.press("esc", "ctrl+u")
	}
	s.write("go")
	s.press("enter")
	content := []*supervisorv1.ToolCallContent{
		{Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "/" + evil, OldText: proto.String(evil), NewText: evil + "z"}}},
		{Item: &supervisorv1.ToolCallContent_Content{Content: textBlock(evil)}},
	}
	tool := toolCall(evil, evil, evil, evil)
	tool.GetToolCall().Content, tool.GetToolCall().ContentSet = content, true
	s.emit(chunk(evil), tool, planOf(evil, evil, "pending", evil))
	check("what is under way")
	q := permission("claude-1/7")
	q.Permission.Title, q.Permission.Kind, q.Permission.RawInput, q.Permission.Reason = evil, evil, `{"command":"`+"\u202e"+`\u001b[2J"}`, evil
	q.Permission.Content = content
	q.Permission.Options[0].Name, q.Permission.Options[1].Kind, q.Permission.Options[2].OptionId = evil, evil, evil
	form := &supervisorv1.Approval{Id: "claude-1/8", Elicitation: &supervisorv1.Elicitation{
		Mode: "form", Message: evil,
		RequestedSchema: `{"properties":{"\u001b[2J":{"type":"string","title":"\u001b[2J","description":"\u202e","pattern":"^\u001b$","default":"\u001b[2J"}}}`,
	}}
	page := &supervisorv1.Approval{Id: "claude-1/9", Elicitation: &supervisorv1.Elicitation{Mode: "url", Message: evil, Url: "https://b\u0430nk.example/" + evil}}
	for _, a := range []*supervisorv1.Approval{q, form, page} {
		s.asked(a)
		check("a question")
		s.wait(time.Second)
		s.press("x", "enter")
		check("a key for a question")
		s.send(answeredMsg{id: a.GetId(), answer: &supervisorv1.ApprovalAnswer{Id: a.GetId(), Outcome: evil, AnsweredBy: evil}})
		check("an answer")
	}
	s.emit(&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{
		StopReason: evil, Error: &supervisorv1.AgentError{Message: evil, StderrTail: []string{evil}, Kind: supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED},
	}}})
	s.send(turnMsg{turn: 1, err: errEOF})
	check("the end of a turn")
	gone := proto.Clone(a).(*supervisorv1.Agent)
	gone.State, gone.Error, gone.StderrTail = supervisorv1.AgentState_AGENT_STATE_FAILED, &supervisorv1.AgentError{Message: evil}, []string{evil}
	s.send(watchMsg{events: []*supervisorv1.Event{
		{Event: &supervisorv1.Event_Handler{Handler: &supervisorv1.HandlerChanged{Name: evil, State: "failed", Error: evil}}},
		{SessionId: "s1", Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: evil}}},
		{Event: &supervisorv1.Event_Agent{Agent: gone}},
	}})
	check("the agent's end")
	s.m.phase = ready
	s.send(storedMsg{sessions: []*supervisorv1.StoredSession{{SessionId: evil, Title: evil, UpdatedAt: evil}}})
	check("stored sessions")
	s.press("esc")
	bad := errors.New(evil)
	for _, msg := range []tea.Msg{
		storedMsg{err: bad}, sessionMsg{err: bad, what: "mode"}, answeredMsg{id: "x", err: bad}, noteMsg(evil), noticeMsg{text: evil}, openedMsg{err: bad},
	} {
		s.send(msg)
		check(fmt.Sprintf("%T", msg))
	}
	s.m.phase, s.m.session = ready, testSession()
	s.press("esc")
	state := testSession()
	state.Files = []*supervisorv1.TouchedFile{{Path: "/" + evil, Reads: 1}}
	state.Tools, state.ToolKinds = map[string]uint64{evil: 1}, map[string]uint64{evil: 1}
	for _, what := range []string{"files", "tools", "usage"} {
		s.send(sessionMsg{session: state, what: what})
		check(what)
	}
}
