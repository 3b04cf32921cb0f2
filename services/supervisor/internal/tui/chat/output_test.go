package chat

import (
	"fmt"
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// commandRuns is a screen with a running command, in a terminal "t".
func commandRuns(t *testing.T, width, height int) *screen {
	s := newScreen(t, width, height).ready()
	s.write("go")
	s.press("enter")
	call := toolCall("c", "make", "execute", "in_progress")
	call.GetToolCall().ContentSet = true
	call.GetToolCall().Content = []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_TerminalId{TerminalId: "t"}}}
	s.emit(call)
	s.printed()
	return s
}

// wrote has the command write.
func (s *screen) wrote(text string) {
	s.send(outputMsg{terminal: "t", pieces: []*supervisorv1.WatchOutputResponse{{Data: []byte(text)}}})
}

func (s *screen) commandEnded() {
	s.send(outputMsg{terminal: "t", pieces: []*supervisorv1.WatchOutputResponse{{Ended: true, ExitCode: proto.Uint32(0)}}, err: io.EOF})
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestOutput_EndStaysVisible(t *testing.T) {
	s := commandRuns(t, 80, 30)
	s.wrote(numbered(1, 15))
	if v, p := s.view(), s.printed(); strings.Contains(v, "line ") || !strings.Contains(p, "line 15") {
		t.Fatalf("the first lines are not printed as they come:\n%s\n%s", p, v)
	}
	s.wrote(numbered(16, 60) + "12 %\r34 %")
	if v := s.view(); !strings.Contains(v, "│ line 60") || !strings.Contains(v, "34 %") || strings.Contains(v, "12 %") || strings.Contains(v, "line 57") ||
		!strings.Contains(v, "37 lines · ctrl+o shows more") {
		t.Fatalf("the view is\n%s", v)
	}
	s.press("ctrl+o")
	if v := s.view(); !strings.Contains(v, "line 50") || !strings.Contains(v, "ctrl+o shows less") {
		t.Fatalf("expanded, the view is\n%s", v)
	}
	s.press("ctrl+o")
	if v := s.view(); strings.Contains(v, "line 50") {
		t.Fatalf("no longer expanded, the view is\n%s", v)
	}
	s.printed()
	s.commandEnded()
	if v, p := s.view(), s.printed(); strings.Contains(v, "line 60") || !strings.Contains(p, "… 21 lines left out\n    │ line 42\n") || !strings.Contains(p, "34 %\n    │ exit code 0") {
		t.Fatalf("at the end it prints\n%s\nand shows\n%s", p, v)
	}
	s.emit(turnEnd("end_turn"))
	s.send(turnMsg{turn: 1, err: io.EOF})
	s.printed()
	if v := s.view(); !strings.Contains(v, "ctrl+o shows 21 more lines") {
		t.Errorf("it is not reported how to see the rest:\n%s", v)
	}
	s.press("ctrl+o")
	if p := s.printed(); !strings.Contains(p, "21 lines that were left out:\n    │ line 21\n") || !strings.HasSuffix(p, "│ line 41") {
		t.Errorf("it prints\n%s", p)
	}
	if s.press("ctrl+o"); s.printed() != "" || strings.Contains(s.view(), "ctrl+o") {
		t.Error("it is printed twice")
	}
}

func TestOutput_LimitsKeptLines(t *testing.T) {
	s := commandRuns(t, 40, 12)
	for i := range 100 {
		s.wrote(numbered(100*i+1, 100*i+100))
	}
	s.wrote(strings.Repeat("x", 10_000) + "\n" + strings.Repeat("word ", 2000) + "\n\x1b]0;title\a\x1b[2J\u202eevil\n")
	v := s.m.View().Content
	if harm(v) != "" || strings.Contains(v, "title") || strings.Count(v, "\n") >= s.m.viewRows() || !strings.Contains(v, "evil") {
		t.Errorf("the view is %q", v)
	}
	s.press("ctrl+o")
	if v := s.m.View().Content; harm(v) != "" || strings.Count(v, "\n") >= s.m.viewRows() {
		t.Errorf("expanded, the view is %q", v)
	}
	s.commandEnded()
	if n := s.m.draw.Omitted(); n == 0 || n > 1000 {
		t.Errorf("%d lines are kept", n)
	}
	s.press("ctrl+o")
	if p := strings.Join(s.m.out, "\n"); harm(p) != "" {
		t.Errorf("it prints %q", p)
	}
}

func TestOutput_WrapsAtWords(t *testing.T) {
	s := commandRuns(t, 40, 12)
	s.wrote("this is line 1 of the output which is rather long\n")
	if p := s.printed(); !strings.HasSuffix(p, "    │ this is line 1 of the output which\n    │ is rather long") {
		t.Errorf("it prints\n%s", p)
	}
}

func TestEditor_WrapsAtWords(t *testing.T) {
	var e editor
	e.Set("the quick brown fox 日本語 jumps")
	rows, x, y := e.Show(11)
	if got := strings.Join(rows, "|"); got != "the quick |brown fox |日本語 |jumps" || x != 5 || y != 3 {
		t.Errorf("got %q with the cursor at %d, %d", got, x, y)
	}
}

func TestHints_NarrowScreenShowsMainKey(t *testing.T) {
	s := newScreen(t, 26, 12).ready()
	s.write("go")
	s.press("enter")
	if v := s.view(); !strings.Contains(v, "esc cancels") {
		t.Errorf("the view is\n%s", v)
	}
	s.send(tea.WindowSizeMsg{Width: 30, Height: 12})
	s.press("ctrl+c")
	if v := s.view(); !strings.Contains(v, "ctrl+c again leaves") {
		t.Errorf("the view is\n%s", v)
	}
}
