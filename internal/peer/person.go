package peer

import "fmt"

// NoPerson returns the reason why a process that connected to a socket of self is not controlled by a person: it is an
// agent or a handler, or a descendant of one. Empty: no evidence was found. It returns an error if the evidence cannot
// be read; access checks should then reject the process.
//
// There are two independent checks: the ancestors of the process, and the number of its seccomp filters.
func NoPerson(c Peer, self int) (why string, err error) {
	why, err = Descent(c.PID, self)
	if err == nil && why == "" {
		why, err = filtered(c.PID, self)
	}
	if err == nil {
		// Checked last: the results above are about the caller if it has been alive until now.
		err = c.Process.Alive()
	}
	return why, err
}

// filtered returns a reason if a process has more seccomp filters than self. It returns an empty text if it has not, or
// if this kernel does not count filters; then other checks must keep agents out.
func filtered(pid, self int) (why string, err error) {
	has, own, err := Filters(pid, self)
	if err != nil || has <= own {
		return "", err
	}
	return fmt.Sprintf("process %d has %d seccomp filters and this supervisor has %d, as what an agent starts has one more; call from outside of that sandbox", pid, has, own), nil
}
