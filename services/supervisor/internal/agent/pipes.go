package agent

import (
	"fmt"
	"os"
	"syscall"
)

// pipeSize is what the agent's stdin and stdout hold, in bytes: large lines then take fewer switches between the
// processes. More would use up the user's allowance of pipe memory after a few dozen agents.
const pipeSize = 256 << 10

// pipe is a pipe between this process and the guard or the agent.
type pipe struct{ ours, theirs *os.File }

// pipes are all that connect the supervisor with a guard and its agent.
type pipes struct{ stdin, stdout, stderr, life, status pipe }

// open opens them all. Those that the agent gets belong to its user, so that it can open /dev/stdin and the like.
func (p *pipes) open(owner *syscall.Credential) error {
	for _, p := range []struct {
		pipe   *pipe
		writes bool // this process holds the writing end
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

// all are the pipes; those that could not be opened have no files, and closing none does nothing.
func (p *pipes) all() []pipe { return []pipe{p.stdin, p.stdout, p.stderr, p.life, p.status} }
