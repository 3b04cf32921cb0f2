package host

import (
	"context"
	"encoding/json"
	"io"
	"time"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

// agentEnd is an agent's process with the interface that the link needs.
type agentEnd struct{ *agent.Process }

// Stdin returns the writer for messages to the agent.
func (a agentEnd) Stdin() io.WriteCloser { return a.Process.Stdin() }

// Stdout returns the reader of the agent's messages.
func (a agentEnd) Stdout() io.Reader { return a.Process.Stdout() }

// Ended returns how the agent ended, or that it only closed its output.
func (a agentEnd) Ended(ctx context.Context) (how string, data []byte) {
	select {
	case <-a.Done():
		exit := a.Exit()
		return "it " + exit.String(), endData(&exit, exit.Tail)
	case <-ctx.Done():
		return "it closed its standard output, though it still runs", endData(nil, a.StderrTail())
	}
}

// endData encodes how an agent ended, for programs. exit is nil if the agent still runs.
func endData(exit *agent.Exit, tail []string) []byte {
	type end struct {
		Kind       string   `json:"kind"`
		ExitCode   *int     `json:"exitCode,omitempty"`
		Signal     string   `json:"signal,omitempty"`
		StderrTail []string `json:"stderrTail,omitempty"`
	}
	e := end{Kind: "crashed", StderrTail: tail}
	if exit != nil {
		if exit.Stopped {
			e.Kind = "stopped"
		}
		if exit.Code >= 0 {
			e.ExitCode = &exit.Code
		}
		e.Signal = exit.Signal
	}
	data, err := json.Marshal(map[string]end{"acphost": e})
	if err != nil { // cannot fail: numbers and strings only
		return nil
	}
	return data
}

// stopGrace returns the time that the agent has to end after its input is closed, and again after SIGTERM.
func (h *host) stopGrace() time.Duration {
	return time.Duration(h.config.GetAgent().GetStopGraceMs()) * time.Millisecond
}

func extraRoots(c *configv1.Config) []*acpv1.Root {
	var roots []*acpv1.Root
	for _, r := range c.GetWorkspace().GetExtraRoots() {
		roots = append(roots, &acpv1.Root{Path: r.GetPath(), ReadOnly: r.GetReadOnly()})
	}
	return roots
}
