package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/chat"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/jobcontrol"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/transcript"
)

const chatLong = `Hold a session with an agent on this terminal.

The agent is one of "acphost agents list" (--agent), or the command behind "--".
It is started for this chat, with acphost's handlers and policy around it, and is
gone when the chat ends, with all that it started.

What was said and done scrolls by; below it are what the agent is doing, what it
asks of you, and a line to write on. "/help" there lists commands and keys;
"@PATH" attaches a file. What you write while the agent works is sent when it is
done. What you wrote is kept for the next chat, in chat_history in the folder for
acphost's state.`

const chatExamples = `  acphost chat --agent claude
  acphost chat --agent gemini --mode plan --cwd ~/src/app
  acphost chat --agent claude --session 4f1c6a     go on with a session
  acphost chat --agent claude --meta @options.json    with options of its own
  acphost chat -- opencode acp`

const chatExit = `
Exit status:
  0    you left
  1    something went wrong
  2    acphost was called wrongly
  7    somebody has to log in to the agent first
  126  the agent's command cannot be executed
  127  the agent's command is not found
  128 and the signal's number, if a signal ended it

Ctrl-Z stops acphost, and the turn goes on with "fg". Ctrl-\ ends all at once; where
GOTRACEBACK is set, it prints where acphost was, too.

Environment:
  ACPHOST_CONFIG  the configuration file, where --config is not given
  NO_COLOR        no colours, whatever it is set to
  COLUMNS, LINES  the size, where the terminal does not say it
`

// chatFlags are the flags of "chat".
type chatFlags struct {
	agent, session, cwd, mode, model, meta, config string
	log                                            logFlags
}

func (a *app) chatCommand() *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:     "chat [flags] {--agent NAME [-- ARGUMENT…] | -- COMMAND [ARGUMENT…]}",
		Short:   "Hold a session with an agent on this terminal",
		Long:    chatLong,
		Example: chatExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && cmd.ArgsLenAtDash() != 0:
				return wrongUse(cmd, "put \"--\" before the agent's command, or its arguments: acphost chat -- %s", strings.Join(args, " "))
			case f.agent == "" && (len(args) == 0 || args[0] == ""):
				return wrongUse(cmd, "which agent? Name one with --agent (\"acphost agents list\" shows them), or put its command behind \"--\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.chat(cmd, &f, args) },
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + chatExit)
	flags := cmd.Flags()
	flags.StringVar(&f.agent, "agent", "", "the agent of this `NAME`: claude, gemini, codex, opencode, qwen or one of your own")
	flags.StringVar(&f.session, "session", "", "go on with the session of this `ID` that the agent has stored")
	flags.StringVar(&f.cwd, "cwd", "", "the `FOLDER` that the agent works in (default: this one)")
	flags.StringVar(&f.mode, "mode", "", "the `MODE` that the agent works in")
	flags.StringVar(&f.model, "model", "", "the `MODEL` that the agent uses")
	registerMeta(cmd, &f.meta)
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`")
	f.log.register(cmd)
	complete(cmd, "agent", a.completeAgents)
	return cmd
}

// chat runs a chat with an agent in a supervisor of its own.
func (a *app) chat(cmd *cobra.Command, f *chatFlags, command []string) (err error) {
	if !a.programs.terminal(a.stdin) || !a.programs.terminal(a.stdout) || cmp.Or(a.env("TERM"), "dumb") == "dumb" {
		return errors.New("a chat needs a terminal whose cursor can be moved (TERM); without one there is \"acphost prompt\"")
	}
	cwd, err := folder(f.cwd)
	if err != nil {
		return wrongUse(cmd, "--cwd: %v", err)
	}
	meta, err := readMeta(cmd, f.meta)
	if err != nil {
		return err
	}
	c, err := config.Load(f.config, a.env)
	if err != nil {
		return err
	}
	logs, err := newLogRelay(a)
	if err != nil {
		return err
	}
	defer logs.close()
	if a.env(envLog) == "" && c.Proto.GetLog().GetLevel() == "" {
		f.log.level = cmp.Or(f.log.level, "error") // what a warning is about, a chat shows
	}
	logger, err := f.log.logger(cmd, logs.app(a), c)
	if err != nil {
		return err
	}
	for _, warning := range c.Warnings {
		logger.Warn(warning)
	}
	exe, err := executable()
	if err != nil {
		return err
	}
	// What an agent writes to standard error would be written across the screen. Its end is shown where it matters.
	quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the null device for the agent's standard error: %w", err)
	}
	defer func() { err = errors.Join(err, quiet.Close()) }()

	r := &supervisorv1.StartAgentRequest{Cwd: cwd, Attended: true}
	if f.agent != "" {
		r.Preset, r.Args = f.agent, command
	} else {
		r.Command = command
	}
	records := &unrecorded{tell: logs.tell}
	return a.holdChat(cmd.Context(), f, r, meta, logs, func(ctx context.Context) (headless, error) {
		o := host.Options{
			Env:        os.Environ(),
			Config:     c,
			Stderr:     quiet,
			Version:    buildVersion(),
			HandlerDir: filepath.Dir(exe),
			Admin:      !c.Proto.GetAdmin().GetDisabled(),
			Mode:       host.ModeChat,
			Private:    true,
			Logger:     logger,
			Presets:    a.presets,
		}
		records.watch(&o)
		sup, err := a.programs.headless(ctx, o)
		if err != nil {
			return nil, err
		}
		records.begun()
		return sup, nil
	})
}

// holdChat holds a chat with an agent in a supervisor that is started for it, and sets the exit status. Its sessions are
// opened with meta.
func (a *app) holdChat(ctx context.Context, f *chatFlags, r *supervisorv1.StartAgentRequest, meta string, logs *logRelay, start func(context.Context) (headless, error)) error {
	end := newEnding(ctx)
	defer end.close()
	// In the background it waits to be brought to the foreground: nothing is started and no setting is read before.
	if err := jobcontrol.Await(end.ctx, a.stdin); err != nil {
		if s, ok := end.signal().(syscall.Signal); ok {
			a.status = 128 + int(s)
			return nil
		}
		return fmt.Errorf("hold a chat here: %w", err)
	}
	sup, err := start(end.ctx)
	if err != nil {
		return err
	}
	defer end.await(sup)
	result, err := chat.Run(end.ctx, chat.Options{
		Conn: sup.Conn(), Agent: r, Session: f.session, Cwd: r.GetCwd(), Mode: f.mode, Model: f.model, Meta: meta,
		StateDir: ownfile.StateDir(a.env),
		Input:    a.stdin, Output: a.stdout, Env: os.Environ(), Color: a.env("NO_COLOR") == "",
		Notes:  logs.lines,
		Export: func(_ context.Context, session, file string) error { return a.exportSession(f.config, session, file) },
	})
	logs.direct()
	if s, ok := end.signal().(syscall.Signal); ok {
		_, _ = a.stderr.Write(end.dump)
		a.status = 128 + int(s)
		return nil
	}
	if err != nil {
		a.status = chatStatus(err)
		if _, told := errors.AsType[*chat.AgentError](err); !told {
			a.complain(err)
		}
		return nil
	}
	command := r.GetCommand()
	if f.agent != "" {
		command = r.GetArgs()
	}
	if again := reopen(f, command, result); again != "" {
		fmt.Fprintf(a.stderr, "go on with it: %s\n", again)
	}
	return nil
}

// chatStatus is the exit status of a chat that never was one.
func chatStatus(err error) int {
	if e, ok := errors.AsType[*chat.AgentError](err); ok {
		switch e.Kind {
		case supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:
			return statusLogin
		case supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND:
			return 127
		case supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED:
			return 126
		}
	}
	return statusFailed
}

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]{1,200}$`)

// reopen is the command that goes on with a session; empty: there is none, or it is not one to be copied.
func reopen(f *chatFlags, command []string, r chat.Result) string {
	if !r.Reopens || !r.Used {
		return ""
	}
	var words []string
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	add("--agent", f.agent)
	add("--cwd", f.cwd)
	add("--config", f.config)
	add("--session", r.Session)
	if strings.HasPrefix(r.Session, "-") {
		return "" // it would be taken for a flag
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
	if f.meta != "" {
		quoted, ok := inQuotes(f.meta) // the caller's own, not the agent's
		if !ok {
			return ""
		}
		again += "--meta " + quoted + " "
	}
	return again + strings.Join(words, " ")
}

// exportSession writes a session from the journal, in the format that the file's name ends with.
func (a *app) exportSession(configFile, id, file string) error {
	format := ""
	switch filepath.Ext(file) {
	case ".md", ".markdown":
		format = "markdown"
	case ".html", ".htm":
		format = "html"
	case ".ndjson", ".jsonl":
		format = "ndjson"
	default:
		return fmt.Errorf("%s: expected a name that ends with .md, .html or .ndjson", file)
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s is there already", file)
	}
	parts, err := a.findSession(configFile, id)
	if err != nil {
		return err
	}
	return a.exported(file, func(w io.Writer) error {
		return exports[format](a, w, parts, transcript.PageOptions{})
	})
}

// ending is how signals end a command that has a terminal to restore and processes to stop. The first one asks for it,
// a second one makes it hurry, and SIGQUIT soon does by itself.
type ending struct {
	ctx    context.Context
	cancel context.CancelFunc
	first  chan os.Signal // 1 once a signal came
	dump   []byte         // to be printed once the terminal is restored; set before first
	second chan struct{}  // closed
	stop   chan struct{}
	done   chan struct{}
}

func newEnding(ctx context.Context) *ending {
	e := &ending{first: make(chan os.Signal, 1), second: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, endSignals()...)
	go func() {
		defer close(e.done)
		defer signal.Stop(signals)
		hurry := sync.OnceFunc(func() { close(e.second) })
		for n := 0; ; n++ {
			select {
			case <-e.stop:
				return
			case s := <-signals:
				if n > 0 {
					hurry()
					continue
				}
				if s == syscall.SIGQUIT {
					e.dump = goroutines(os.Getenv)
					defer time.AfterFunc(quitGrace, hurry).Stop()
				}
				e.first <- s
				e.cancel()
			}
		}
	}()
	return e
}

// signal is the one that asked for the end; nil: none.
func (e *ending) signal() os.Signal {
	select {
	case s := <-e.first:
		return s
	default:
		return nil
	}
}

// await ends a supervisor, unless somebody is in a hurry: its processes end by themselves when this one is gone.
func (e *ending) await(sup headless) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		sup.Close()
	}()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-e.second:
	case <-timer.C:
	}
	removeSockets(sup)
}

func (e *ending) close() {
	close(e.stop)
	<-e.done
	e.cancel()
}
