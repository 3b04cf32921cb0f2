//go:build !linux

package doctor

import "runtime"

// kernel says what the walls around an agent lack.
func kernel(in area) {
	in.warn("system", runtime.GOOS+": agents are ended by process group, and nothing keeps them from signalling or tracing other processes of yours",
		"use Linux 6.12 or later for all of acphost's walls")
}
