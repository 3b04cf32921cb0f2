package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/jobcontrol"
)

const promptLong = `Give an agent one prompt, show what it does, and end.

The agent is one of "acphost agents list" (--agent), or the command behind "--".
It is started for this prompt, with acphost's handlers and policy around it, and
is gone when the command ends, with all that it started. TEXT "-" is standard
input.

On a terminal, what the agent asks is put to you, with the keys to press; Ctrl-C
cancels the turn, twice quits. Where standard input or output is no terminal, nobody
is asked: the policy's word counts, and what is printed is plain lines.`

const promptExamples = `  acphost prompt --agent claude "What does this project do?"
  acphost prompt --agent gemini --file main.go "Review this file."
  git diff | acphost prompt --agent codex - > review.txt
  acphost prompt "Fix the failing test." -- opencode acp
  acphost prompt --agent claude --meta @options.json "Review what changed."
  acphost prompt --json --agent qwen "Which tests fail?" | jq -r '.agentMessage.content.text.text // empty'`

const promptExit = `
Exit status:
  0    the agent ended its turn
  1    something went wrong
  2    acphost was called wrongly
  3    the agent refuses to go on
  4    the most tokens that there can be were reached
  5    the agent asked its model as often as it may in one turn
  6    the turn was cancelled
  7    somebody has to log in to the agent first
  126  the agent's command cannot be executed
  127  the agent's command is not found
  130  Ctrl-C was pressed twice, or before the turn began
  141  nobody reads what is printed
  128 and the signal's number, if another signal ended it

Ctrl-Z stops acphost, and the turn goes on with "fg". Ctrl-\ ends all at once; where
GOTRACEBACK is set, it prints where acphost was, too.

With --json, each line of standard output is an event of the API
(acphost.supervisor.v1.Event as JSON); the last one is "turnEnded". Errors are text
on standard error.

Environment:
  ACPHOST_CONFIG   the configuration file, where --config is not given
  ACPHOST_LOG      the log level, where --log-level is not given; else the
                   configuration's, else nothing is logged
  NO_COLOR         if set, nothing is coloured, and Markdown is shown as it is
  FORCE_COLOR, CLICOLOR_FORCE
                   if set, and not to 0, output that goes to no terminal is coloured
  COLUMNS          the width, where the terminal does not say it
`

// Exit codes of a turn.
const (
	statusRefusal     = 3
	statusMaxTokens   = 4
	statusMaxRequests = 5
	statusCancelled   = 6
	statusLogin       = 7
	statusInterrupted = 130
	statusUnread      = 141 // as of those that SIGPIPE ends
)

// maxPromptText bounds a prompt's text, in bytes.
const maxPromptText = 4 << 20

// promptFlags are the flags of "prompt".
type promptFlags struct {
	agent, session, cwd, mode, model, meta, config string
	files, images                                  []string
	json, verbose                                  bool
	log                                            logFlags
}

func (a *app) promptCommand() *cobra.Command {
	f := promptFlags{}
	cmd := &cobra.Command{
		Use:     "prompt [flags] {--agent NAME TEXT [-- ARGUMENT…] | TEXT -- COMMAND [ARGUMENT…]}",
		Short:   "Give an agent one prompt and show what it does",
		Long:    promptLong,
		Example: promptExamples,
		Args:    func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE:    func(cmd *cobra.Command, args []string) error { return a.prompt(cmd, &f, args) },
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + promptExit)
	flags := cmd.Flags()
	flags.StringVar(&f.agent, "agent", "", "the agent of this `NAME`: claude, gemini, codex, opencode, qwen or one of your own")
	flags.StringArrayVar(&f.files, "file", nil, "give the agent this `FILE`; can be repeated")
	flags.StringArrayVar(&f.images, "image", nil, "show the agent the image in this `FILE`; can be repeated")
	flags.StringVar(&f.session, "session", "", "go on with the session of this `ID` that the agent has stored")
	flags.StringVar(&f.cwd, "cwd", "", "the `FOLDER` that the agent works in (default: this one)")
	flags.StringVar(&f.mode, "mode", "", "the `MODE` that the agent works in")
	flags.StringVar(&f.model, "model", "", "the `MODEL` that the agent uses")
	registerMeta(cmd, &f.meta)
	flags.BoolVar(&f.json, "json", false, "print events as JSON, one a line")
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the agent's standard error and its calls as well")
	f.log.register(cmd)
	complete(cmd, "agent", a.completeAgents)
	return cmd
}

// check looks at the arguments: one text, and what is behind "--".
func (f *promptFlags) check(cmd *cobra.Command, args []string) error {
	texts, command := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		texts, command = args[:dash], args[dash:]
	}
	switch {
	case len(texts) == 0:
		return wrongUse(cmd, "the text is missing: acphost prompt --agent NAME TEXT; \"-\" is standard input")
	case len(texts) > 1:
		return wrongUse(cmd, "expected one text, got %d: put it in quotes; the agent's command goes behind \"--\"", len(texts))
	case texts[0] == "":
		return wrongUse(cmd, "the text is empty")
	case f.agent == "" && (len(command) == 0 || command[0] == ""):
		return wrongUse(cmd, "which agent? Name one with --agent (\"acphost agents list\" shows them), or put its command behind \"--\"")
	}
	return nil
}

// prompt runs one turn with an agent in a supervisor of its own.
func (a *app) prompt(cmd *cobra.Command, f *promptFlags, args []string) error {
	text, command := args[0], args[1:]
	if text == "-" {
		var err error
		if text, err = a.promptInput(cmd); err != nil {
			return err
		}
		if cmd.Context().Err() != nil {
			a.status = statusInterrupted
			return nil
		}
	} else if len(text) > maxPromptText || !utf8.ValidString(text) {
		return wrongUse(cmd, "the text is not UTF-8, or has over %d MiB", maxPromptText>>20)
	}
	cwd, err := folder(f.cwd)
	if err != nil {
		return wrongUse(cmd, "--cwd: %v", err)
	}
	meta, err := readMeta(cmd, f.meta)
	if err != nil {
		return err
	}
	attachments, err := readAttachments(f.files, f.images)
	if err != nil {
		return err
	}
	c, err := config.Load(f.config, a.env)
	if err != nil {
		return err
	}
	logger, err := f.log.logger(cmd, a, c)
	if err != nil {
		return err
	}
	for _, warning := range c.Warnings {
		logger.Warn(warning)
	}
	if f.log.level == "" && a.env(envLog) == "" && c.Proto.GetLog().GetLevel() == "" && !f.verbose {
		logger = slog.New(slog.DiscardHandler) // what a person should know is told by events and errors
	}
	exe, err := executable()
	if err != nil {
		return err
	}

	// From here on signals are this command's: the first one cancels the turn, which needs time. Whatever it takes, the
	// process must not end before the terminal is as it was.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	if cmd.Context().Err() != nil { // it came before that
		a.status = statusInterrupted
		return nil
	}

	attended := args[0] != "-" && !f.json && a.programs.terminal(a.stdin) && a.programs.terminal(a.stdout)
	quiet := a.stderr
	if !f.verbose {
		if quiet, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return fmt.Errorf("open the null device for the agent's standard error: %w", err)
		}
		defer func() { _ = quiet.Close() }()
	}
	p := &promptRun{
		text: text, attachments: attachments, cwd: cwd,
		session: f.session, mode: f.mode, model: f.model, meta: meta, json: f.json, attended: attended,
		login:   f.agent,
		agent:   &supervisorv1.StartAgentRequest{Cwd: cwd, Attended: attended},
		signals: signals, patience: terminateGrace, settle: settleTime, stuck: stuckTime,
		stop: jobcontrol.Stop, foreground: func() bool { return jobcontrol.Foreground(a.stdin) },
		stderr: a.stderr,
		screen: newScreen(a.stdout, a.screenOptions(attended)),
		look:   a.look(cwd, f.verbose, attended),
	}
	p.look.Brief = !f.verbose
	if f.agent != "" {
		p.agent.Preset, p.agent.Args = f.agent, command
	} else {
		p.agent.Command = command
	}
	if attended {
		signal.Notify(signals, jobcontrol.Signals()...)
		p.keyboard = func() (keyboard, error) { return openKeyboard(a.stdin) }
	}
	unsaid := make(chan string, 4) // each record is told of once
	p.unsaid = unsaid
	records := &unrecorded{tell: func(line string) { unsaid <- line }}
	p.start = func(ctx context.Context) (headless, error) {
		o := host.Options{
			Env:        os.Environ(),
			Config:     c,
			Stderr:     quiet,
			Version:    buildVersion(),
			HandlerDir: filepath.Dir(exe),
			Admin:      !c.Proto.GetAdmin().GetDisabled(),
			Mode:       host.ModePrompt,
			Private:    true,
			Logger:     logger,
			Presets:    a.presets,
		}
		if !attended {
			o.Unattended, o.UnattendedFor = true, time.Millisecond // nobody is there, and nobody comes
		}
		records.watch(&o)
		sup, err := a.programs.headless(ctx, o)
		if err != nil {
			return nil, err
		}
		records.begun()
		return sup, nil
	}
	a.status = p.run(context.WithoutCancel(cmd.Context()))
	return nil
}

// promptInput is the text from standard input. If the context ends first, it is empty, and the process should end: the
// read goes on.
func (a *app) promptInput(cmd *cobra.Command) (string, error) {
	var data []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		data, err = io.ReadAll(io.LimitReader(a.stdin, maxPromptText+1))
	}()
	select {
	case <-read:
	case <-cmd.Context().Done():
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the text from standard input: %w", err)
	}
	switch {
	case len(data) > maxPromptText:
		return "", fmt.Errorf("the text on standard input has over %d MiB: put it in a file and name that with --file", maxPromptText>>20)
	case !utf8.Valid(data):
		return "", fmt.Errorf("the text on standard input is not UTF-8")
	case len(bytes.TrimSpace(data)) == 0:
		return "", wrongUse(cmd, "the text on standard input is empty")
	}
	return string(data), nil
}

// folder is the absolute path of a folder that is there; "": the current one.
func folder(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s: %w", path, syscall.ENOTDIR)
	}
	return path, nil
}
