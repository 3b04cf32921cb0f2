//go:build !linux && !darwin

package output

import "os"

// IsTerminal cannot tell here; agents' logins are not executed in place.
func IsTerminal(*os.File) bool { return false }

// terminalWidth cannot tell here; lines are not broken.
func terminalWidth(*os.File) int { return 0 }

// terminalHeight cannot tell here.
func terminalHeight(*os.File) int { return 0 }
