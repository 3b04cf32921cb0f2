//go:build !linux && !darwin

package main

import "os"

// terminalWidth cannot tell here; lines are not broken.
func terminalWidth(*os.File) int { return 0 }
