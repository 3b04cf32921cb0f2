package chat

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// called returns the sequence that was sent to the terminal to call the person; empty if none was.
func (s *screen) called() string {
	cmd := s.m.notice()
	if cmd == nil {
		return ""
	}
	return fmt.Sprint(cmd().(tea.RawMsg).Msg)
}

func TestNotify_OnQuestionWithoutFocus(t *testing.T) {
	const osc9 = "\a\x1b]9;acphost: a question waits\x1b\\"
	for _, tt := range []struct {
		name   string
		notify string
		env    []string
		do     func(*screen)
		want   string
	}{
		{"the terminal has no focus", NotifyAuto, nil, func(s *screen) { s.send(tea.BlurMsg{}) }, osc9},
		{"it has", NotifyAuto, nil, func(s *screen) { s.send(tea.FocusMsg{}); s.wait(time.Hour) }, ""},
		{"it has again", NotifyAuto, nil, func(s *screen) { s.send(tea.BlurMsg{}); s.send(tea.FocusMsg{}) }, ""},
		{"it does not report focus, and nothing was typed for long", NotifyAuto, nil, func(s *screen) { s.wait(time.Minute) }, osc9},
		{"it does not report focus, and something was typed", NotifyAuto, nil, func(s *screen) { s.press("x") }, ""},
		{"the bell alone", NotifyBell, nil, func(s *screen) { s.send(tea.BlurMsg{}) }, "\a"},
		{"not at all", NotifyOff, nil, func(s *screen) { s.send(tea.BlurMsg{}) }, ""},
		{"a terminal with OSC 777", NotifyAuto, []string{"TERM=foot"}, func(s *screen) { s.send(tea.BlurMsg{}) }, "\a\x1b]777;notify;acphost;acphost: a question waits\x1b\\"},
		{"within tmux", NotifyAuto, []string{"TERM=xterm", "TMUX=/tmp/x"}, func(s *screen) { s.send(tea.BlurMsg{}) }, "\a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScreen(t, 80, 24, func(o *Options) { o.Notify, o.Env = tt.notify, tt.env }).ready()
			s.press("x")
			tt.do(s)
			a := permission("claude-1/7")
			a.Permission.Title = "\x1b]9;evil\a"
			s.asked(a)
			if got := s.called(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if s.m.View().ReportFocus != (tt.notify != NotifyOff) {
				t.Error("the terminal is asked for its focus, or is not")
			}
		})
	}
}

func TestNotify_OncePerQuestionsAndAtTurnEnd(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Notify = NotifyBell }).ready()
	s.write("go")
	s.press("enter")
	s.send(tea.BlurMsg{})
	var calls strings.Builder
	for i := range 50 {
		s.asked(permission(fmt.Sprint("claude-1/", i)))
		calls.WriteString(s.called())
	}
	if calls.String() != "\a" {
		t.Errorf("50 questions call with %q", calls.String())
	}
	s.wait(noticeTime)
	s.emit(turnEnd("end_turn"))
	s.send(turnMsg{turn: 1, err: io.EOF})
	if s.called() != "\a" {
		t.Error("the end of the turn does not call")
	}
}

func TestQuestion_IgnoresKeysThatBringFocus(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	s.send(tea.BlurMsg{})
	s.asked(permission("claude-1/7"))
	s.wait(time.Minute)
	s.send(tea.FocusMsg{})
	s.press("r")
	if q := s.m.question(); q.delayed != nil || s.m.edit.Text() != "r" {
		t.Errorf("held is %v, the input %q", q.delayed, s.m.edit.Text())
	}
}
