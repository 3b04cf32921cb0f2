package chat

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// FuzzModel presses keys and sends events of an agent in any order: nothing may panic, and the screen always fits.
func FuzzModel(f *testing.F) {
	f.Add("hi\r0T1T2Q~a3E", "go on")
	f.Add("/mode\r\x02\r//help\rQ~~\tq", "日本\u202e\x1b[2J")
	f.Add("aFx~\r~\r~\r", `{"properties":{"a":{"type":"boolean"},"b":{"type":"array","items":{"enum":["x"]}}}}`)
	f.Fuzz(func(t *testing.T, actions, text string) {
		if len(actions) > 200 || len(text) > 500 {
			return
		}
		text = strings.ToValidUTF8(text, "?")
		s := newScreen(t, 60, 18)
		for _, c := range actions {
			act(s, c, text)
			s.m.printIfNoRoom()
			if v := s.m.View(); strings.Count(v.Content, "\n") >= s.m.viewRows() || harm(v.Content) != "" {
				t.Fatalf("after %q the screen is %q", c, v.Content)
			}
			if h := harm(strings.Join(s.m.out, "\n")); h != "" {
				t.Fatalf("after %q, %q is printed", c, h)
			}
			s.m.out = nil
		}
	})
}

func act(s *screen, c rune, text string) {
	turn := 0
	if s.m.turn != nil {
		turn = s.m.turn.number
	}
	sends := func(ev *supervisorv1.Event) { s.send(turnMsg{turn: turn, events: []*supervisorv1.Event{ev}}) }
	approval := &supervisorv1.Approval{Id: text, SessionId: "s1"}
	switch c {
	case 'S':
		s.send(startedMsg{agent: testAgent()})
	case 'O':
		s.send(openedMsg{session: testSession(), how: "load"})
	case 'X':
		s.send(openedMsg{err: errEOF})
	case '0':
		sends(chunk(text))
	case 'T':
		sends(toolCall(text, text, "edit", "pending"))
	case 'U':
		sends(toolCall(text, text, "", "completed"))
	case 'P':
		sends(planOf("pending", text))
	case 'E':
		sends(turnEnd("end_turn"))
		s.send(turnMsg{turn: turn, err: errEOF})
	case 'Q':
		a := permission(text)
		a.Permission.Title = text
		s.asked(a)
	case 'F':
		approval.Elicitation = &supervisorv1.Elicitation{Mode: "form", Message: text, RequestedSchema: text}
		s.asked(approval)
	case 'G':
		approval.Elicitation = &supervisorv1.Elicitation{Mode: "url", Message: text, Url: text}
		s.asked(approval)
	case 'A':
		s.send(answeredMsg{id: text, answer: &supervisorv1.ApprovalAnswer{Id: text, Outcome: text}})
	case 'C':
		a := proto.Clone(testAgent()).(*supervisorv1.Agent)
		a.State = supervisorv1.AgentState(len(text) % 7)
		s.send(watchMsg{events: []*supervisorv1.Event{{Event: &supervisorv1.Event_Agent{Agent: a}}}})
	case 'D':
		s.send(watchMsg{events: []*supervisorv1.Event{{SessionId: "s1", Event: &supervisorv1.Event_SessionClosed{SessionClosed: &supervisorv1.SessionClosed{Reason: text}}}}})
	case 'L':
		s.send(storedMsg{sessions: []*supervisorv1.StoredSession{{SessionId: text, Title: text}}})
	case 'V':
		s.send(pasted(text))
	case 'W':
		s.send(tea.WindowSizeMsg{Width: len(text) % 90, Height: len(text) % 31})
	case '~':
		s.wait(time.Second)
		s.send(tickMsg{})
	case '\r':
		s.press("enter")
	case '\t':
		s.press("tab")
	case '\x01':
		s.press("shift+tab")
	case '\x02':
		s.press("down")
	case '\x03':
		s.press("up")
	case '\x04':
		s.press("esc")
	case '\x05':
		s.press("ctrl+c")
	case '\x06':
		s.press("backspace")
	default:
		s.send(tea.KeyPressMsg{Code: c, Text: string(c)})
	}
}
