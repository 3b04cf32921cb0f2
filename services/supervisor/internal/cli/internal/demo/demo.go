// Package demo plays one turn of the scripted agent for a user to watch. It creates a small workspace, starts the real
// supervisor as an editor would, acts as that editor, and prints the turn step by step.
//
// The output contains only checked facts: answers arrive over the wire, the supervisor's log names the handler of each
// answer, and the file is read from disk at the end.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// The files and commands of the demo agent's script.
const (
	prompt  = "Please fix the spelling in notes.md, and show me that it is right."
	before  = "# Notes\n\nWe will recieve the parts on Monday.\nThe manual is in the box.\n"
	after   = "# Notes\n\nWe will receive the parts on Monday.\nThe manual is in the box.\n"
	private = "Nobody should read this.\n"

	policy = `version: 1
rules:
  - id: edits-in-the-workspace
    effect: allow
    on: [tool.edit, fs.read, fs.write]
    path: ["${root}/**"]
    reason: edits inside the workspace are fine
  - id: looking
    effect: allow
    command: [grep]
    reason: looking does no harm
  - id: stay-inside
    effect: deny
    on: ["fs.*"]
    when: action.paths.exists(p, !p.inside_roots)
    reason: the agent stays in its workspace
`
)

// timeout limits the whole turn.
const timeout = 60 * time.Second

// Options configure a demo.
type Options struct {
	// Exe is acphost's own program. The handlers and the agent are in the same folder.
	Exe string
	// Dir is the folder for the workspace, which is kept. Empty means a temporary folder, which is removed at the end.
	Dir string
	// Stdout receives the output, with colours if Color is set.
	Stdout io.Writer
	Color  bool
}

// Run plays the demo and returns the exit status: 0 only if every step was confirmed.
func Run(ctx context.Context, o Options) int {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s := &story{out: o.Stdout, color: o.Color}
	if err := play(ctx, o, s); err != nil {
		s.failed(err)
		return 1
	}
	return 0
}

func play(ctx context.Context, o Options, s *story) error {
	w, err := makeWorkspace(o.Dir)
	if err != nil {
		return err
	}
	if o.Dir == "" {
		defer func() { _ = os.RemoveAll(w.top) }()
	}
	s.title(w.root)
	agent := filepath.Join(filepath.Dir(o.Exe), "demoagent")
	if _, err := os.Stat(agent); err != nil {
		return fmt.Errorf("the demo's agent is not beside acphost: %w; install it with: go install github.com/acphost/acphost/examples/demoagent@latest", err)
	}
	e, err := startEditor(ctx, w.root, o.Exe, "run", "--config", w.config, "--log-level", "debug", "--log-format", "json", "--", agent)
	if err != nil {
		return err
	}
	turn := turn{editor: e, story: s, workspace: w}
	err = turn.play(ctx)
	if ctx.Err() != nil { // it has received SIGTERM
		defer time.AfterFunc(killTime, e.kill).Stop()
	}
	processes, listed := proc.Descendants(e.pid())
	err = errors.Join(err, e.stop())
	if err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	if errors.Is(listed, proc.ErrUnsupported) { // only Linux supports listing child processes
		return s.end(0)
	}
	if err := errors.Join(listed, waitGone(ctx, processes)); err != nil {
		return err
	}
	return s.end(len(processes) + 1)
}

// workspace is the folder that the agent may access, and the files beside it.
type workspace struct{ top, root, config string }

func makeWorkspace(dir string) (workspace, error) {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "acphost-demo-")
		if err != nil {
			return workspace{}, fmt.Errorf("make the demo's workspace: %w", err)
		}
		dir = tmp
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return workspace{}, err
	}
	w := workspace{top: dir, root: filepath.Join(dir, "workspace"), config: filepath.Join(dir, "acphost", "config.yaml")}
	for name, content := range map[string]string{
		filepath.Join(w.root, "notes.md"):         before,
		filepath.Join(dir, "private", "diary.md"): private,
		w.config: "permission: {policy: policy.yaml}\n",
		filepath.Join(dir, "acphost", "policy.yaml"): policy,
	} {
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o600)
		}
		if err != nil {
			return w, fmt.Errorf("make the demo's workspace: %w", err)
		}
	}
	return w, nil
}

// check checks the files on disk.
func (w workspace) check() error {
	got, err := os.ReadFile(filepath.Join(w.root, "notes.md"))
	if err != nil {
		return fmt.Errorf("look at the edited file: %w", err)
	}
	if string(got) != after {
		return fmt.Errorf("notes.md does not hold the edit: it is %q", got)
	}
	return nil
}

// waitGone waits until none of the processes exists. Their parent, the supervisor, has ended, so nothing else reports
// their end.
func waitGone(ctx context.Context, pids []int) error {
	for {
		var left []int
		for _, pid := range pids {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes are left behind: %v", left)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
