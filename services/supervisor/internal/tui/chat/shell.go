package chat

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/internal/child"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/question/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// confirmation is an action that only the user at the terminal may perform: no policy decides about it, and an agent
// may be able to inject keys.
type confirmation struct {
	what string // the text after "type xy to"
	code *confirm.Code
	do   func() tea.Cmd
}

// confirmFirst asks the user to confirm an action with a code.
func (m *model) confirmFirst(what string, do func() tea.Cmd) {
	m.confirming = &confirmation{what: what, code: m.o.codes.New(), do: do}
	m.menu = menu{hidden: true}
}

func (c *confirmation) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	if k.Keystroke() == "esc" {
		m.confirming = nil
		return nil
	}
	done, stands := c.code.Key(k.Text)
	if done || !stands {
		m.confirming = nil
	}
	if !done {
		return nil
	}
	return c.do()
}

func (c *confirmation) rows(m *model) []string {
	rows := safetext.Wrap("type "+m.sty.bold(c.code.Text())+" to "+c.what+": "+c.code.Typed(), m.width, "  ")
	return append(rows, m.sty.dims(hints(m.width, "another key goes back"))...)
}

// ownCommand is a command of the user that runs beside the agent, which does not see it.
type ownCommand struct {
	line string
	draw *render.Renderer
	stop context.CancelFunc
}

// ownTerminal is the name of the terminal of the user's command.
const ownTerminal = "yours"

// runOwn runs a command of the user after a confirmation, because no policy decides about it.
func (m *model) runOwn(line string) {
	switch {
	case strings.TrimSpace(line) == "":
		m.warn("! takes a command for your shell; to say this to the agent, begin with a space")
		return
	case m.own != nil:
		m.warn("a command of yours runs; ctrl+c ends it")
		return
	}
	m.confirmFirst("run this in your shell, outside of the policy", func() tea.Cmd {
		keep := m.past.Add("!" + line)
		m.edit, m.menu = editor{}, menu{}
		ctx, stop := context.WithCancel(m.sup.ctx)
		m.own = &ownCommand{line: line, draw: m.renderer(), stop: stop}
		m.flush()
		m.print(m.sty.bold("! " + safetext.Text(line)))
		cmd := follow(m.sup, shellOutput(ctx, m.o.Env, m.o.Cwd, line), func(all []*supervisorv1.WatchOutputResponse, next tea.Cmd, err error) tea.Msg {
			return ownOutputMsg{pieces: all, next: next, err: err}
		})
		if keep == nil {
			return cmd
		}
		return tea.Batch(cmd, m.keep(keep))
	})
}

// ownOutputMsg is output of the user's command.
type ownOutputMsg struct {
	pieces []*supervisorv1.WatchOutputResponse
	next   tea.Cmd
	err    error
}

func (msg ownOutputMsg) apply(m *model) tea.Cmd {
	own := m.own
	if own == nil {
		return nil
	}
	for _, out := range msg.pieces {
		if text := own.draw.Output(ownTerminal, out); text != "" {
			m.flush()
			m.print(text)
		}
		m.spokeLast(own.draw, ownTerminal, out.GetEnded())
	}
	if msg.err == nil {
		return m.throttled(msg.next)
	}
	own.stop()
	m.own = nil
	if !errors.Is(msg.err, io.EOF) && !errors.Is(msg.err, context.Canceled) {
		m.fail("run your command: " + msg.err.Error())
	}
	return nil
}

// endOwn ends the user's command.
func (m *model) endOwn() { m.own.stop() }

// killGrace is the time between the signals that end a command.
const killGrace = time.Second

// shellOutput runs a line in the user's shell, and yields its output and its end. It has no terminal and no input,
// which the chat uses. The whole process group ends with the context.
func shellOutput(ctx context.Context, env []string, cwd, line string) iter.Seq2[*supervisorv1.WatchOutputResponse, error] {
	return func(yield func(*supervisorv1.WatchOutputResponse, error) bool) {
		from, to, err := os.Pipe()
		if err != nil {
			yield(nil, err)
			return
		}
		defer from.Close()
		cmd := exec.Command(cmp.Or(valueOf(env, "SHELL"), "/bin/sh"), "-c", line)
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, cwd, to, to
		apart(cmd)
		err = child.Start(cmd)
		_ = to.Close()
		if err != nil {
			yield(nil, err)
			return
		}
		ended := context.AfterFunc(ctx, func() {
			endGroup(cmd, false)
			_ = from.SetReadDeadline(time.Now().Add(killGrace)) // a process that left the group may keep the pipe open
		})
		wanted := true
		for b := make([]byte, 32<<10); ; {
			n, err := from.Read(b)
			if n > 0 && wanted {
				wanted = yield(&supervisorv1.WatchOutputResponse{Data: append([]byte(nil), b[:n]...)}, nil)
			}
			if err != nil || !wanted {
				break
			}
		}
		if ctx.Err() != nil || !wanted {
			endGroup(cmd, true)
		}
		_ = child.Wait(cmd) // the result is in its state
		ended()
		if wanted {
			yield(endOf(cmd.ProcessState), nil)
		}
	}
}

// valueOf returns the value of a variable in an environment.
func valueOf(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}
