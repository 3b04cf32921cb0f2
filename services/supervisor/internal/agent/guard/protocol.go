package guard

import (
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// The guard's own pipes, beside the three that it hands on. Down the life pipe go one job, then orders; its end is the
// order to end the agent, whether the supervisor closed it or died. Up the status pipe go reports.
const (
	LifeFD   = 3
	StatusFD = 4
	// DecisionsFD is a socket that the guard hands on to the sandbox, if it starts the agent in one.
	DecisionsFD = 5

	// EndWell and KillNow are the orders: to end the agent, and to end it at once.
	EndWell = "end\n"
	KillNow = "kill\n"
)

// Job is what a guard is asked to do. It travels in a pipe and not in arguments or the environment, which others can
// read.
type Job struct {
	Command    []string
	Dir        string // absolute
	Env        []string
	Mark       string              // the entry of Env by which strays are found
	Credential *syscall.Credential // the user to run as; nil: the guard's own
	Grace      time.Duration
	// Sandbox is the program that starts the agent in a sandbox, with its arguments; nil: the agent is started as it is.
	Sandbox []string
	proc.Confinement
}

// Report is one message from the guard. One of its fields is set.
type Report struct {
	Started *Started
	Failed  *Failed
	Ended   *proc.ExitStatus
	Clean   bool // nothing of the agent is left
}

// Started says that the agent's program runs.
type Started struct {
	PID   int
	Walls proc.Walls
}

// Failed says why the agent's program could not be started.
type Failed struct {
	NotFound bool // there is no such program
	Detail   string
}
