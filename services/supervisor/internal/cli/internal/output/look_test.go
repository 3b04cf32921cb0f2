package output

import (
	"os"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

func TestLook_ColourAndMarkdown(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		env      map[string]string
		want     bool
		width    int
	}{
		{"on a terminal", true, map[string]string{"TERM": "xterm"}, true, 80},
		{"on a terminal whose width is known", true, map[string]string{"TERM": "xterm", "COLUMNS": "33"}, true, 33},
		{"on a terminal whose width is nonsense", true, map[string]string{"TERM": "xterm", "COLUMNS": "-4"}, true, 80},
		{"in a file", false, nil, false, 0},
		{"on a dumb terminal", true, map[string]string{"TERM": "dumb"}, false, 0},
		{"without a request", true, map[string]string{"NO_COLOR": "1", "FORCE_COLOR": "1"}, false, 0},
		{"where NO_COLOR is empty", true, map[string]string{"NO_COLOR": ""}, true, 80},
		{"in a pager, by FORCE_COLOR", false, map[string]string{"FORCE_COLOR": "1"}, true, 0},
		{"in a pager, by CLICOLOR_FORCE", false, map[string]string{"CLICOLOR_FORCE": "1", "COLUMNS": "70"}, true, 70},
		{"where FORCE_COLOR is off", true, map[string]string{"FORCE_COLOR": "0"}, false, 0},
		{"where CLICOLOR_FORCE is off", true, map[string]string{"CLICOLOR_FORCE": "0"}, true, 80},
		{"where CLICOLOR is off", true, map[string]string{"CLICOLOR": "0"}, false, 0},
		{"on a terminal of many colours", true, map[string]string{"COLORTERM": "truecolor"}, true, 80},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := os.Create(t.TempDir() + "/out")
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			call := &command.Call{Stdout: file, Env: func(name string) string { return tt.env[name] }}
			call.Terminal = func(*os.File) bool { return tt.terminal }
			o := RenderOptions(call, "/work", false, true)
			if o.Color != tt.want || o.Markdown != tt.want || o.Width != tt.width {
				t.Errorf("coloured: %t, want %t; Markdown: %t; width %d, want %d", o.Color, tt.want, o.Markdown, o.Width, tt.width)
			}
		})
	}
}

func TestScreen_CutsToSize(t *testing.T) {
	if got, want := screen("a long line\nb\nc\nd\n", 6, 4), "\x1b[Ha lon…\x1b[K\nb\x1b[K\n… 2 m…\x1b[K\n\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := screen("a\nb\n", 6, 0), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
