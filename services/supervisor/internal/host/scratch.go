package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
)

// scratch is the folder in which an agent in the sandbox has its temporary files. In the system's own, which other
// programs read too, the policy decides about each. A nil scratch does nothing.
type scratch struct {
	folder string        // absolute and without symbolic links
	over   chan struct{} // closed when the folder is gone; nil: the agent has not started
}

// openScratch makes the agent's folder, and has the agent know it.
func (la *linkedAgent) openScratch(s *agent.Spec) error {
	if s.Env == nil {
		s.Env = s.User.Environ(os.Environ())
	}
	in := "/tmp"
	for _, entry := range s.Env {
		if dir, ok := strings.CutPrefix(entry, "TMPDIR="); ok && filepath.IsAbs(dir) {
			in = dir
			break
		}
	}
	if real, err := filepath.EvalSymlinks(in); err == nil {
		in = real
	}
	folder, err := os.MkdirTemp(in, "acphost-agent-")
	if err != nil {
		return fmt.Errorf("make a folder for the temporary files of agent %q: %w; TMPDIR has to name a folder that acphost can write", la.identity.Name, err)
	}
	la.scratch = &scratch{folder: folder}
	if as := s.User.Credential(); as != nil {
		if err := os.Lchown(folder, int(as.Uid), int(as.Gid)); err != nil {
			la.scratch.remove()
			return fmt.Errorf("give the folder for temporary files to the user of agent %q: %w", la.identity.Name, err)
		}
	}
	s.Env = replaced(s.Env, []string{"TMPDIR=" + folder})
	return nil
}

func (c *scratch) remove() {
	if c != nil {
		_ = os.RemoveAll(c.folder) // what cannot be removed stays, as it would in the system's folder
	}
}

// until removes the folder once the agent has ended, with all that it started.
func (c *scratch) until(done <-chan struct{}) {
	c.over = make(chan struct{})
	go func() {
		defer close(c.over)
		defer panics.Recover(nil, "removing an agent's folder for temporary files")
		<-done
		c.remove()
	}()
}

// wait waits until the folder is gone, or ctx ends.
func (c *scratch) wait(ctx context.Context) {
	if c == nil || c.over == nil {
		return
	}
	select {
	case <-c.over:
	case <-ctx.Done():
	}
}
