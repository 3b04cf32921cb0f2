// Package jobcontrol is how a program that changes its terminal's settings lives with a shell that stops it, lets it go on
// and runs it in the background.
//
// It knows signals and which job a terminal belongs to. It must not know terminal settings or what is shown: whoever
// changed something puts it back before Stop and sets it again behind it. Where a system has no jobs, nothing is ever
// stopped, and every terminal is this program's.
package jobcontrol

import "errors"

// ErrBackground is a terminal that belongs to another job, where no shell will ever hand it over.
var ErrBackground = errors.New("the terminal belongs to another job")
