//go:build !linux && !darwin

package main

import "os"

// isTerminal cannot tell here; agents' logins are not executed in place.
func isTerminal(*os.File) bool { return false }
