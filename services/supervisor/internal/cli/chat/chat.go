// Package chat implements "acphost chat": runs a session with an agent on this terminal, with its own supervisor.
// Package internal/chat implements the screen; this package starts and ends it.
package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/ownfile"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/gateway"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/tui/chat"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

const chatLong = `Run a session with an agent on this terminal.

The agent is a name in "acphost agents list" (--agent), or the command after "--".
acphost starts it for this chat, with its handlers and policy, and ends it and all
its processes with the chat.

The screen shows the conversation, and below it the agent's activity, its questions,
and your input. "/help" lists commands and keys, "@PATH" attaches a file, and
"!COMMAND" runs a command in your own shell, which the agent does not see. Text that
you write while the agent works is sent after the turn. The input history is kept in
chat_history in acphost's state folder, without recognised secrets.

Without a policy, the agent's commands run without a question. With --policy
workspace, rules decide.

--attach SESSION joins an open session of a running acphost: of an editor, "acphost
serve", or another chat. You see its events and can answer its questions; the first
answer applies. If it is not an editor's session, you can also send prompts while no
other turn is in progress. If you leave, the session continues. --history selects
the part of the past that you see. With --connect, the session is behind a gateway
(gatewayd), and the role of your token or certificate determines your rights: read
(viewer), answer questions (approver), prompt (operator).

If a question opens or a turn ends while the terminal has no focus, chat rings the
bell and requests a desktop notification from the terminal (OSC 9 or 777), without
text of the agent. --notify bell or off changes this.`

const chatExamples = `  acphost chat --agent claude
  acphost chat --agent gemini --mode plan --cwd ~/src/app
  acphost chat --agent claude --session 4f1c6a     continue a session
  acphost chat --agent claude --policy workspace
  acphost chat --agent claude --meta @options.json    with agent-specific options
  acphost chat -- opencode acp
  acphost chat --attach 4f1c                   join a session that is open
  acphost chat --attach 4f1c --connect wss://acp.example.org/acp --token-file laptop.token`

const chatExit = `
Exit status:
  0    success
  1    error
  2    wrong usage
  7    the agent requires a login
  126  the agent's command cannot be executed
  127  the agent's command is not found
  128 and the signal's number, if a signal ended it

Ctrl-Z stops acphost, and "fg" continues it. Ctrl-\ ends all at once; if GOTRACEBACK is
set, it also prints stacks.

Environment:
  ACPHOST_CONFIG  the configuration file, if --config is not given
  NO_COLOR        if set, no colours
  COLUMNS, LINES  the size, if the terminal does not report it
` + gateway.Environment

// Exporter writes a session from the journal to a file, in the format of the file's extension. It returns an error if
// the file exists.
type Exporter func(call *command.Call, configFile, session, file string) error

// flags are the flags of "chat".
type flags struct {
	hosting.SessionFlags
	notify          string // a Notify constant of package internal/chat
	attach, history string
	which           reach.Flags
	connect         string // the URL of a gateway
	far             gateway.Flags
}

// New returns the command "chat".
func New(call *command.Call, start hosting.Starter, export Exporter) *cobra.Command {
	f := flags{notify: chat.NotifyAuto}
	cmd := &cobra.Command{
		Use:     "chat [flags] {--agent NAME [-- ARGUMENT…] | -- COMMAND [ARGUMENT…] | --attach SESSION}",
		Short:   "Run a session with an agent on this terminal",
		Long:    chatLong,
		Example: chatExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("attach"):
				return checkAttach(cmd, &f, args)
			case cmd.Flags().Changed("history"), cmd.Flags().Changed("pid"), cmd.Flags().Changed("socket"), cmd.Flags().Changed("connect"):
				return command.UsageErrorf(cmd, "--history, --pid, --socket and --connect are for --attach")
			case len(args) > 0 && cmd.ArgsLenAtDash() != 0:
				return command.UsageErrorf(cmd, "put \"--\" before the agent's command, or its arguments: acphost chat -- %s", strings.Join(args, " "))
			case f.Agent == "" && (len(args) == 0 || args[0] == ""):
				return command.UsageErrorf(cmd, "which agent? Name one with --agent (\"acphost agents list\" shows them), or put its command behind \"--\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("attach") {
				return join(cmd, call, export, &f)
			}
			return runLocal(cmd, call, start, export, &f, args)
		},
	}
	cmd.Annotations = map[string]string{command.Sections: chatExit}
	f.Register(cmd, call.Env)
	cmd.Flags().StringVar(&f.notify, "notify", f.notify,
		"`HOW` to notify you of a question or the end of a turn if the terminal has no focus: auto (bell and desktop "+
			"notification), bell, off")
	cliflag.Complete(cmd, "notify", cliflag.Words(chat.NotifyAuto, chat.NotifyBell, chat.NotifyOff))
	registerAttach(cmd, call, &f)
	return cmd
}

// runLocal runs a chat with an agent in its own supervisor.
func runLocal(cmd *cobra.Command, call *command.Call, start hosting.Starter, export Exporter, f *flags, argv []string) error {
	if err := checkTerminal(cmd, call, f); err != nil {
		return err
	}
	r, meta, err := f.Read(cmd, argv)
	if err != nil {
		return err
	}
	r.Attended = true
	logs, err := newLogRelay(call)
	if err != nil {
		return err
	}
	defer logs.close()
	o, err := f.Options(cmd, call, logs.writer(), func(c *configv1.Config) error {
		if call.Env(cliflag.EnvLog) == "" && c.GetLog().GetLevel() == "" {
			f.Log.Level = cmp.Or(f.Log.Level, "error") // a chat shows the problems that warnings are about
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.Mode = host.ModeChat // without Stderr, whose output would disturb the screen
	if line := cliflag.NoRulesNotice(o.Config, r.GetCwd(), true); line != "" {
		logs.show(line)
	}
	in, missing := cliflag.Sandboxed(o.Config)
	if missing != "" {
		logs.show(missing)
	}
	records := &hosting.RecordingWarnings{Tell: logs.show}
	grace := hosting.EndGrace(o.Config)
	return runWith(cmd.Context(), call, export, f, r, meta, in, logs, grace, func(ctx, kill context.Context) (hosting.Supervisor, error) {
		o.Kill = kill
		return hosting.StartSupervisor(ctx, call, start, o, records)
	})
}

func checkTerminal(cmd *cobra.Command, call *command.Call, f *flags) error {
	if f.notify != chat.NotifyAuto && f.notify != chat.NotifyBell && f.notify != chat.NotifyOff {
		return command.UsageErrorf(cmd, "--notify: expected auto, bell or off, not %q", f.notify)
	}
	if !call.Terminal(call.Stdin) || !call.Terminal(call.Stdout) || cmp.Or(call.Env("TERM"), "dumb") == "dumb" {
		return errors.New("a chat needs a terminal whose cursor can be moved (TERM); without one there is \"acphost prompt\"")
	}
	return nil
}

// runWith runs a chat with an agent in a new supervisor, and sets the exit status. Its sessions are opened with meta.
// where describes the agent's sandbox in a few words, or is empty without a sandbox. grace is the time between a
// signal, or Ctrl-C, and the end of the context kill, which kills the supervisor's processes.
func runWith(ctx context.Context, call *command.Call, export Exporter, f *flags, r *supervisorv1.StartAgentRequest, meta, where string, logs *logRelay, grace time.Duration, start func(ctx, kill context.Context) (hosting.Supervisor, error)) error {
	end := newEnding(ctx, grace)
	call.HandleSignals()
	defer end.close()
	// In the background, wait for the foreground before anything is started or any setting is read.
	if err := jobcontrol.AwaitForeground(end.ctx, call.Stdin); err != nil {
		if s, ok := end.signal().(syscall.Signal); ok {
			call.Status = 128 + int(s)
			return nil
		}
		return fmt.Errorf("hold a chat here: %w", err)
	}
	sup, err := start(end.ctx, end.kill)
	if err != nil {
		return err
	}
	within := hosting.CloseGrace
	defer func() { end.await(sup, within) }()
	o := options(call, export, f)
	o.Conn, o.Agent, o.Session, o.Cwd, o.Mode, o.Model, o.Meta = sup.Conn(), r, f.Session, r.GetCwd(), f.Mode, f.Model, meta
	o.Notes, o.Where = logs.lines, where
	result, err := chat.Run(end.ctx, o)
	logs.direct()
	if result.Interrupted {
		within = grace
	}
	if ended(call, end, err) {
		return nil
	}
	argv := r.GetCommand()
	if f.Agent != "" {
		argv = r.GetArgs()
	}
	if again := reopen(&f.SessionFlags, argv, result); again != "" {
		fmt.Fprintf(call.Stderr, "go on with it: %s\n", again)
	}
	return nil
}

// options returns the options of a chat on the caller's terminal.
func options(call *command.Call, export Exporter, f *flags) chat.Options {
	return chat.Options{
		StateDir: ownfile.StateDir(call.Env),
		Input:    call.Stdin, Output: call.Stdout, Env: os.Environ(), Color: call.Env("NO_COLOR") == "",
		Stop: jobcontrol.Stop, Suspend: jobcontrol.Suspend, Quit: jobcontrol.Quit,
		Notify: f.notify,
		Export: func(_ context.Context, session, file string) error {
			return export(call, f.Config, session, file)
		},
	}
}

// ended sets the exit status of a chat that a signal or an error ended, and reports whether there was one.
func ended(call *command.Call, end *ending, err error) bool {
	if s, ok := end.signal().(syscall.Signal); ok {
		_, _ = call.Stderr.Write(end.dump)
		call.Status = 128 + int(s)
		return true
	}
	if err != nil {
		call.Status = chatStatus(err)
		if _, reported := errors.AsType[*chat.AgentError](err); !reported {
			call.PrintError(err)
		}
		return true
	}
	return false
}

// chatStatus returns the exit status of a chat that did not start.
func chatStatus(err error) int {
	if e, ok := errors.AsType[*chat.AgentError](err); ok {
		return hosting.Status(e.Kind)
	}
	return command.StatusFailed
}

// plainWord matches words that need no quotes in a shell.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]{1,200}$`)

// reopen returns the command that continues a session. It is empty if none exists, or if it cannot be copied safely.
func reopen(f *hosting.SessionFlags, command []string, r chat.Result) string {
	if !r.Reopens || !r.Used {
		return ""
	}
	var words []string
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	add("--agent", f.Agent)
	add("--cwd", f.Cwd)
	add("--config", f.Config)
	add("--policy", f.Policy.Name)
	add("--session", r.Session)
	if strings.HasPrefix(r.Session, "-") {
		return "" // it would be parsed as a flag
	}
	if len(command) > 0 {
		words = append(append(words, "--"), command...)
	}
	for _, w := range words {
		if !plainWord.MatchString(w) {
			return ""
		}
	}
	again := "acphost chat "
	if f.Meta != "" {
		quoted, ok := inQuotes(f.Meta) // text of the user, not of the agent
		if !ok {
			return ""
		}
		again += "--meta " + quoted + " "
	}
	return again + strings.Join(words, " ")
}

// inQuotes quotes a word for a shell. It returns false if the word cannot be quoted readably.
func inQuotes(word string) (string, bool) {
	if plainWord.MatchString(word) {
		return word, true
	}
	unfit := func(r rune) bool { return r < ' ' || r > '~' || r == '\'' }
	if len(word) > 200 || strings.ContainsFunc(word, unfit) {
		return "", false
	}
	return "'" + word + "'", true
}
