package guard

import (
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// The guard's own pipes, in addition to the three that it passes to the agent. The life pipe carries one job, then
// orders; its end is the order to end the agent, whether the supervisor closed it or died. The status pipe carries
// reports.
const (
	LifeFD   = 3
	StatusFD = 4
	// DecisionsFD is a socket that the guard passes to the sandbox, if it starts the agent in one.
	DecisionsFD = 5

	// EndWell and KillNow are the orders to end the agent after the grace period, and at once.
	EndWell = "end\n"
	KillNow = "kill\n"
)

// Job is the guard's job. It is sent over a pipe, because others can read arguments and the environment.
type Job struct {
	Command    []string
	Dir        string // absolute
	Env        []string
	Mark       string              // the entry of Env that identifies processes of the agent
	Credential *syscall.Credential // the agent's user; nil: the guard's user
	Grace      time.Duration
	// Sandbox is the program that starts the agent in a sandbox, with its arguments. Nil: no sandbox.
	Sandbox []string
	// Group is the folder of the control group that the agent starts in. Empty: the guard's group.
	Group string
	proc.Confinement
}

// Report is one message from the guard. One of its fields is set.
type Report struct {
	Started *Started
	Failed  *Failed
	Ended   *proc.ExitStatus
	Clean   bool // no process of the agent is left
}

// Started reports that the agent's program runs.
type Started struct {
	PID          int
	Restrictions proc.Restrictions
}

// Failed is the reason why the agent's program could not be started.
type Failed struct {
	NotFound bool // the program does not exist
	Detail   string
}
