package sessions

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/recordings"
	"github.com/acphost/acphost/services/supervisor/internal/events/replay"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// watchFlags select the watched session, and configure its output.
type watchFlags struct {
	reach.Flags
	agent, cursor    string
	noFollow, asJSON bool
	verbose, history bool
}

func newWatch(call *command.Call) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Print the events of a session",
		Long: `Print the events of a session: recorded events, then live events, until the command
is interrupted. ID is the id of a session, or a prefix. If no running supervisor has
the session, only recorded events are printed.

With --json, each line is an event of the API. --cursor continues after the event
with this cursor; "now" prints only live events.`,
		Example: `  acphost sessions watch 4f1c
  acphost sessions watch 4f1c --json --cursor now | jq -r '.agentMessage.content.text.text // empty'`,
		Args:              oneSession,
		ValidArgsFunction: recordings.CompleteSessions(call, &f.Config),
		RunE:              func(cmd *cobra.Command, args []string) error { return watchSession(call, cmd, &f, args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.asJSON, "json", false, "print events as JSON lines")
	flags.StringVar(&f.cursor, "cursor", "", "begin after the event with this `CURSOR`, or \"now\"")
	flags.StringVar(&f.agent, "agent", "", "the id or name of its `AGENT`, if several have a session with this id")
	flags.BoolVar(&f.noFollow, "no-follow", false, "exit after the recorded events")
	flags.BoolVar(&f.verbose, "verbose", false, "also print successful calls, commands and new sessions")
	flags.BoolVar(&f.history, "history", false, "include the history that the agent repeated when it loaded the session")
	f.Register(cmd)
	cliflag.Complete(cmd, "cursor", cliflag.Words("now"))
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	return cmd
}

// watchSession finds the supervisor of a session, and prints its events.
func watchSession(call *command.Call, cmd *cobra.Command, f *watchFlags, id string) (err error) {
	all, closeAll, err := reach.All(cmd, call, &f.Flags)
	defer closeAll()
	if err != nil {
		return err
	}
	req := &supervisorv1.WatchSessionRequest{AgentId: f.agent, SessionId: id, Cursor: f.cursor, NoFollow: f.noFollow}
	at, err := reach.FindSession(cmd.Context(), call, all, req)
	if err != nil {
		return err
	}
	if at == nil && f.Named() { // its record may contain the session
		at = all[0]
	}
	show, rest := output.EventLine, func() string { return "" }
	if !f.asJSON {
		look := output.RenderOptions(call, "", f.verbose, false)
		look.Prompts, look.History, look.NoUsage = true, f.history, false
		r := render.New(look)
		show, rest = r.Event, r.Flush
	}
	tell := func(ev *supervisorv1.Event) error {
		_, err := io.WriteString(call.Stdout, show(ev))
		return err
	}
	defer func() {
		_, failed := io.WriteString(call.Stdout, rest())
		err = errors.Join(err, failed)
	}()
	if at != nil {
		return watchLive(cmd.Context(), at, req, tell)
	}
	parts, err := findSession(call, f.Config, id)
	if err != nil {
		return err
	}
	newest := parts[len(parts)-1]
	req.SessionId = newest.Session
	if req.GetAgentId() == "" {
		req.AgentId = newest.Agent
	}
	dir := filepath.Dir(filepath.Dir(newest.File)) // a file is in the folder of its day
	return replay.Recorded(cmd.Context(), dir, req, tell)
}

// watchLive prints a session's events from a supervisor until it is interrupted.
func watchLive(ctx context.Context, at *reach.Supervisor, req *supervisorv1.WatchSessionRequest, show func(*supervisorv1.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := at.WatchSession(ctx, req)
	if err != nil {
		return reach.CallErrorLine(err)
	}
	for ev, err := range events {
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return reach.CallErrorLine(err)
		}
		if err := show(ev); err != nil {
			return err
		}
	}
	return nil
}
