package main

import (
	"strconv"

	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// usualWidth is how many columns a terminal has that does not say it.
const usualWidth = 80

// look is how things are shown.
func (a *app) look(cwd string, verbose, attended bool) render.Options {
	terminal := a.programs.terminal(a.stdout)
	color := a.colored(terminal)
	o := render.Options{
		Color: color, Markdown: color, Cwd: cwd, Asking: attended, NoUsage: !terminal, Verbose: verbose,
	}
	switch {
	case color && terminal:
		o.Width = a.width()
	case color:
		o.Width = columnsOf(a.env) // a pager's, as a rule
	}
	return o
}

// colored reports whether output is coloured: on a terminal that can, or where somebody insists on it. NO_COLOR is stronger
// than all else (no-color.org, force-color.org, bixense.com/clicolors).
func (a *app) colored(terminal bool) bool {
	if a.env("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE"} {
		switch a.env(name) {
		case "":
		case "0", "false":
			return terminal && name != "FORCE_COLOR" && a.env("TERM") != "dumb"
		default:
			return true
		}
	}
	return terminal && a.env("TERM") != "dumb" && a.env("CLICOLOR") != "0"
}

func (a *app) screenOptions(attended bool) screenOptions {
	o := screenOptions{dumb: a.env("TERM") == "dumb" || a.env("TERM") == ""}
	if attended {
		o.width = a.width
	}
	return o
}

// width is how many columns the terminal at standard output has, by its own word, the environment's, or as a rule.
func (a *app) width() int {
	if w := terminalWidth(a.stdout); w > 0 {
		return w
	}
	if w := columnsOf(a.env); w > 0 {
		return w
	}
	return usualWidth
}

// columnsOf is how many columns the environment says there are; 0: it does not say.
func columnsOf(env func(string) string) int {
	n, err := strconv.Atoi(env("COLUMNS"))
	if err != nil || n < 1 || n > 10_000 {
		return 0
	}
	return n
}
