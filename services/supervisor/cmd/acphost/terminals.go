package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func (a *app) terminalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "terminals",
		Short: "List the terminals of agents, and watch what runs in one",
		Long: `List the terminals of agents, and watch what runs in one: the commands that agents
have run through acphost.`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.terminalsListCommand(), a.terminalsTailCommand())
	return cmd
}

// openTerminal is a terminal, and who has it.
type openTerminal struct {
	at *reached
	*supervisorv1.Terminal
}

func (t openTerminal) message() (int, proto.Message) { return t.at.pid, t.Terminal }

func (a *app) terminalsListCommand() *cobra.Command {
	var which reachFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the terminals that there are, oldest first",
		Example: `  acphost terminals list
  acphost terminals list --json | jq -r '.[] | select(.running) | .terminal_id'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, closeAll, err := a.reachAll(cmd, &which)
			defer closeAll()
			if err != nil {
				return err
			}
			list := a.terminals(cmd.Context(), all)
			if asJSON {
				return printMessages(a, list)
			}
			return a.printTerminals(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	which.register(cmd)
	return cmd
}

func (a *app) terminalsTailCommand() *cobra.Command {
	var which reachFlags
	cmd := &cobra.Command{
		Use:   "tail TERMINAL",
		Short: "Print what a terminal shows, until its command ends",
		Long: `Print what a terminal shows: what is kept of its output, then what comes, until its
command ends. TERMINAL is what "acphost terminals list" shows, or how it begins or
ends. It can be watched until 30 seconds after the agent has let go of it.

On a terminal, colours and movements of the cursor are kept, and nothing else that a
terminal obeys; elsewhere there is plain text.`,
		Example: `  acphost terminals tail acphost-3f`,
		Args:    oneArgument("a terminal's id"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeTerminals(cmd, &which, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, closeAll, err := a.reachAll(cmd, &which)
			defer closeAll()
			if err != nil {
				return err
			}
			at, id, err := a.terminalAt(cmd.Context(), all, args[0])
			if err != nil {
				return err
			}
			return a.tail(cmd.Context(), at, id)
		},
	}
	which.register(cmd)
	return cmd
}

func (a *app) terminals(ctx context.Context, all []*reached) []openTerminal {
	list := asked(ctx, a, all, "terminals", func(ctx context.Context, at *reached) ([]openTerminal, error) {
		res, err := supervisorv1.NewSupervisorStateServiceClient(at.conn).ListTerminals(ctx, &supervisorv1.ListTerminalsRequest{})
		if err != nil {
			return nil, err
		}
		var some []openTerminal
		for _, t := range res.GetTerminals() {
			some = append(some, openTerminal{at, t})
		}
		return some, nil
	})
	slices.SortStableFunc(list, func(x, y openTerminal) int { return x.GetStartTime().AsTime().Compare(y.GetStartTime().AsTime()) })
	return list
}

func (a *app) printTerminals(list []openTerminal) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stderr, "there are no terminals")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUPERVISOR\tTERMINAL\tSESSION\tSTATE\tSTARTED\tOUTPUT\tCOMMAND")
	for _, t := range list {
		started := "-"
		if t.GetStartTime().IsValid() {
			started = t.GetStartTime().AsTime().Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", t.at.pid, cell(t.GetTerminalId()), oneLine(t.GetSessionId(), 40), endWord(t.GetRunning(), t.ExitCode, t.GetSignal()),
			started, sizeText(int64(min(t.GetOutputBytes(), 1<<62))), oneLine(strings.Join(t.GetArgv(), " "), 100))
	}
	return w.Flush()
}

// endWord says whether a command runs, or how it ended.
func endWord(running bool, code *uint32, signal string) string {
	switch {
	case running:
		return "running"
	case signal != "":
		return "ended by " + cell(signal)
	case code != nil:
		return fmt.Sprintf("exit code %d", *code)
	}
	return "ended"
}

// terminalAt finds the one terminal that is meant, and the supervisor that has it.
func (a *app) terminalAt(ctx context.Context, all []*reached, id string) (*reached, string, error) {
	if len(all) == 0 {
		return nil, "", errors.New("no supervisor is running")
	}
	var exact, like []openTerminal
	for _, t := range a.terminals(ctx, all) {
		switch {
		case t.GetTerminalId() == id:
			exact = append(exact, t)
		case strings.HasPrefix(t.GetTerminalId(), id) || strings.HasSuffix(t.GetTerminalId(), id):
			like = append(like, t)
		}
	}
	if exact == nil {
		exact = like
	}
	switch {
	case len(exact) == 1:
		return exact[0].at, exact[0].GetTerminalId(), nil
	case len(exact) == 0 && len(all) == 1:
		return all[0], id, nil // it may be watched for a while though it is not listed any more
	case len(exact) == 0:
		return nil, "", fmt.Errorf(`there is no terminal %s; "acphost terminals list" shows those that there are`, cell(id))
	}
	var text strings.Builder
	for _, t := range exact[:min(len(exact), 20)] {
		fmt.Fprintf(&text, "\n  %s  %s", cell(t.GetTerminalId()), oneLine(strings.Join(t.GetArgv(), " "), 80))
	}
	return nil, "", fmt.Errorf("%s may be any of %d terminals; say more of its id:%s", cell(id), len(exact), text.String())
}

// tail prints a terminal's output to its end, or until it is interrupted.
func (a *app) tail(ctx context.Context, at *reached, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := supervisorv1.NewSupervisorStateServiceClient(at.conn).WatchOutput(ctx, &supervisorv1.WatchOutputRequest{TerminalId: id})
	if err != nil {
		return plainly(err)
	}
	out := &screenText{w: a.stdout, moves: a.programs.terminal(a.stdout)}
	for {
		piece, err := stream.Recv()
		if err != nil {
			closed := out.Close()
			if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled && ctx.Err() != nil {
				return closed
			}
			return cmp.Or(plainly(err), closed)
		}
		if piece.GetMissed() > 0 {
			fmt.Fprintf(a.stderr, "acphost: %d bytes of output are missing here\n", piece.GetMissed())
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return err
		}
		if piece.GetEnded() {
			if err := out.Close(); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.stderr, "acphost: %s\n", endWord(false, piece.ExitCode, piece.GetSignal()))
			return err
		}
	}
}

// completeTerminals completes the ids of terminals.
func (a *app) completeTerminals(cmd *cobra.Command, which *reachFlags, args []string) []cobra.Completion {
	if len(args) > 0 {
		return nil
	}
	all, closeAll, err := a.reachAll(cmd, which)
	defer closeAll()
	if err != nil {
		return nil
	}
	var list []cobra.Completion
	for _, t := range a.terminals(cmd.Context(), all) {
		list = append(list, cobra.CompletionWithDesc(cell(t.GetTerminalId()), oneLine(strings.Join(t.GetArgv(), " "), 60)))
	}
	return list
}
