//go:build !linux

package doctor

import "runtime"

// kernel reports the features for confinement that this system lacks.
func kernel(in area) {
	in.warn("system", runtime.GOOS+": agents are ended by process group, and nothing keeps them from signalling or tracing other processes of yours",
		"use Linux 6.12 or later for all of acphost's walls")
}
