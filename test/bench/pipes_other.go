//go:build !linux

package main

import "os"

// widen does nothing: the room of a pipe is the system's choice here.
func widen(...*os.File) {}
