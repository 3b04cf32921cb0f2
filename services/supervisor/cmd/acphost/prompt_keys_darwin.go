package main

import "golang.org/x/sys/unix"

// How attributes of a terminal are read, and set once its output is written; input that was not read is dropped.
const (
	getAttributes      = unix.TIOCGETA
	setAttributesFlush = unix.TIOCSETAF
)
