//go:build !linux && !darwin

package jobcontrol

import (
	"context"
	"os"
)

// Signals are none: there are no jobs here.
func Signals() []os.Signal { return nil }

// Asks is false here.
func Asks(os.Signal) bool { return false }

// Continues is false here.
func Continues(os.Signal) bool { return false }

// Suspend does nothing here.
func Suspend() {}

// Quit does nothing here.
func Quit() {}

// Stop is false here.
func Stop() bool { return false }

// Foreground is true here.
func Foreground(*os.File) bool { return true }

// Await returns at once here.
func Await(context.Context, *os.File) error { return nil }
