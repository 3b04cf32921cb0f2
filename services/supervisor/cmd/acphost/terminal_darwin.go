package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool { return hasTermios(f, unix.TIOCGETA) }
