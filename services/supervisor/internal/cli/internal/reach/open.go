package reach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

// OpenSession is a session with its supervisor.
type OpenSession = Item[*supervisorv1.Session]

// FindSession finds the supervisor of a session, and sets the session's ids in the request. It returns nil if none
// exists.
func FindSession(ctx context.Context, call *command.Call, all []*Supervisor, req *supervisorv1.WatchSessionRequest) (*Supervisor, error) {
	list := OpenSessions(ctx, call, all)
	if agent := req.GetAgentId(); agent != "" {
		list = slices.DeleteFunc(list, func(s OpenSession) bool { return s.Of.GetAgentId() != agent && s.At.Agent != agent })
	}
	meant := SelectItems(list, func(s OpenSession) bool { return s.Of.GetSessionId() == req.GetSessionId() },
		func(s OpenSession) bool { return strings.HasPrefix(s.Of.GetSessionId(), req.GetSessionId()) })
	switch len(meant) {
	case 0:
		return nil, nil
	case 1:
		req.AgentId, req.SessionId = meant[0].Of.GetAgentId(), meant[0].Of.GetSessionId()
		return meant[0].At, nil
	}
	var text strings.Builder
	for _, s := range meant[:min(len(meant), 20)] {
		agent, id := output.Cell(s.Of.GetAgentId()), output.Cell(s.Of.GetSessionId())
		fmt.Fprintf(&text, "\n  --pid %d --agent %s  %s  %s", s.At.PID, agent, id, output.OneLine(s.Of.GetTitle(), 60))
	}
	return nil, fmt.Errorf("%s may be any of %d sessions; select one:%s",
		output.Cell(req.GetSessionId()), len(meant), text.String())
}

// CompleteOpen completes the ids of open sessions.
func CompleteOpen(ctx context.Context, call *command.Call, all []*Supervisor, _ []string) (list []cobra.Completion) {
	for _, s := range OpenSessions(ctx, call, all) {
		list = output.Completions(list, s.Of.GetSessionId(), s.Of.GetAgentId()+" "+s.Of.GetTitle())
	}
	return list
}

// OpenSessions returns the open sessions of supervisors.
func OpenSessions(ctx context.Context, call *command.Call, all []*Supervisor) []OpenSession {
	return List(ctx, call, all, "sessions", func(ctx context.Context, at *Supervisor) ([]*supervisorv1.Session, error) {
		res, err := at.State.ListSessions(ctx, &supervisorv1.ListSessionsRequest{})
		return res.GetSessions(), err
	})
}
