// Package jobcontrol lets a program that changes its terminal's settings work with the shell's job control: the shell
// stops the program, continues it, and runs it in the background.
//
// It knows signals, and which job a terminal belongs to. It must not know terminal settings or the screen: the caller
// restores them before Stop and sets them again after it. On a system without job control, processes are never stopped,
// and every terminal belongs to this program.
package jobcontrol

import "errors"

// Result is the result of a command that a Borrower ran.
type Result struct {
	// Code is the exit status, or -1 if a signal ended the command.
	Code int
	// Signal is the name of the signal that ended the command, such as "SIGKILL", or empty.
	Signal string
}

// ErrBackground means that the terminal belongs to another job, and that no shell will ever bring this job to the
// foreground.
var ErrBackground = errors.New("the terminal belongs to another job")
