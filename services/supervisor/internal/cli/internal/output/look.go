package output

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// usualWidth is the number of columns of a terminal that does not report it.
const usualWidth = 80

// RenderOptions returns the options for the events of a session on standard output. attended means that a user can
// answer questions.
func RenderOptions(call *command.Call, cwd string, verbose, attended bool) render.Options {
	terminal := call.Terminal(call.Stdout)
	color := UseColor(call, terminal)
	o := render.Options{
		Color: color, Markdown: color, Cwd: cwd, Asking: attended, NoUsage: !terminal, Verbose: verbose,
	}
	switch {
	case color && terminal:
		o.Width = Width(call)
	case color:
		o.Width = columns(call.Env) // usually for a pager
	}
	return o
}

// UseColor reports whether output is coloured: on a terminal with colours, or if the environment forces them. NO_COLOR
// has precedence (no-color.org, force-color.org, bixense.com/clicolors).
func UseColor(call *command.Call, terminal bool) bool {
	if call.Env("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE"} {
		switch call.Env(name) {
		case "":
		case "0", "false":
			return terminal && name != "FORCE_COLOR" && call.Env("TERM") != "dumb"
		default:
			return true
		}
	}
	return terminal && call.Env("TERM") != "dumb" && call.Env("CLICOLOR") != "0"
}

// Width returns the number of columns of the terminal at standard output: as it reports, or from the environment, or
// the default.
func Width(call *command.Call) int {
	if w := terminalWidth(call.Stdout); w > 0 {
		return w
	}
	if w := columns(call.Env); w > 0 {
		return w
	}
	return usualWidth
}

// Screen formats text that replaces the content of a terminal, without flicker: it cuts lines at the width, and the
// text at the height, where the last line contains the number of missing lines. The text must be safe and without
// colours.
func Screen(call *command.Call, text string) string {
	return screen(text, Width(call), terminalHeight(call.Stdout))
}

func screen(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := height - 1; height > 1 && len(lines) > room { // the cursor is in the last row
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("… %d more lines", more))
	}
	var out strings.Builder
	out.WriteString("\x1b[H")
	for _, line := range lines {
		out.WriteString(safetext.Fit(line, width))
		out.WriteString("\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	return out.String()
}

// columns returns the number of columns in the environment, or 0.
func columns(env func(string) string) int {
	n, err := strconv.Atoi(env("COLUMNS"))
	if err != nil || n < 1 || n > 10_000 {
		return 0
	}
	return n
}

// Style returns the style of output to a file: coloured and with broken lines on a terminal, else neither.
func Style(call *command.Call, f *os.File) policytool.Style {
	if !call.Terminal(f) {
		return policytool.Style{}
	}
	return policytool.Style{Color: call.Env("NO_COLOR") == "" && call.Env("TERM") != "dumb", Width: terminalWidth(f)}
}
