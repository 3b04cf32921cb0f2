// Package terminals implements "acphost terminals": lists and prints the terminals of agents.
package terminals

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

// New returns the command "terminals".
func New(call *command.Call) *cobra.Command {
	return command.Group("terminals", "List the terminals of agents, and watch their output",
		`List the terminals in which acphost runs commands of agents, and watch their output.`,
		newList(call), newTail(call))
}

// openTerminal is a terminal with its supervisor.
type openTerminal = reach.Item[*supervisorv1.Terminal]

func newList(call *command.Call) *cobra.Command {
	return reach.Lister(&cobra.Command{
		Use:   "list",
		Short: "List the terminals, oldest first",
		Example: `  acphost terminals list
  acphost terminals list --json | jq -r 'select(.running) | .terminal_id'`,
	}, call, terminals, func(list []openTerminal) error { return output.PrintTable(call, terminalTable(list)) }, func(t openTerminal) cliflag.Listed {
		return cliflag.Listed{Time: t.Of.GetStartTime().AsTime(), Folders: []string{t.Of.GetCwd()}}
	}, cliflag.LimitFlag, cliflag.SinceFlag, cliflag.CwdFlag)
}

func newTail(call *command.Call) *cobra.Command {
	var which reach.Flags
	cmd := &cobra.Command{
		Use:   "tail TERMINAL",
		Short: "Print the output of a terminal until its command ends",
		Long: `Print the output of a terminal until its command ends. TERMINAL is the id in
"acphost terminals list", or a prefix or suffix. A terminal is available until 30
seconds after the agent has released it.

On a terminal, colours and movements of the cursor are kept, and all other control
sequences are removed. Otherwise the output is plain text.`,
		Example:           `  acphost terminals tail acphost-3f`,
		Args:              command.OneArgument("a terminal's id"),
		ValidArgsFunction: reach.Complete(call, &which, 1, completeTerminals),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				at, id, err := terminalAt(cmd.Context(), call, all, args[0])
				if err != nil {
					return err
				}
				return tail(cmd.Context(), call, at, id)
			})
		},
	}
	which.Register(cmd)
	return cmd
}

// terminals returns the terminals of supervisors, oldest first.
func terminals(ctx context.Context, call *command.Call, all []*reach.Supervisor) []openTerminal {
	ask := func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.Terminal, error) {
		res, err := at.State.ListTerminals(ctx, &supervisorv1.ListTerminalsRequest{})
		return res.GetTerminals(), err
	}
	list := reach.List(ctx, call, all, "terminals", ask)
	slices.SortStableFunc(list, func(x, y openTerminal) int {
		return x.Of.GetStartTime().AsTime().Compare(y.Of.GetStartTime().AsTime())
	})
	return list
}

func completeTerminals(ctx context.Context, call *command.Call, all []*reach.Supervisor, _ []string) (list []cobra.Completion) {
	for _, t := range terminals(ctx, call, all) {
		list = output.Completions(list, t.Of.GetTerminalId(), strings.Join(t.Of.GetArgv(), " "))
	}
	return list
}

func terminalTable(list []openTerminal) *output.Table {
	t := output.NewTable("there are no terminals", "SUPERVISOR", "TERMINAL", "SESSION", "STATE", "STARTED", "OUTPUT", "COMMAND").
		Long("COMMAND").Spare("SUPERVISOR", "OUTPUT", "SESSION")
	for _, item := range list {
		o := item.Of
		t.Add(item.At.PID, o.GetTerminalId(), output.Short(o.GetSessionId(), 40),
			stateWord(o), o.GetStartTime().AsTime(),
			output.Size(int64(min(o.GetOutputBytes(), 1<<62))), output.Short(strings.Join(o.GetArgv(), " "), 100))
	}
	return t
}

// stateWord returns endWord for a table.
func stateWord(t *supervisorv1.Terminal) output.Word {
	word := endWord(t.GetRunning(), t.ExitCode, t.GetSignal())
	switch {
	case t.GetRunning():
		return output.Good(word)
	case t.GetSignal() != "" || t.GetExitCode() != 0:
		return output.Bad(word)
	}
	return output.Faint(word)
}

// endWord describes whether a command runs, or how it ended.
func endWord(running bool, code *uint32, signal string) string {
	switch {
	case running:
		return "running"
	case signal != "":
		return "ended by " + output.Cell(signal)
	case code != nil:
		return fmt.Sprintf("exit code %d", *code)
	}
	return "ended"
}

// terminalAt finds a terminal, and its supervisor.
func terminalAt(ctx context.Context, call *command.Call, all []*reach.Supervisor, id string) (*reach.Supervisor, string, error) {
	if len(all) == 0 {
		return nil, "", reach.None(call, "supervisor")
	}
	same := func(t openTerminal) bool { return t.Of.GetTerminalId() == id }
	like := func(t openTerminal) bool {
		return strings.HasPrefix(t.Of.GetTerminalId(), id) || strings.HasSuffix(t.Of.GetTerminalId(), id)
	}
	meant := reach.SelectItems(terminals(ctx, call, all), same, like)
	switch {
	case len(meant) == 1:
		return meant[0].At, meant[0].Of.GetTerminalId(), nil
	case len(meant) == 0 && len(all) == 1:
		return all[0], id, nil // it can be watched for a while after it is not listed any more
	case len(meant) == 0:
		return nil, "", fmt.Errorf(`there is no terminal %s; "acphost terminals list" shows those that there are`, output.Cell(id))
	}
	var text strings.Builder
	for _, t := range meant[:min(len(meant), 20)] {
		fmt.Fprintf(&text, "\n  %s  %s", output.Cell(t.Of.GetTerminalId()), output.OneLine(strings.Join(t.Of.GetArgv(), " "), 80))
	}
	return nil, "", fmt.Errorf("%s may be any of %d terminals; give more of its id:%s", output.Cell(id), len(meant), text.String())
}

// tail prints a terminal's output to its end, or until it is interrupted.
func tail(ctx context.Context, call *command.Call, at *reach.Supervisor, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, err := at.WatchOutput(ctx, id, 0)
	if err != nil {
		return reach.CallErrorLine(err)
	}
	out := &screenText{w: call.Stdout, moves: call.Terminal(call.Stdout)}
	for piece, err := range pieces {
		if err != nil {
			closed := out.Close()
			if ctx.Err() != nil {
				return closed
			}
			return cmp.Or(reach.CallErrorLine(err), closed)
		}
		if piece.GetMissed() > 0 {
			fmt.Fprintf(call.Stderr, "acphost: %d bytes of output are missing here\n", piece.GetMissed())
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return err
		}
		if piece.GetEnded() {
			if err := out.Close(); err != nil {
				return err
			}
			_, err := fmt.Fprintf(call.Stderr, "acphost: %s\n", endWord(false, piece.ExitCode, piece.GetSignal()))
			return err
		}
	}
	return out.Close()
}
