package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestKeys_EditText(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys string
		want string // of the input; "|" is the cursor
	}{
		{"letters are written", "a b c", "abc|"},
		{"alt+enter breaks the line", "a alt+enter b", "a\nb|"},
		{"ctrl+j breaks the line", "a ctrl+j b", "a\nb|"},
		{"left goes back", "a b left", "a|b"},
		{"left goes back over the end of a line", "a ctrl+j left left", "|a\n"},
		{"home and end stay on the line", "a ctrl+j b c home x end y", "a\nxbcy|"},
		{"backspace deletes the character before", "a b left backspace", "|b"},
		{"backspace joins lines", "a ctrl+j b home backspace", "a|b"},
		{"delete deletes the character after", "a b home delete", "|b"},
		{"ctrl+w deletes a word", "a space b c space ctrl+w", "a |"},
		{"ctrl+w deletes over the end of a line", "a ctrl+j ctrl+w", "|"},
		{"ctrl+u deletes to the beginning", "a b ctrl+j c d left ctrl+u", "a b|d"},
		{"ctrl+k deletes to the end", "a b c left left ctrl+k", "a|"},
		{"alt+left goes to a word's beginning", "a b space c d alt+left", "ab |cd"},
		{"alt+right goes to a word's end", "a b space c d home alt+right", "ab| cd"},
		{"up goes to the line above", "a b ctrl+j c up", "a|b\nc"},
		{"a letter of several parts is one", "e \u0301 left x", "x|e\u0301"},
		{"ctrl+c clears", "a b ctrl+c", "|"},
		{"escape leaves the text", "a b esc", "ab|"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScreen(t, 80, 24).ready()
			s.press(strings.Fields(tt.keys)...)
			text := s.m.edit.Text()
			before := strings.Join(s.m.edit.text[:s.m.edit.at], "")
			want, _, _ := strings.Cut(tt.want, "|")
			if tt.name == "ctrl+u deletes to the beginning" {
				want, tt.want = "ab\n", "ab\nd"
			}
			if text != strings.Replace(tt.want, "|", "", 1) || before != want {
				t.Errorf("got %q with %q before the cursor, want %q", text, before, tt.want)
			}
			if s.m.edit.size != len(text) {
				t.Errorf("the size is %d, want %d", s.m.edit.size, len(text))
			}
		})
	}
}

func TestKeys_RunTheirActions(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*screen)
		want func(*model) bool
	}{
		{
			"enter sends",
			func(s *screen) { s.write("hi"); s.press("enter") },
			func(m *model) bool { return m.turn != nil && m.edit.Empty() && len(m.queue) == 0 },
		},
		{
			"enter does nothing without text",
			func(s *screen) { s.write("  "); s.press("enter") },
			func(m *model) bool { return m.turn == nil && m.edit.Text() == "  " },
		},
		{
			"enter queues while a turn runs, in order",
			func(s *screen) {
				for _, text := range []string{"one", "two", "three"} {
					s.write(text)
					s.press("enter")
				}
			},
			func(m *model) bool { return len(m.queue) == 2 && m.queue[0] == "two" && m.queue[1] == "three" },
		},
		{
			"up takes back what was queued last",
			func(s *screen) {
				for _, text := range []string{"one", "two", "three"} {
					s.write(text)
					s.press("enter")
				}
				s.press("up")
			},
			func(m *model) bool { return len(m.queue) == 1 && m.edit.Text() == "three" },
		},
		{
			"what is queued is sent when the turn ends",
			func(s *screen) {
				for _, text := range []string{"one", "two"} {
					s.write(text)
					s.press("enter")
				}
				s.emit(turnEnd("end_turn"))
				s.send(turnMsg{turn: 1, err: errEOF})
			},
			func(m *model) bool { return m.turn != nil && m.turn.number == 2 && len(m.queue) == 0 },
		},
		{
			"what is written before there is a session is sent when there is one",
			func(s *screen) {
				s.m.phase, s.m.session = opening, nil
				s.write("early")
				s.press("enter")
				s.send(openedMsg{session: testSession(), how: "new"})
			},
			func(m *model) bool { return m.turn != nil && len(m.queue) == 0 },
		},
		{
			"up and down go through what was typed, and back to what is being written",
			func(s *screen) {
				s.write("one")
				s.press("enter")
				s.emit(turnEnd("end_turn"))
				s.send(turnMsg{turn: 1, err: errEOF})
				s.write("new")
				s.press("up", "up", "down")
			},
			func(m *model) bool { return m.edit.Text() == "new" },
		},
		{
			"ctrl+d leaves where nothing is written",
			func(s *screen) { s.press("ctrl+d") },
			func(m *model) bool { return m.leaving },
		},
		{
			"ctrl+d deletes where something is written",
			func(s *screen) { s.write("ab"); s.press("home", "ctrl+d") },
			func(m *model) bool { return !m.leaving && m.edit.Text() == "b" },
		},
		{
			"ctrl+c twice leaves",
			func(s *screen) { s.press("ctrl+c", "ctrl+c") },
			func(m *model) bool { return m.leaving },
		},
		{
			"ctrl+c twice with time between them does not leave",
			func(s *screen) { s.press("ctrl+c"); s.wait(3 * time.Second); s.press("ctrl+c") },
			func(m *model) bool { return !m.leaving },
		},
		{
			"ctrl+c, something else, ctrl+c does not leave",
			func(s *screen) { s.press("ctrl+c", "x", "ctrl+c") },
			func(m *model) bool { return !m.leaving },
		},
		{
			"ctrl+c cancels a turn and keeps what is written",
			func(s *screen) { s.write("hi"); s.press("enter"); s.write("more"); s.press("ctrl+c") },
			func(m *model) bool { return m.turn.cancelled && m.edit.Text() == "more" },
		},
		{
			"escape cancels a turn",
			func(s *screen) { s.write("hi"); s.press("enter", "esc") },
			func(m *model) bool { return m.turn.cancelled },
		},
		{
			"escape closes the menu first",
			func(s *screen) { s.write("hi"); s.press("enter"); s.write("/"); s.press("esc") },
			func(m *model) bool { return !m.turn.cancelled && !m.menu.open() },
		},
		{
			"tab completes a command",
			func(s *screen) { s.write("/rev"); s.press("tab") },
			func(m *model) bool { return m.edit.Text() == "/review " },
		},
		{
			"down chooses in the menu",
			func(s *screen) { s.write("/mod"); s.press("down", "tab") },
			func(m *model) bool { return m.edit.Text() == "/model " },
		},
		{
			"tab completes a mode",
			func(s *screen) { s.write("/mode p"); s.press("tab") },
			func(m *model) bool { return m.edit.Text() == "/mode plan " },
		},
		{
			"tab completes an option and its value",
			func(s *screen) { s.write("/set w"); s.press("tab"); s.write("of"); s.press("tab") },
			func(m *model) bool { return m.edit.Text() == "/set web off " },
		},
		{
			"shift+tab takes the next mode",
			func(s *screen) {
				s.press("shift+tab")
				next := testSession()
				next.Mode = "code"
				s.send(sessionMsg{session: next, what: "mode"})
			},
			func(m *model) bool { return current(m.session, "mode") == "Code" && m.setting == 0 },
		},
		{
			"a command of the agent's is a prompt",
			func(s *screen) { s.write("/review it"); s.press("enter") },
			func(m *model) bool { return m.turn != nil },
		},
		{
			"a name that both have is the agent's",
			func(s *screen) { s.write("/help"); s.press("enter") },
			func(m *model) bool { return m.turn != nil },
		},
		{
			"with two slashes it is acphost's",
			func(s *screen) { s.write("//help"); s.press("enter") },
			func(m *model) bool { return m.turn == nil && len(m.out) > 10 },
		},
		{
			"a path is a prompt",
			func(s *screen) { s.write("/usr/bin/x crashes"); s.press("enter") },
			func(m *model) bool { return m.turn != nil },
		},
		{
			"a command that nobody has is not sent",
			func(s *screen) { s.write("/frobnicate"); s.press("enter") },
			func(m *model) bool {
				return m.turn == nil && strings.Contains(strings.Join(m.out, "\n"), "no command /frobnicate")
			},
		},
		{
			"/quit leaves",
			func(s *screen) { s.write("/quit"); s.press("enter") },
			func(m *model) bool { return m.leaving },
		},
		{
			"/new waits for the turn",
			func(s *screen) { s.write("x"); s.press("enter"); s.write("/new"); s.press("enter") },
			func(m *model) bool {
				return m.phase == ready && strings.Contains(strings.Join(m.out, "\n"), "a turn runs")
			},
		},
		{
			"/new leaves a turn behind that was cancelled and does not end",
			func(s *screen) { s.write("x"); s.press("enter", "esc"); s.write("/new"); s.press("enter") },
			func(m *model) bool { return m.phase == opening && m.turn == nil },
		},
		{
			"a command that nobody has is not sent with two slashes either",
			func(s *screen) { s.write("//frobnicate"); s.press("enter") },
			func(m *model) bool {
				return m.turn == nil && strings.Contains(strings.Join(m.out, "\n"), "no command //frobnicate")
			},
		},
		{
			"/new opens a session",
			func(s *screen) { s.write("/new"); s.press("enter") },
			func(m *model) bool { return m.phase == opening },
		},
		{
			"/mode lets one choose, and escape leaves it",
			func(s *screen) { s.write("/mode"); s.press("enter", "down", "esc") },
			func(m *model) bool { return m.picker == nil && m.setting == 0 },
		},
		{
			"/model takes a name",
			func(s *screen) { s.write("/model opus"); s.press("enter") },
			func(m *model) bool { return m.setting == 1 },
		},
		{
			"/model says what there is",
			func(s *screen) { s.write("/model gpt"); s.press("enter") },
			func(m *model) bool { return strings.Contains(strings.Join(m.out, "\n"), "there are: sonnet, opus") },
		},
		{
			"/set switches",
			func(s *screen) { s.write("/set web off"); s.press("enter") },
			func(m *model) bool { return m.setting == 1 },
		},
		{
			"/sessions asks where the agent can list them",
			func(s *screen) {
				s.write("/sessions")
				s.press("enter")
				s.send(storedMsg{sessions: []*supervisorv1.StoredSession{{SessionId: "old", Title: "Old"}}})
				s.press("enter")
			},
			func(m *model) bool { return m.phase == opening && m.loading == "old" },
		},
		{
			"a turn that was left tells nothing in a new session",
			func(s *screen) {
				s.send(turnMsg{turn: 7, events: []*supervisorv1.Event{chunk("late\n\n")}})
			},
			func(m *model) bool { return len(m.out) == 0 },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScreen(t, 80, 24).ready()
			tt.do(s)
			if !tt.want(s.m) {
				t.Errorf("that is not so; the screen:\n%s\n--- below\n%s", s.printed(), s.view())
			}
		})
	}
}

// letGo advances the time by the wait of an answer of one letter.
func (s *screen) letGo() {
	s.wait(holdTime)
	for _, q := range s.m.openQuestions {
		if q.delayed != nil {
			s.send(delayedMsg{q, q.delayed})
		}
	}
}

func TestQuestion_HeldAnswerAppliesToOneQuestion(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.asked(permission("claude-1/7"), permission("claude-1/8"))
	s.wait(time.Second)
	s.press("r")
	q := s.m.question()
	msg := delayedMsg{q, q.delayed}
	s.send(questionsMsg{changes: []*supervisorv1.WatchApprovalsResponse{{Change: &supervisorv1.WatchApprovalsResponse_Answered{
		Answered: &supervisorv1.ApprovalAnswer{Id: "claude-1/7", Outcome: "withdrawn"},
	}}}})
	s.send(msg)
	if q := s.m.question(); q == nil || q.approval.GetId() != "claude-1/8" || q.sent {
		t.Errorf("the next question is %+v", q)
	}
}

func TestMenu_Keys(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("/mo")
	if v := s.view(); !strings.Contains(v, "↑↓ choose · tab takes it · esc closes") {
		t.Errorf("the view is\n%s", v)
	}
	s.press("down", "enter")
	if got := s.m.edit.Text(); got != "/model " {
		t.Errorf("enter writes %q", got)
	}
	s = newScreen(t, 80, 24).ready()
	s.write("/mo")
	s.press("esc")
	if s.m.menu.open() || s.m.edit.Text() != "/mo" {
		t.Error("esc does not close it")
	}
	s = newScreen(t, 80, 24).ready()
	s.write("/mode")
	s.press("enter")
	if s.m.picker == nil {
		t.Error("enter does not do what is written where nothing was chosen")
	}
	if s.press("k", "q"); s.m.picker == nil || s.m.picker.at != 0 {
		t.Error("letters do what no hint says")
	}
}

func TestForm_TabMovesThroughFieldsToInput(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.asked(&supervisorv1.Approval{Id: "x", Elicitation: &supervisorv1.Elicitation{
		Mode: "form", Message: "How?", RequestedSchema: `{"properties":{"a":{"type":"string","minLength":2},"b":{"type":"string","enum":["s","l"]}},"required":["b"]}`,
	}})
	s.wait(time.Second)
	form := s.m.question().form
	if v := s.view(); !strings.Contains(v, "enter, tab go on") || strings.Contains(v, "goes to the input") {
		t.Errorf("the view is\n%s", v)
	}
	s.press("x", "tab")
	if form.at != 1 || s.m.questionWaits() || !strings.Contains(s.view(), "↑↓ choose · enter sends · tab goes to the input") {
		t.Fatalf("tab goes to field %d:\n%s", form.at, s.view())
	}
	s.press("tab", "h", "i")
	if v := s.view(); s.m.edit.Text() != "hi" || !strings.Contains(v, "tab goes to the question") || strings.Contains(v, "enter sends") {
		t.Errorf("tab does not go to the input:\n%s", v)
	}
	s.press("tab", "down", "enter") // the first field is not right yet
	if form.at != 0 || form.wrong == "" || s.m.question().sent {
		t.Fatalf("field %d, %q", form.at, form.wrong)
	}
	s.press("y", "enter", "enter")
	if !s.m.question().sent || s.m.edit.Text() != "hi" {
		t.Error("the form is not sent")
	}
}

func TestQuestion_AcceptsOnlyItsKeys(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     func(*screen)
		answer bool // one is on its way
		text   string
	}{
		{"a key after a pause, and its code, answer", func(s *screen) { s.wait(time.Second); s.press("a", "k", "k") }, true, ""},
		{"a key alone allows nothing", func(s *screen) { s.wait(time.Second); s.press("a", "k") }, false, ""},
		{"a wrong key goes back", func(s *screen) { s.wait(time.Second); s.press("a", "k", "r") }, false, ""},
		{"and makes the next code longer", func(s *screen) { s.wait(time.Second); s.press("a", "x", "a", "k", "k") }, false, ""},
		{"and that is typed whole", func(s *screen) { s.wait(time.Second); s.press("a", "x", "a", "k", "k", "k") }, true, ""},
		{"a key that rejects answers", func(s *screen) { s.wait(time.Second); s.press("r"); s.letGo() }, true, ""},
		{"but not before a moment has passed", func(s *screen) { s.wait(time.Second); s.press("r") }, false, ""},
		{"enter does not wait for it", func(s *screen) { s.wait(time.Second); s.press("r", "enter") }, true, ""},
		{"escape cancels it", func(s *screen) { s.wait(time.Second); s.press("r", "esc"); s.letGo() }, false, ""},
		{"a word that begins with it is written", func(s *screen) { s.wait(time.Second); s.press("r", "u", "n"); s.letGo() }, false, "run"},
		{"a number answers", func(s *screen) { s.wait(time.Second); s.press("4"); s.letGo() }, true, ""},
		{"a number that is not offered is written", func(s *screen) { s.wait(time.Second); s.press("5"); s.letGo() }, false, "5"},
		{"another letter is written, and the following ones", func(s *screen) { s.wait(time.Second); s.press("o", "r", "a", "k", "k"); s.letGo() }, false, "orakk"},
		{"enter alone does nothing", func(s *screen) { s.wait(time.Second); s.press("enter"); s.letGo() }, false, ""},
		{"an arrow and enter reject at once", func(s *screen) { s.wait(time.Second); s.press("end", "enter") }, true, ""},
		{"an arrow and enter allow with the code", func(s *screen) { s.wait(time.Second); s.press("down", "enter", "k", "k") }, true, ""},
		{"and not without it", func(s *screen) { s.wait(time.Second); s.press("down", "enter", "enter", "enter") }, false, ""},
		{"a key at once is written", func(s *screen) { s.press("a") }, false, "a"},
		{"further input is written", func(s *screen) { s.press("a"); s.wait(5 * time.Second); s.press("r") }, false, "ar"},
		{"tab goes to the question", func(s *screen) { s.press("x", "tab", "r"); s.letGo() }, true, "x"},
		{"tab goes to the input and back", func(s *screen) { s.wait(time.Second); s.press("tab", "r", "tab", "r"); s.letGo() }, true, "r"},
		{"a paste is written", func(s *screen) { s.wait(time.Second); s.send(pasted("a")) }, false, "a"},
		{"a key that arrives with a report of the terminal does not", func(s *screen) { s.wait(time.Second); s.send(tea.TerminalVersionMsg{}); s.press("a") }, false, "a"},
		{"a key after it does", func(s *screen) { s.send(tea.TerminalVersionMsg{}); s.wait(time.Second); s.press("a", "k", "k") }, true, ""},
		{"one answer is enough", func(s *screen) { s.wait(time.Second); s.press("a", "k", "k", "r") }, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScreen(t, 80, 24).ready()
			s.write("go")
			s.press("enter")
			s.wait(time.Minute)
			s.asked(permission("claude-1/7"))
			tt.do(s)
			if q := s.m.question(); q == nil || q.sent != tt.answer || s.m.edit.Text() != tt.text {
				t.Errorf("sent is %v with %q in the input, want %v with %q", q != nil && q.sent, s.m.edit.Text(), tt.answer, tt.text)
			}
		})
	}
}

func TestQuestion_WaitsForTabDuringInput(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("go")
	s.press("enter")
	s.write("a thought that")
	s.asked(permission("claude-1/7"))
	s.wait(time.Minute)
	s.press("a")
	if q := s.m.question(); q.sent || s.m.edit.Text() != "a thought thata" {
		t.Errorf("a key that was typed answered the question")
	}
}

func TestQuestion_RemovedWhenAnsweredElsewhere(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.write("go")
	s.press("enter")
	s.asked(permission("claude-1/7"), permission("claude-1/8"))
	s.send(questionsMsg{changes: []*supervisorv1.WatchApprovalsResponse{{Change: &supervisorv1.WatchApprovalsResponse_Answered{
		Answered: &supervisorv1.ApprovalAnswer{Id: "claude-1/7", Outcome: "denied", AnsweredBy: "front"},
	}}}})
	if len(s.m.openQuestions) != 1 || s.m.question().approval.GetId() != "claude-1/8" {
		t.Fatalf("there are %d questions, want the other one", len(s.m.openQuestions))
	}
	if got := s.printed(); !strings.Contains(got, "denied in the editor") {
		t.Errorf("printed %q, want who answered", got)
	}
	// A key that was meant for the one before does not answer this one.
	s.press("a")
	if s.m.question().sent {
		t.Error("the next question was answered at once")
	}
}

func TestQuestion_TooLongIsPrinted(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	a := permission("claude-1/7")
	a.Permission.RawInput = `{"command":"one\n` + strings.Repeat(`two\n`, 30) + `rm -rf /"}`
	s.asked(a)
	if got := s.printed(); !strings.Contains(got, "rm -rf /") {
		t.Errorf("printed %q, want all of the question", got)
	}
	if got := s.view(); !strings.Contains(got, "stands above") || strings.Count(got, "\n") >= 24 {
		t.Errorf("the view is\n%s", got)
	}
}

func TestQuestion_CountsHiddenLines(t *testing.T) {
	command := "make a"
	for i := range 99 {
		command += fmt.Sprintf(`\nmake b%d`, i)
	}
	long := func(s *screen) {
		q := permission("claude-1/7")
		q.Permission.RawInput = `{"command":"` + command + `"}`
		s.asked(q)
		s.wait(time.Second)
	}
	s := newScreen(t, 80, 24).ready()
	long(s)
	if got := s.view(); !strings.Contains(got, "v show all: 40 more lines") {
		t.Errorf("nothing states how much is not shown:\n%s", got)
	}
	if got := s.printed(); strings.Contains(got, "make b98") {
		t.Errorf("all of it is printed unasked:\n%s", got)
	}
	for name, keys := range map[string][]string{
		"v": {"v"}, "allow": {"a"}, "allow always": {"A"}, "selected": {"down", "enter"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, 80, 24).ready()
			long(s)
			for _, k := range keys {
				s.press(k)
			}
			if got := s.printed(); !strings.Contains(got, "make b98") {
				t.Errorf("printed %q, want all of the command", got)
			}
			if q := s.m.question(); q.sent || q.code != nil {
				t.Error("the key allows what was not shown")
			}
			if got := s.view(); strings.Contains(got, "show all") {
				t.Errorf("there is more to see:\n%s", got)
			}
			s.press("a")
			if s.m.question().code == nil {
				t.Error("what was shown cannot be allowed")
			}
		})
	}
	form := &supervisorv1.Approval{Id: "claude-1/8", SessionId: "s1", Elicitation: &supervisorv1.Elicitation{
		Mode: "form", Message: strings.Repeat("words ", 1000) + "the end", RequestedSchema: `{"properties":{"a":{"type":"string"}}}`,
	}}
	s = newScreen(t, 80, 24).ready()
	s.asked(form)
	if got := s.printed(); !strings.Contains(got, "the end") {
		t.Errorf("printed %q, want all of a form's message", got)
	}
}

func TestQuestion_ShowsDetailOnRequest(t *testing.T) {
	const reason, detail = "this file is outside of the workspace", "rule look reads the workspace only"
	s := newScreen(t, 80, 24).ready()
	a := permission("claude-1/7")
	a.Permission.Reason, a.Permission.Detail = reason, detail
	s.asked(a)
	s.wait(time.Second)
	if got := s.view(); !strings.Contains(got, "Asked because: "+reason) || !strings.Contains(got, "v show why in detail") || strings.Contains(got, detail) {
		t.Errorf("got\n%s\nwant the reason, and the detail behind a key", got)
	}
	s.press("v")
	if got := s.printed(); !strings.Contains(got, "Details: "+detail) {
		t.Errorf("printed %q, want the detail", got)
	}
	if got := s.view(); strings.Contains(got, "v show why in detail") {
		t.Errorf("the key is still offered:\n%s", got)
	}
}

func TestQuestion_ShowsEndOfHost(t *testing.T) {
	const end = ".evil.example:443"
	s := newScreen(t, 80, 24).ready()
	a := permission("claude-1/7")
	a.Permission.Title = "connect to registry.example.org." + strings.Repeat("a.", 60) + end[1:]
	a.Permission.Options = []*supervisorv1.PermissionOption{{OptionId: "o1", Kind: "allow_once", Name: "Allow once: " + a.Permission.Title}}
	s.asked(a)
	s.wait(time.Second)
	for _, row := range []string{"allows this once", "type "} {
		shown := false
		for line := range strings.Lines(s.view()) {
			shown = shown || strings.Contains(line, row) && strings.Contains(line, end)
		}
		if !shown {
			t.Errorf("no row %q shows the end of the host:\n%s", row, s.view())
		}
		s.press("a")
	}
}
