package chat

import (
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// sized sets the size of a terminal that does not report one, such as in containers and tests, to the environment's
// COLUMNS and LINES, else to the default. A size that the terminal reports later replaces it.
func sized(env []string) func(tea.Model, tea.Msg) tea.Msg {
	width, height := 80, 24
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 10_000 {
			continue
		}
		switch name {
		case "COLUMNS":
			width = n
		case "LINES":
			height = n
		}
	}
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		size, ok := msg.(tea.WindowSizeMsg)
		if !ok {
			return msg
		}
		if size.Width <= 0 {
			size.Width = width
		}
		if size.Height <= 0 {
			size.Height = height
		}
		return size
	}
}
