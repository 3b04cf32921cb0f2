package kernel

import "github.com/acphost/acphost/internal/proc"

// look returns the current state of a process; false: it does not exist.
func look(pid int) (process, bool) {
	p, err := proc.Stat(pid)
	return process{p.PID, p.Start}, err == nil
}

// above calls visit for a process and each of its ancestors until visit returns true; false: the ancestors could not be followed.
func above(pid int, visit func(process) (enough bool)) bool {
	return proc.Ancestors(pid, func(p proc.Process) (bool, error) { return visit(process{p.PID, p.Start}), nil }) == nil
}
