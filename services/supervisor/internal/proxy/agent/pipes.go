package agent

import (
	"fmt"
	"os"
	"syscall"
)

// pipeSize is the buffer size of the agent's stdin and stdout, in bytes. Large lines then need fewer switches between
// the processes. More would exhaust the user's limit of pipe memory after a few dozen agents.
const pipeSize = 256 << 10

// pipe is a pipe between this process and the guard or the agent.
type pipe struct{ ours, theirs *os.File }

// pipes are all pipes between the supervisor, a guard and its agent.
type pipes struct{ stdin, stdout, stderr, life, status pipe }

// open opens all pipes. The agent's user owns the agent's ends, so that it can open /dev/stdin and similar files.
func (p *pipes) open(owner *syscall.Credential) error {
	for _, p := range []struct {
		pipe   *pipe
		writes bool // this process has the writing end
		agents bool
		large  bool
	}{
		{&p.stdin, true, true, true},
		{&p.stdout, false, true, true},
		{&p.stderr, false, true, false},
		{&p.life, true, false, false},
		{&p.status, false, false, false},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("open a pipe: %w", err)
		}
		if *p.pipe = (pipe{ours: r, theirs: w}); p.writes {
			*p.pipe = pipe{ours: w, theirs: r}
		}
		if p.large {
			growPipe(p.pipe.ours, pipeSize)
		}
		if p.agents && owner != nil {
			if err := p.pipe.theirs.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
				return fmt.Errorf("give a pipe to user %d: %w", owner.Uid, err)
			}
		}
	}
	return nil
}

func (p *pipes) closeTheirs() {
	for _, p := range p.all() {
		_ = p.theirs.Close()
	}
}

// all returns the pipes. Pipes that could not be opened have nil files, whose Close does nothing.
func (p *pipes) all() []pipe { return []pipe{p.stdin, p.stdout, p.stderr, p.life, p.status} }
