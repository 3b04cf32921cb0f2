// Package jobcontrol lets a program that changes its terminal's settings work with the shell's job control: the shell stops
// the program, continues it, and runs it in the background.
//
// It knows signals, and which job a terminal belongs to. It must not know terminal settings or the screen: the caller restores
// them before Stop and sets them again after it. On a system without jobs, nothing is ever stopped, and every terminal is this
// program's.
package jobcontrol

import "errors"

// Ended is how a borrower's command ended.
type Ended struct {
	// Code is the exit status; -1 if a signal ended it.
	Code int
	// Signal is the name of the signal that ended it, such as "SIGKILL". Empty: none did.
	Signal string
}

// ErrBackground is a terminal that belongs to another job, where no shell will ever hand it over.
var ErrBackground = errors.New("the terminal belongs to another job")
