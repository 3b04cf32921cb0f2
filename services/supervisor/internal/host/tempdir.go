package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

// tempDir is the folder for temporary files of an agent in the sandbox. In the system's folder, which other programs
// share, the policy decides about each file. All methods of a nil tempDir do nothing.
type tempDir struct {
	folder string        // absolute and without symbolic links
	done   chan struct{} // closed when the folder is removed; nil: the agent has not started
}

// openTempDir creates the agent's folder and sets the agent's environment variables for it.
func (la *linkedAgent) openTempDir(s *agent.Spec) error {
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
	la.tempDir = &tempDir{folder: folder}
	if as := s.User.Credential(); as != nil {
		if err := os.Lchown(folder, int(as.Uid), int(as.Gid)); err != nil {
			la.tempDir.remove()
			return fmt.Errorf("give the folder for temporary files to the user of agent %q: %w", la.identity.Name, err)
		}
	}
	s.Env = replaced(s.Env, []string{"TMPDIR=" + folder, "TMUX_TMPDIR=" + folder})
	return nil
}

func (c *tempDir) remove() {
	if c != nil {
		_ = os.RemoveAll(c.folder) // files that cannot be removed remain, as in the system's folder
	}
}

// until removes the folder once done is closed: the agent has ended with all processes that it started.
func (c *tempDir) until(done <-chan struct{}) {
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		defer panics.Recover(nil, "removing an agent's folder for temporary files")
		<-done
		c.remove()
	}()
}

// wait waits until the folder is removed, or ctx ends.
func (c *tempDir) wait(ctx context.Context) {
	if c == nil || c.done == nil {
		return
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
}
