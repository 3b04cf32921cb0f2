package e2e

import (
	"regexp"
)

// Says types a line and sends it.
func (x *Terminal) Says(text string) {
	x.t.Helper()
	x.Types(text)
	x.Shows("❯ " + text)
	x.Keys("Enter")
}

// Runs has a shell run a line.
func (x *Terminal) Runs(line string) {
	x.t.Helper()
	x.Types(line)
	x.Keys("Enter")
}

// Sane expects a terminal with the settings of a shell: the shell itself sets them while it reads a line, and not while
// it runs a command.
func (x *Terminal) Sane() {
	x.t.Helper()
	x.Runs(`clear; stty -a | tr ' ;' '\n\n' | grep -x -e '-*icanon' -e '-*isig' -e '-*echo' | tr '\n' ' '; echo :`)
	x.Shows("isig icanon echo :")
}

// CodeFor waits until a chat asks for a code for something, and types it.
func (x *Terminal) CodeFor(what string) {
	x.t.Helper()
	x.Types(regexp.MustCompile(`type ([a-z]+) to ` + regexp.QuoteMeta(what)).FindStringSubmatch(x.Shows(" to " + what))[1])
}
