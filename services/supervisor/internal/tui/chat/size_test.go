package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// states are ways in which a screen can be full.
func states() map[string]func(*screen) {
	long := strings.Repeat("many words that go on ", 20)
	return map[string]func(*screen){
		"idle":       func(*screen) {},
		"long input": func(s *screen) { s.m.edit.Set(strings.Repeat("x", 3000) + "\n日本語\t\n" + long) },
		"menu":       func(s *screen) { s.write("/") },
		"command":    func(s *screen) { s.write("!" + long); s.press("enter") },
		"search":     func(s *screen) { s.m.past.Add("日本語 " + long); s.m.past.Add("x"); s.press("ctrl+r") },
		"picker":     func(s *screen) { s.write("/model"); s.press("enter") },
		"under way": func(s *screen) {
			s.write("go")
			s.press("enter")
			var steps []string
			for i := range 30 {
				steps = append(steps, "pending", fmt.Sprint(i, long))
				s.emit(toolCall(fmt.Sprint(i), "日本語 "+long, "edit", "in_progress"))
			}
			s.emit(planOf(steps...), chunk(long))
			for range 5 {
				s.m.edit.Set(long)
				s.press("enter")
			}
		},
		"question": func(s *screen) {
			a := permission("claude-1/7")
			a.Permission.Title = long
			a.Permission.RawInput = `{"command":"` + strings.Repeat(`日本\n`, 50) + `"}`
			s.asked(a)
			s.wait(time.Second)
		},
		"form": func(s *screen) {
			s.asked(&supervisorv1.Approval{Id: "x", Elicitation: &supervisorv1.Elicitation{
				Mode: "form", Message: long, RequestedSchema: `{"properties":{"a":{"type":"string","title":"日本語日本語日本語日本語","default":"` + long + `"}}}`,
			}})
			s.wait(time.Second)
		},
	}
}

func TestView_FitsScreen(t *testing.T) {
	for name, fill := range states() {
		t.Run(name, func(t *testing.T) {
			for _, height := range []int{4, 8, 24, 60} {
				for _, width := range []int{8, 20, 40, 81, 200} {
					s := newScreen(t, width, height, func(o *Options) { o.Color = width%2 == 0 })
					s.ready()
					fill(s)
					v := s.m.View()
					rows := strings.Split(v.Content, "\n")
					if len(rows) > s.m.viewRows() {
						t.Errorf("%d×%d: %d rows, want at most %d:\n%s", width, height, len(rows), s.m.viewRows(), ansi.Strip(v.Content))
					}
					for _, r := range rows {
						if w := safetext.Width(r); w > width {
							t.Errorf("%d×%d: a row has %d columns: %q", width, height, w, r)
						}
					}
					if c := v.Cursor; c != nil && (c.X >= width || c.Y >= len(rows)) {
						t.Errorf("%d×%d: the cursor is at %d, %d", width, height, c.X, c.Y)
					}
					for _, r := range s.m.out {
						if w := safetext.Width(r); w > width {
							t.Errorf("%d×%d: a printed row has %d columns: %q", width, height, w, r)
						}
					}
				}
			}
		})
	}
}

func TestQuestion_TruncatedIsPrintedAbove(t *testing.T) {
	s := newScreen(t, 80, 24).ready()
	a := permission("claude-1/7")
	a.Permission.RawInput = `{"command":"` + strings.Repeat(`x\n`, 6) + `last words"}`
	s.asked(a)
	if !strings.Contains(s.view(), "last words") || strings.Contains(s.printed(), "last words") {
		t.Fatalf("it is not shown whole in its place:\n%s", s.view())
	}
	s.send(tea.WindowSizeMsg{Width: 80, Height: 16})
	if strings.Contains(s.view(), "last words") || !strings.Contains(s.view(), "stands above") || !strings.Contains(s.printed(), "last words") {
		t.Errorf("on a smaller screen it is not above:\n%s", s.view())
	}
}

func TestView_FitsAfterResize(t *testing.T) {
	for name, fill := range states() {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, 80, 24).ready()
			fill(s)
			for _, size := range [][2]int{{0, 0}, {1, 1}, {3, 2}, {200, 80}, {40, 10}} {
				s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				s.view()
			}
		})
	}
}
