// Package prompt implements "acphost prompt": runs one turn with an agent in its own supervisor, prints it live, and
// asks the agent's questions on the terminal.
package prompt

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/recordings"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

const promptLong = `Send one prompt to an agent, show the turn, and end.

The agent is a name in "acphost agents list" (--agent), or the command after "--".
acphost starts it for this prompt, with its handlers and policy, and ends it and all
its processes with the command. TEXT "-" is standard input.

On a terminal, questions have keys that answer them; v shows the whole command,
change or form, and a key that allows it shows the whole first. Ctrl-C cancels the
turn, and a second Ctrl-C ends acphost at once. If the agent does not end its turn
within half a second, acphost ends the agent. If standard input or output is not a
terminal, no user is asked: the policy decides, and the output is plain text. At the
end, the command lists denied actions. Without a policy (--policy), the agent's
commands run without a question.`

const promptExamples = `  acphost prompt --agent claude "What does this project do?"
  acphost prompt --agent gemini --file main.go "Review this file."
  acphost prompt --policy readonly --agent claude "Which tests are slow?"
  git diff | acphost prompt --agent codex --output final - > review.txt
  acphost prompt --agent claude --continue "And now the tests, please."
  acphost prompt --agent gemini --policy headless --fail-on-denied --timeout 15m "Update the changelog."
  acphost prompt "Fix the failing test." -- opencode acp
  acphost prompt --agent claude --meta @options.json "Review what changed."
  acphost prompt --json --agent qwen "Which tests fail?" | jq -r '.agentMessage.content.text.text // empty'`

const promptExit = `
Exit status:
  0    the agent ended its turn
  1    error
  2    wrong usage
  3    the agent refused to continue
  4    the maximum number of tokens was reached
  5    the agent reached its maximum number of model requests in one turn
  6    the turn was cancelled, by Ctrl-C or by another client
  7    the agent requires a login
  8    the agent ended its turn, but an action of it was denied, or done although the policy
       denies it (with --fail-on-denied)
  124  the turn had not ended after --timeout, and was cancelled
  126  the agent's command cannot be executed
  127  the agent's command is not found
  130  Ctrl-C was pressed twice, or before the turn began
  141  the reader of the output closed the pipe
  128 and the signal's number, if another signal ended it: 143 after SIGTERM, which
       cancels a turn that has begun first

Ctrl-Z stops acphost, and "fg" continues it. Ctrl-\ ends all at once; if GOTRACEBACK is
set, it also prints stacks.

With --output json, each line of standard output is an event of the API
(acphost.supervisor.v1.Event as JSON); the last one is "turnEnded". Errors are text
on standard error.

Environment:
  ACPHOST_CONFIG   the configuration file, if --config is not given
  ACPHOST_LOG      the log level, if --log-level is not given; else the
                   configuration's, else nothing is logged
  NO_COLOR         if set, nothing is coloured, and Markdown is shown as it is
  FORCE_COLOR, CLICOLOR_FORCE
                   if set, and not to 0, output that goes to no terminal is coloured
  COLUMNS          the width, if the terminal does not report it
`

// Exit statuses of this command.
const (
	statusDenied  = 8
	statusTimeout = 124 // as for timeout(1)
)

// maxPromptText limits the bytes of a prompt's text.
const maxPromptText = 4 << 20

// promptFlags are the flags of "prompt".
type promptFlags struct {
	hosting.SessionFlags
	files, images []string
	output        string
	json, verbose bool
	goOn          bool // continue the newest session
	failOnDenied  bool
	timeout       time.Duration
}

// New returns the command "prompt".
func New(call *command.Call, start hosting.Starter) *cobra.Command {
	f := promptFlags{}
	cmd := &cobra.Command{
		Use:     "prompt [flags] {--agent NAME TEXT [-- ARGUMENT…] | TEXT -- COMMAND [ARGUMENT…]}",
		Short:   "Send one prompt to an agent, and show the turn",
		Long:    promptLong,
		Example: promptExamples,
		Args:    func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE:    func(cmd *cobra.Command, args []string) error { return prompt(cmd, call, start, &f, args) },
	}
	cmd.Annotations = map[string]string{command.Sections: promptExit}
	f.Register(cmd, call.Env)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.files, "file", nil, "give the agent this `FILE`; can be repeated")
	flags.StringArrayVar(&f.images, "image", nil, "show the agent the image in this `FILE`; can be repeated")
	flags.StringVar(&f.output, "output", string(printText),
		"the output: `text|final|json`: all events, only the agent's answer, or JSON lines of events")
	flags.BoolVar(&f.json, "json", false, "the same as --output json")
	flags.BoolVar(&f.goOn, "continue", false, "continue the agent's newest recorded session in this folder")
	flags.BoolVar(&f.failOnDenied, "fail-on-denied", false, "end with exit status 8 if an action of the agent was denied, or done although the policy denies it, or no user was here to allow it")
	flags.DurationVar(&f.timeout, "timeout", 0, "cancel the turn after this `DURATION`: 90s, 15m (default: never)")
	cliflag.Complete(cmd, "output", cliflag.Words(printings...))
	cmd.MarkFlagsMutuallyExclusive("session", "continue")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the agent's standard error and its calls as well")
	return cmd
}

// check checks the arguments: one text, and the arguments after "--".
func (f *promptFlags) check(cmd *cobra.Command, args []string) error {
	texts, argv := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		texts, argv = args[:dash], args[dash:]
	}
	switch {
	case len(texts) == 0:
		return command.UsageErrorf(cmd, "the text is missing: acphost prompt --agent NAME TEXT; \"-\" is standard input")
	case len(texts) > 1:
		return command.UsageErrorf(cmd, "expected one text, got %d: put it in quotes; the agent's command goes behind \"--\"", len(texts))
	case texts[0] == "":
		return command.UsageErrorf(cmd, "the text is empty")
	case !slices.Contains(printings, f.output):
		return command.UsageErrorf(cmd, "--output: %v", command.Expected(f.output, "text", "final", "json"))
	case f.json && cmd.Flags().Changed("output") && f.output != string(printJSON):
		return command.UsageErrorf(cmd, "--json and --output %s contradict each other", f.output)
	case f.timeout < 0 || f.timeout == 0 && cmd.Flags().Changed("timeout"):
		return command.UsageErrorf(cmd, "--timeout takes a time above 0, such as 90s or 15m; got %s", f.timeout)
	case f.Agent == "" && (len(argv) == 0 || argv[0] == ""):
		return command.UsageErrorf(cmd, "which agent? Name one with --agent (\"acphost agents list\" shows them), or put its command behind \"--\"")
	}
	return nil
}

// prompt runs one turn with an agent in its own supervisor.
func prompt(cmd *cobra.Command, call *command.Call, start hosting.Starter, f *promptFlags, args []string) error {
	text, argv := args[0], args[1:]
	if text == "-" {
		var err error
		if text, err = promptInput(call, cmd); err != nil {
			return err
		}
		if cmd.Context().Err() != nil {
			call.Status = command.StatusOfSignal(cmd.Context())
			return nil
		}
	} else if len(text) > maxPromptText || !utf8.ValidString(text) {
		return command.UsageErrorf(cmd, "the text is not UTF-8, or has over %d MiB", maxPromptText>>20)
	}
	agent, meta, err := f.Read(cmd, argv)
	if err != nil {
		return err
	}
	attachments, err := readAttachments(f.files, f.images)
	if err != nil {
		return err
	}
	o, err := f.Options(cmd, call, call.Stderr, nil)
	if err != nil {
		return err
	}
	if f.Log.Level == "" && call.Env(cliflag.EnvLog) == "" && o.Config.Proto.GetLog().GetLevel() == "" && !f.verbose {
		o.Logger = slog.New(slog.DiscardHandler) // events and errors contain all that users need
	}

	// From here on this command handles signals: the first one cancels the turn, which needs time. The process must not
	// end before the terminal is restored.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, hosting.EndSignals()...)
	defer signal.Stop(signals)
	call.HandleSignals()
	if cmd.Context().Err() != nil { // the signal arrived before that
		call.Status = command.StatusOfSignal(cmd.Context())
		return nil
	}

	printed := printing(f.output)
	if f.json {
		printed = printJSON
	}
	attended := args[0] != "-" && printed != printJSON && call.Terminal(call.Stdin) && call.Terminal(call.Stdout)
	if line := cliflag.NoRulesNotice(o.Config, agent.GetCwd(), attended); line != "" {
		call.Notice("%s", line)
	}
	in, missing := cliflag.Sandboxed(o.Config)
	if missing != "" {
		call.Notice("%s", missing)
	}
	o.Mode = host.ModePrompt
	if f.verbose {
		o.Stderr = call.Stderr
	}
	if !attended {
		o.Unattended, o.UnattendedFor = true, time.Millisecond // there is no user, and none will come
	}
	agent.Attended = attended
	p := &promptRun{
		text: text, attachments: attachments,
		where: in, session: f.Session, mode: f.Mode, model: f.Model, meta: meta, prints: printed, attended: attended,
		agent:   agent,
		signals: signals, turnTimeout: hosting.TurnGrace, grace: hosting.EndGrace(o.Config), answerPause: answerPause, stuckTimeout: stuckTime,
		stop: jobcontrol.Stop, foreground: func() bool { return jobcontrol.Foreground(call.Stdin) },
		stderr: call.Stderr,
		screen: screenOn(call, attended),
		look:   output.RenderOptions(call, agent.GetCwd(), f.verbose, attended),
	}
	p.look.Brief = !f.verbose
	p.status = statusOn(call, p.screen)
	if p.failOnDenied, p.timeout = f.failOnDenied, f.timeout; p.timeout > 0 {
		p.timedOut = time.After(p.timeout)
	}
	if f.goOn {
		p.newest = func(agent string) (string, error) {
			return recordings.Newest(call, f.Config, agent, p.agent.GetCwd())
		}
	}
	o.Denied = p.denials.add
	if attended {
		signal.Notify(signals, jobcontrol.Signals()...)
		p.keyboard = func() (keyboard, error) { return openKeyboard(call.Stdin) }
	}
	o.Kill, p.kill = context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer p.kill()
	unsaid := make(chan string, 4) // each record is reported once
	p.notices = unsaid
	records := &hosting.RecordingWarnings{Tell: func(line string) { unsaid <- line }}
	p.start = func(ctx context.Context) (hosting.Supervisor, error) {
		if f.verbose {
			o.AgentStderr = &agentStderr{p: p, ctx: ctx}
		}
		return hosting.StartSupervisor(ctx, call, start, o, records)
	}
	call.Status = p.run(context.WithoutCancel(cmd.Context()))
	return nil
}

// screenOn returns the screen for standard output.
func screenOn(call *command.Call, attended bool) *screen {
	s := &screen{out: call.Stdout, dumb: dumb(call)}
	if attended {
		s.width = func() int { return output.Width(call) }
	}
	return s
}

// statusOn returns the screen for the status line: below the text if that is on a terminal, else standard error; nil if
// neither is a terminal.
func statusOn(call *command.Call, text *screen) *screen {
	switch {
	case dumb(call):
		return nil
	case call.Terminal(call.Stdout):
		return text
	case call.Terminal(call.Stderr):
		return &screen{out: call.Stderr, width: func() int { return output.Width(call) }}
	}
	return nil
}

// dumb reports whether the terminal cannot erase.
func dumb(call *command.Call) bool { return call.Env("TERM") == "dumb" || call.Env("TERM") == "" }

// promptInput reads the text from standard input. If the context ends first, it returns "", and the process should end,
// because the read continues.
func promptInput(call *command.Call, cmd *cobra.Command) (string, error) {
	var data []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		data, err = io.ReadAll(io.LimitReader(call.Stdin, maxPromptText+1))
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
		return "", command.UsageErrorf(cmd, "the text on standard input is empty")
	}
	return string(data), nil
}
