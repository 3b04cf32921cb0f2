package chat

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acphost/acphost/internal/peer"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/gateway"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/tui/chat"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

// histories returns the values of --history.
func histories() []string {
	return []string{chat.HistoryFull, chat.HistoryPending, chat.HistoryNone}
}

// withAttach returns the flags that can be combined with --attach, where --agent selects the session's agent. All
// others configure the start of an agent.
func withAttach() []string {
	return append([]string{"attach", "history", "agent", "pid", "socket", "config", "notify", "connect"}, gateway.Names()...)
}

func registerAttach(cmd *cobra.Command, call *command.Call, f *flags) {
	set := cmd.Flags()
	set.StringVar(&f.attach, "attach", "", "join the open `SESSION` of a running acphost: its id, or a prefix")
	set.StringVar(&f.history, "history", chat.HistoryFull,
		"with --attach, `WHAT` is shown of the past: full, pending (open questions), none")
	set.IntVar(&f.which.PID, "pid", 0, "with --attach: the supervisor's process id, `PID`, if several have such a session")
	set.StringVar(&f.which.Socket, "socket", "", "with --attach: the supervisor's admin `SOCKET`")
	set.StringVar(&f.connect, "connect", "", "with --attach: the `URL` of the gateway that has the session, such as wss://acp.example.org/acp")
	f.far.Register(set, "with --connect: ")
	cliflag.Complete(cmd, "history", cliflag.Words(histories()...))
	complete := reach.Complete(call, &f.which, 1, reach.CompleteOpen)
	cliflag.Complete(cmd, "attach", func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	})
}

// checkAttach checks the flags and arguments of a call that joins a session.
func checkAttach(cmd *cobra.Command, f *flags, args []string) (err error) {
	if f.attach == "" {
		return command.UsageErrorf(cmd, "--attach: which session? \"acphost top\" shows those that are open")
	}
	if len(args) > 0 {
		return command.UsageErrorf(cmd, "--attach joins a session whose agent runs already: it takes no command")
	}
	if !slices.Contains(histories(), f.history) {
		return command.UsageErrorf(cmd, "--history: expected full, pending or none, not %q", f.history)
	}
	for _, name := range gateway.Names() {
		if f.connect == "" && cmd.Flags().Changed(name) {
			return command.UsageErrorf(cmd, "--%s is for --connect", name)
		}
	}
	if f.connect != "" {
		switch _, err := f.far.Parse(f.connect); {
		case err != nil:
			return command.UsageErrorf(cmd, "--connect: %v", err)
		case f.which.Named():
			return command.UsageErrorf(cmd, "--connect, --pid and --socket: only one of them may be set")
		}
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(withAttach(), flag.Name) {
			err = command.UsageErrorf(cmd, "--attach joins a session that is open already: it takes no --%s", flag.Name)
		}
	})
	return err
}

// modesWithoutEditor returns the modes of supervisors whose sessions accept prompts of every client with the rights.
func modesWithoutEditor() []string { return []string{"serve", "chat", "prompt"} }

// editorsSession is shown for a session of an editor.
const editorsSession = "an editor has this session and gives its prompts: you follow it, and answer its questions"

// join runs a chat in a live session.
func join(cmd *cobra.Command, call *command.Call, export Exporter, f *flags) error {
	if err := checkTerminal(cmd, call, f); err != nil {
		return err
	}
	// At another position, --attach might be another flag's value. A supervisor that checks this process has the same
	// rule.
	if len(os.Args) > 2 && os.Args[1] == "chat" && !peer.JoinsSession(os.Args[2]) {
		return command.UsageErrorf(cmd, "put --attach right behind \"chat\": acphost chat --attach %s …", output.Cell(f.attach))
	}
	if f.connect != "" {
		return joinFar(cmd, call, export, f)
	}
	f.which.Config = f.Config
	return reach.With(cmd, call, &f.which, func(all []*reach.Supervisor) error {
		req := &supervisorv1.WatchSessionRequest{AgentId: f.Agent, SessionId: f.attach}
		at, err := reach.FindSession(cmd.Context(), call, all, req)
		switch {
		case err != nil:
			return err
		case len(all) == 0:
			return fmt.Errorf("no acphost runs that has a session %s", output.Cell(f.attach))
		case at == nil:
			return fmt.Errorf("no session %s is open; \"acphost top\" shows those that are", output.Cell(f.attach))
		}
		return joinAt(cmd, call, export, f, at, req)
	})
}

// joinFar runs a chat in a session behind a gateway, with the caller's rights at the gateway.
func joinFar(cmd *cobra.Command, call *command.Call, export Exporter, f *flags) error {
	u, err := f.far.Parse(f.connect)
	if err != nil {
		return err
	}
	c, err := f.far.Dial(call, u)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	at, err := reach.At(cmd.Context(), u.Host, c)
	if err != nil {
		return err
	}
	req := &supervisorv1.WatchSessionRequest{AgentId: f.Agent, SessionId: f.attach}
	switch one, err := reach.FindSession(cmd.Context(), call, []*reach.Supervisor{at}, req); {
	case err != nil:
		return err
	case one == nil:
		return fmt.Errorf("the gateway at %s has no session %s", u.Host, output.Cell(f.attach))
	}
	return joinAt(cmd, call, export, f, at, req)
}

func joinAt(cmd *cobra.Command, call *command.Call, export Exporter, f *flags, at *reach.Supervisor, session *supervisorv1.WatchSessionRequest) error {
	end := newEnding(cmd.Context(), hosting.EndGrace(nil))
	call.HandleSignals()
	defer end.close()
	if err := jobcontrol.AwaitForeground(end.ctx, call.Stdin); err != nil {
		if s, ok := end.signal().(syscall.Signal); ok {
			call.Status = 128 + int(s)
			return nil
		}
		return fmt.Errorf("hold a chat here: %w", err)
	}
	o := options(call, export, f)
	o.Conn = at.Client
	o.Agent = &supervisorv1.StartAgentRequest{}
	o.Attach = &chat.Attach{AgentID: session.GetAgentId(), SessionID: session.GetSessionId(), History: f.history}
	if !slices.Contains(modesWithoutEditor(), at.Mode) {
		o.Attach.Follow = editorsSession
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	o.Cwd = here // for "!COMMAND" and "@PATH"
	result, err := chat.Run(end.ctx, o)
	if ended(call, end, err) {
		return nil
	}
	if id := cmp.Or(result.Session, session.GetSessionId()); !result.Over && plainWord.MatchString(id) {
		more := ""
		if f.connect != "" {
			more = " --connect …"
		}
		fmt.Fprintf(call.Stderr, "the session goes on; join it again: acphost chat --attach %s%s\n", id, more)
	}
	return nil
}
