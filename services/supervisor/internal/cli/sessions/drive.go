package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// modeServe is the mode of a supervisor whose sessions belong to programs.
const modeServe = "serve"

func takesPrompts(s *reach.Supervisor) bool { return s.Mode == modeServe }

const whatServes = `supervisor that takes prompts ("acphost serve")`

func newNew(call *command.Call) *cobra.Command {
	var which reach.Flags
	req := &supervisorv1.NewSessionRequest{}
	var mode, model string
	cmd := &cobra.Command{
		Use:   "new AGENT",
		Short: `Open a session with an agent of a running "acphost serve"`,
		Long: `Open a session with an agent of a running "acphost serve", and print its id. AGENT
is the id in "acphost agents running", or the agent's name if it is unique.`,
		Example: `  acphost agents start claude
  id=$(acphost sessions new claude --cwd ~/src/app)
  acphost sessions prompt "$id" "What does this project do?"`,
		Args: command.OneArgument("an agent", `"acphost agents running" lists those that run, "acphost agents start" starts one`),
		ValidArgsFunction: reach.Complete(call, &which, 1, func(ctx context.Context, call *command.Call, all []*reach.Supervisor, _ []string) (list []cobra.Completion) {
			for _, s := range all {
				// without an answer there are no completions
				res, _ := s.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
				for _, a := range res.GetAgents() {
					list = output.Completions(list, a.GetId(), strings.Join(a.GetCommand(), " "))
				}
			}
			return list
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.AgentId = args[0]
			if which.Address != "" && !filepath.IsAbs(req.GetCwd()) {
				return command.UsageErrorf(cmd, "with --address, paths are those of where the supervisor is: --cwd must be an absolute one")
			}
			dir, err := filepath.Abs(req.GetCwd())
			if err != nil {
				return err
			}
			req.Cwd = dir
			return reach.Perform(cmd, call, &which, whatServes, takesPrompts, func(ctx context.Context, at *reach.Supervisor) error {
				return openNew(ctx, call, at, req, mode, model)
			})
		},
	}
	flags := cmd.Flags()
	cliflag.Cwd(cmd, &req.Cwd)
	flags.StringVar(&mode, "mode", "", "the `MODE` that the agent works in")
	flags.StringVar(&model, "model", "", "the `MODEL` that the agent uses")
	flags.StringVar(&req.Meta, "meta", "", "agent-specific options for the session: a `JSON` object that is sent as _meta")
	for _, name := range []string{"mode", "model", "meta"} {
		cliflag.Complete(cmd, name, cliflag.Words())
	}
	which.Register(cmd)
	return cmd
}

// openNew opens a session and prints its id.
func openNew(ctx context.Context, call *command.Call, at *reach.Supervisor, req *supervisorv1.NewSessionRequest, mode, model string) error {
	res, err := at.Sessions.NewSession(ctx, req)
	if err != nil {
		return reach.CallError(err)
	}
	id := res.GetSession().GetSessionId()
	agent := res.GetSession().GetAgentId()
	if mode != "" {
		if _, err := at.Sessions.SetMode(ctx, &supervisorv1.SetModeRequest{AgentId: agent, SessionId: id, ModeId: mode}); err != nil {
			return fmt.Errorf("session %s is open; --mode: %w", output.Cell(id), reach.CallError(err))
		}
	}
	if model != "" {
		if _, err := at.Sessions.SetModel(ctx, &supervisorv1.SetModelRequest{AgentId: agent, SessionId: id, ModelId: model}); err != nil {
			return fmt.Errorf("session %s is open; --model: %w", output.Cell(id), reach.CallError(err))
		}
	}
	_, err = fmt.Fprintln(call.Stdout, safetext.Line(id))
	return err
}

const promptExit = `
Exit status:
  0    the agent ended its turn
  1    error
  2    wrong usage
  3    the agent refused to continue
  4    the maximum number of tokens was reached
  5    the agent reached its maximum number of model requests in one turn
  6    the turn was cancelled
  130  Ctrl-C was pressed before the turn began, or twice, or the turn did not end within
       a second of it
  143  the same, for SIGTERM
`

func newPrompt(call *command.Call) *cobra.Command {
	var which reach.Flags
	var f promptFlags
	cmd := &cobra.Command{
		Use:   "prompt ID TEXT",
		Short: `Send a prompt to a session of a running "acphost serve"`,
		Long: `Send a prompt to an open session of a running "acphost serve", and print the turn
until it ends. ID is the id of a session, or a prefix. TEXT "-" is standard input.

The command prints questions with the command that answers them ("acphost approvals
answer"). Ctrl-C or SIGTERM cancels the turn. If the turn has not ended within a
second, or at a second Ctrl-C, the command exits. With --detach, the command exits
when the turn has begun; "acphost sessions watch" shows the turn.`,
		Example: `  acphost sessions prompt 4f1c "And now the tests, please."
  git diff | acphost sessions prompt 4f1c -
  acphost sessions prompt 4f1c --json "Which tests fail?" | jq -r '.agentMessage.content.text.text // empty'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return command.UsageErrorf(cmd, "expected a session's id and a text, got %d arguments; put the text in quotes", len(args))
			}
			return nil
		},
		ValidArgsFunction: reach.Complete(call, &which, 1, reach.CompleteOpen),
		Annotations:       map[string]string{command.Sections: promptExit},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := promptText(call, args[1])
			if err != nil {
				return err
			}
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				at, agent, id, err := openAt(cmd.Context(), call, all, f.agent, args[0])
				if err != nil {
					return err
				}
				req := &supervisorv1.PromptRequest{AgentId: agent, SessionId: id, Prompt: []*supervisorv1.ContentBlock{client.Text(text)}, Meta: f.meta}
				return runPrompt(cmd.Context(), call, at, req, &f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.agent, "agent", "", "the id or name of its `AGENT`, if several have a session with this id")
	flags.BoolVar(&f.asJSON, "json", false, "print events as JSON lines")
	flags.BoolVar(&f.detach, "detach", false, "exit when the turn has begun")
	flags.BoolVar(&f.verbose, "verbose", false, "also print successful calls, and commands")
	flags.StringVar(&f.meta, "meta", "", "agent-specific options for the turn: a `JSON` object that is sent as _meta")
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	cliflag.Complete(cmd, "meta", cliflag.Words())
	which.Register(cmd)
	return cmd
}

type promptFlags struct {
	agent, meta             string
	asJSON, detach, verbose bool
}

// maxPrompt limits the bytes of a prompt's text.
const maxPrompt = 4 << 20

// promptText returns the text of a prompt. "-" means standard input.
func promptText(call *command.Call, text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	data, err := io.ReadAll(io.LimitReader(call.Stdin, maxPrompt+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the prompt from standard input: %w", err)
	case len(data) > maxPrompt:
		return "", fmt.Errorf("the prompt on standard input has more than %d MiB", maxPrompt>>20)
	case strings.TrimSpace(string(data)) == "":
		return "", errors.New("the prompt on standard input is empty")
	}
	return string(data), nil
}

// runPrompt sends the prompt, and prints the turn to its end.
func runPrompt(ctx context.Context, call *command.Call, at *reach.Supervisor, req *supervisorv1.PromptRequest, f *promptFlags) error {
	asked := ctx
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx)) // a signal cancels the turn, whose end is printed
	defer leave()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, command.StopSignals()...)
	defer signal.Stop(signals)
	stopLeaving := context.AfterFunc(asked, leave) // until the turn has begun
	turn, err := at.Client.Prompt(ctx, req)
	if !stopLeaving() {
		call.Status = command.StatusOfSignal(asked)
		return nil
	}
	if err != nil {
		return reach.CallError(err)
	}
	interrupted := make(chan struct{})
	go func() {
		defer close(interrupted)
		cancelOnInterrupt(ctx, call, turn, signals, leave)
	}()
	defer func() { leave(); <-interrupted }()
	show, rest := output.EventLine, func() string { return "" }
	if !f.asJSON {
		r := render.New(output.RenderOptions(call, "", f.verbose, false))
		show, rest = r.Event, r.Flush
	}
	for ev, err := range turn.Events() {
		if err != nil {
			_, _ = io.WriteString(call.Stdout, rest())
			if ctx.Err() != nil {
				call.Status = command.StatusOfSignal(asked)
				return nil
			}
			return reach.CallError(err)
		}
		text := show(ev)
		end := ev.GetTurnEnded()
		if end != nil {
			text = rest() + text
		}
		if _, err := io.WriteString(call.Stdout, text); err != nil {
			return err
		}
		switch {
		case ev.GetQuestionAsked() != nil && !f.asJSON:
			sayHowToAnswer(call, ev.GetQuestionAsked())
		case end.GetError() != nil:
			return errors.New(safetext.Line(end.GetError().GetMessage()))
		case end != nil:
			call.FixStatus(command.TurnStatus(end.GetStopReason()))
		case f.detach && ev.GetTurnStarted() != nil:
			return nil
		}
	}
	return nil
}

// sayHowToAnswer prints the command that answers a question.
func sayHowToAnswer(call *command.Call, q *supervisorv1.Approval) {
	how := "OPTION"
	if q.GetElicitation() != nil {
		how = "--accept JSON"
	} else if options := q.GetPermission().GetOptions(); len(options) > 0 {
		var words []string
		for _, o := range options {
			words = append(words, safetext.LineOf(o.GetOptionId(), 60))
		}
		how = "{" + strings.Join(words, "|") + "}"
	}
	call.Notice("this waits: acphost approvals answer %s %s", output.Cell(reach.QuestionPrefix(q, nil)), how)
}

// cancelGrace limits the time between a signal and the end of a turn, including the call that cancels it.
const cancelGrace = 600 * time.Millisecond

// cancelNotice is the notice that a signal cancels the turn, and for Ctrl-C the effect of a second one.
func cancelNotice(s os.Signal) string {
	if s == os.Interrupt {
		return "the turn is being cancelled; Ctrl-C again leaves at once"
	}
	return "the turn is being cancelled"
}

// cancelOnInterrupt cancels the turn at the first signal, and leaves at the second one or after cancelGrace.
func cancelOnInterrupt(ctx context.Context, call *command.Call, turn *client.Turn, signals <-chan os.Signal, leave func()) {
	select {
	case s := <-signals:
		call.Notice("%s", cancelNotice(s))
	case <-ctx.Done():
		return
	}
	within, done := context.WithTimeout(ctx, cancelGrace)
	defer done()
	go func() {
		select {
		case <-signals:
			leave()
		case <-within.Done():
		}
	}()
	if err := turn.Cancel(within); err != nil && ctx.Err() == nil {
		call.PrintError(fmt.Errorf("cancel the turn: %w", reach.CallErrorLine(err)))
	}
	<-within.Done()
	if ctx.Err() == nil {
		call.Notice("the turn has not ended yet; \"acphost sessions watch\" shows it")
		leave()
	}
}

func newCancel(call *command.Call) *cobra.Command {
	var which reach.Flags
	var agent string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: `Cancel the turn of a session of a running "acphost serve"`,
		Long: `Cancel the turn of an open session of a running "acphost serve". ID is the id of a
session, or a prefix. It is not an error if no turn is in progress.`,
		Example:           `  acphost sessions cancel 4f1c`,
		Args:              oneSession,
		ValidArgsFunction: reach.Complete(call, &which, 1, reach.CompleteOpen),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				at, agent, id, err := openAt(cmd.Context(), call, all, agent, args[0])
				if err != nil {
					return err
				}
				ctx, stop := context.WithTimeout(cmd.Context(), reach.VerbTimeout)
				defer stop()
				res, err := at.Sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: agent, SessionId: id})
				if err != nil {
					return reach.CallError(err)
				}
				message := "no turn is under way"
				if res.GetTurnActive() {
					message = "the agent was asked to end its turn"
				}
				_, err = fmt.Fprintf(call.Stdout, "%s: %s\n", output.Cell(id), message)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the id or name of its `AGENT`, if several have a session with this id")
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	which.Register(cmd)
	return cmd
}

// openAt finds the supervisor of an open session, and the ids of its agent and of the session.
func openAt(ctx context.Context, call *command.Call, all []*reach.Supervisor, agent, id string) (at *reach.Supervisor, agentID, sessionID string, err error) {
	if len(all) == 0 {
		return nil, "", "", reach.None(call, whatServes)
	}
	req := &supervisorv1.WatchSessionRequest{AgentId: agent, SessionId: id}
	at, err = reach.FindSession(ctx, call, all, req)
	switch {
	case err != nil:
		return nil, "", "", err
	case at == nil && !slices.ContainsFunc(all, takesPrompts):
		return nil, "", "", fmt.Errorf("no %s is running", whatServes)
	case at == nil:
		return nil, "", "", fmt.Errorf("no session %s is open; \"acphost sessions new\" opens one", output.Cell(id))
	}
	return at, req.GetAgentId(), req.GetSessionId(), nil
}
