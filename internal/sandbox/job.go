package sandbox

import (
	"bufio"
	"os"

	"github.com/acphost/acphost/internal/entries"
)

// The descriptors of a sandbox with the flag "--job", beside DecisionsFD.
const (
	// JobFD is a file with the Job. The arguments then name no command.
	JobFD = 4
	// OutcomeFD is a pipe for each Outcome.
	OutcomeFD = 5
)

// Job is what a sandbox with the flag "--job" is told to start. It does not stand in the arguments and the
// environment of the sandbox: whoever chooses a command must not choose what the sandbox itself runs with.
type Job struct {
	// Program is the absolute path of the file to execute: it, or nothing.
	Program string
	// Args are its arguments with its name, and Env the whole environment, each "NAME=VALUE".
	Args, Env []string
}

// Exchange implements entries.Message.
func (j *Job) Exchange(c *entries.Codec) {
	c.Text("program", &j.Program)
	c.Texts("arg", &j.Args)
	c.Texts("env", &j.Env)
}

// Outcome is what a sandbox with the flag "--job" tells of its command: first that it runs or that it does not, and
// in the end how it ended. What the command has left behind goes on then, and so does the sandbox, until nothing of
// it runs any more.
type Outcome struct {
	// PID is the command's process; 0: it was not started, or it has ended.
	PID int
	// Failed is the reason why it was not started, and Errno the number of the system's error, if it is one of the
	// command's.
	Failed string
	Errno  int
	// Unsupported: nothing can be confined on this system.
	Unsupported bool
	// Ended is how the command ended; nil: it has not.
	Ended *Ended
}

// Ended is how a command ended.
type Ended struct {
	// Code is the exit status, 0 to 255; -1 if a signal ended the command.
	Code int
	// Signal is the number of that signal; 0: none.
	Signal int
}

// Exchange implements entries.Message.
func (o *Outcome) Exchange(c *entries.Codec) {
	entries.Number(c, "pid", &o.PID)
	c.Text("failed", &o.Failed)
	entries.Number(c, "errno", &o.Errno)
	c.Flag("unsupported", &o.Unsupported)
	if e := entries.Optional(c, "ended", &o.Ended); e != nil {
		entries.Number(c, "code", &e.Code)
		entries.Number(c, "signal", &e.Signal)
	}
}

// command is what a sandbox starts.
type command struct {
	args    []string
	program string   // the file to execute; empty: args[0] is looked for as execvp does
	env     []string // nil: the sandbox's own
	told    *os.File // is told of each Outcome; nil: nobody is
}

// takeJob reads the command of a sandbox with the flag "--job".
func takeJob() (command, error) {
	file := os.NewFile(JobFD, "job")
	defer file.Close()
	var j Job
	if err := entries.Read(bufio.NewReader(file), &j); err != nil {
		return command{}, err
	}
	return command{args: j.Args, program: j.Program, env: j.Env, told: os.NewFile(OutcomeFD, "outcome")}, nil
}

// tell tells of an Outcome. Nobody has to be there to hear it.
func (c command) tell(o Outcome) {
	if c.told == nil {
		return
	}
	text, _ := entries.Marshal(&o)
	_, _ = c.told.Write(text)
}
