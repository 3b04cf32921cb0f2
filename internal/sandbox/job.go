package sandbox

import (
	"bufio"
	"os"

	"github.com/acphost/acphost/internal/nulmsg"
)

// Descriptors of a sandbox with the flag "--job", in addition to DecisionsFD.
const (
	// JobFD is a file with the Job. The arguments then contain no command.
	JobFD = 4
	// OutcomeFD is a pipe to which the sandbox writes each Outcome.
	OutcomeFD = 5
)

// Job is the command that a sandbox with the flag "--job" starts. It is not passed in the arguments and environment of the sandbox:
// the caller that chooses a command must not choose the arguments and environment of the sandbox itself.
type Job struct {
	// Program is the absolute path of the file to execute. No other file is tried.
	Program string
	// Args are the arguments, with the program's name first. Env is the whole environment, each "NAME=VALUE".
	Args, Env []string
}

// Exchange implements nulmsg.Message.
func (j *Job) Exchange(c *nulmsg.Codec) {
	c.Text("program", &j.Program)
	c.Texts("arg", &j.Args)
	c.Texts("env", &j.Env)
}

// Outcome is a report of a sandbox with the flag "--job" about its command: first that it runs or was not started, then how it ended.
// The command's remaining processes keep running then, and the sandbox with them, until all of them have ended.
type Outcome struct {
	// PID is the command's process; 0: it was not started, or has ended.
	PID int
	// Failed is the reason why the command was not started. Errno is the system's error number, if the command itself caused the
	// error.
	Failed string
	Errno  int
	// Unsupported: this system cannot confine programs.
	Unsupported bool
	// Ended is how the command ended; nil: it has not ended.
	Ended *Ended
}

// Ended is how a command ended.
type Ended struct {
	// Code is the exit status, 0 to 255; -1 if a signal ended the command.
	Code int
	// Signal is the number of that signal; 0: no signal.
	Signal int
}

// Exchange implements nulmsg.Message.
func (o *Outcome) Exchange(c *nulmsg.Codec) {
	nulmsg.Number(c, "pid", &o.PID)
	c.Text("failed", &o.Failed)
	nulmsg.Number(c, "errno", &o.Errno)
	c.Flag("unsupported", &o.Unsupported)
	if e := nulmsg.Optional(c, "ended", &o.Ended); e != nil {
		nulmsg.Number(c, "code", &e.Code)
		nulmsg.Number(c, "signal", &e.Signal)
	}
}

// command is the command that a sandbox starts.
type command struct {
	args     []string
	program  string   // the file to execute; empty: args[0] is searched for as execvp does
	env      []string // nil: the sandbox's own
	outcomes *os.File // receives each Outcome; nil: none is written
}

// readJob reads the command of a sandbox with the flag "--job".
func readJob() (command, error) {
	file := os.NewFile(JobFD, "job")
	defer file.Close()
	var j Job
	if err := nulmsg.Read(bufio.NewReader(file), &j); err != nil {
		return command{}, err
	}
	return command{args: j.Args, program: j.Program, env: j.Env, outcomes: os.NewFile(OutcomeFD, "outcome")}, nil
}

// report writes an Outcome. It ignores errors: the reader may be gone.
func (c command) report(o Outcome) {
	if c.outcomes == nil {
		return
	}
	text, _ := nulmsg.Marshal(&o)
	_, _ = c.outcomes.Write(text)
}
