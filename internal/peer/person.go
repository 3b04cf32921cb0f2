package peer

import "fmt"

// NoPerson says why a process that connected to a socket of self is not a person's: it is an agent or a handler, or what one of
// them started. Empty: nothing says so. An error says that it cannot be told; who guards something should then refuse.
//
// Two things are looked at that do not depend on one another: what stands above the process, and how many seccomp filters it has.
func NoPerson(c Peer, self int) (why string, err error) {
	why, err = Descent(c.PID, self)
	if err == nil && why == "" {
		why, err = filtered(c.PID, self)
	}
	if err == nil {
		// Only now: the answer is about the caller if its number was the caller's all the time.
		err = c.Process.Alive()
	}
	return why, err
}

// filtered says that a process has more seccomp filters than self; empty: it has not, or this kernel counts none, and then
// something else must keep agents away.
func filtered(pid, self int) (why string, err error) {
	has, own, err := Filters(pid, self)
	if err != nil || has <= own {
		return "", err
	}
	return fmt.Sprintf("process %d has %d seccomp filters and this supervisor has %d, as what an agent starts has one more; call from outside of that sandbox", pid, has, own), nil
}
