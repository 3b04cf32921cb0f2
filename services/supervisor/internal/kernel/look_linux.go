package kernel

import "github.com/acphost/acphost/internal/proc"

// look is what a process is now; false: there is none.
func look(pid int) (process, bool) {
	p, err := proc.Look(pid)
	return process{p.PID, p.Start}, err == nil
}
