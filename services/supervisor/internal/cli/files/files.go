// Package files implements "acphost files": lists the files that agents work with.
package files

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/recordings"
)

// New returns the command "files".
func New(call *command.Call) *cobra.Command {
	var which reach.Flags
	var o only
	var within cliflag.ListFilter
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "files",
		Short: "Show the files that agents work with",
		Long: `Show the files that agents work with, as a tree with the hottest first: files of
prompts, files that agents read, write and search, and refused files. A file is at
100 % while it is probably in the agent's context, and cools down afterwards. Cold
files are not shown.

With --watch, the tree is updated until the command is interrupted. If standard
output is not a terminal, a line is printed for each change, with --json a
WatchFilesResponse: the first has all files, the others the changes.`,
		Example: `  acphost files --watch
  acphost files --json | jq -r '.files[] | select(.action == "FILE_ACTION_WRITE") | .path'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follow && within.Cwd != "" {
				return command.UsageErrorf(cmd, "--cwd is for a list, not for --watch")
			}
			o.agent, o.cwd = within.Agent, within.Cwd
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				if !follow {
					return list(cmd.Context(), call, all, o, asJSON)
				}
				switch len(all) {
				case 0:
					return reach.None(call, "supervisor")
				case 1:
					return watch(cmd.Context(), call, all[0], o, asJSON)
				}
				return fmt.Errorf(`%d supervisors are running; select one with --pid ("acphost ps" shows them)`, len(all))
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "watch", false, "show changes until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	within.Register(cmd, call.Env, cliflag.AgentFlag, cliflag.CwdFlag)
	cmd.Flags().StringVar(&o.session, "session", "", "only files of the session with this `ID`")
	cliflag.Complete(cmd, "session", recordings.CompleteSessions(call, &which.Config))
	which.Register(cmd)
	return cmd
}

// only selects files by their agent, session or folder.
type only struct{ agent, session, cwd string }

// list prints the files in use.
func list(ctx context.Context, call *command.Call, all []*reach.Supervisor, o only, asJSON bool) error {
	found := reach.List(ctx, call, all, "files", func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.SessionFiles, error) {
		r, err := at.State.ListFiles(ctx, &supervisorv1.ListFilesRequest{AgentId: o.agent, SessionId: o.session})
		return r.GetSessions(), err
	})
	within := cliflag.ListFilter{Cwd: o.cwd}
	found = cliflag.Filter(&within, found, func(item reach.Item[*supervisorv1.SessionFiles]) cliflag.Listed {
		return cliflag.Listed{Folders: item.Of.GetRoots()}
	})
	if asJSON {
		return reach.PrintMessages(call, found)
	}
	found = slices.DeleteFunc(found, func(item reach.Item[*supervisorv1.SessionFiles]) bool { return len(item.Of.GetFiles()) == 0 })
	if len(found) == 0 {
		_, err := fmt.Fprintln(call.Stderr, "no agent has used a file lately")
		return err
	}
	var text strings.Builder
	columns := 0
	if call.Terminal(call.Stdout) {
		columns = output.Width(call)
	}
	for _, item := range found {
		printTree(&text, item.At.PID, columns, item.Of)
	}
	return output.Page(call, text.String())
}

// watch prints changes until ctx ends.
func watch(ctx context.Context, call *command.Call, at *reach.Supervisor, o only, asJSON bool) error {
	changes, err := at.WatchFiles(ctx, &supervisorv1.WatchFilesRequest{AgentId: o.agent, SessionId: o.session})
	if err != nil {
		return reach.CallErrorLine(err)
	}
	known := tree{}
	for r, err := range changes {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return reach.CallErrorLine(err)
		}
		var text strings.Builder
		switch {
		case asJSON:
			line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
			if err != nil {
				return fmt.Errorf("print what has changed: %w", err)
			}
			text.Write(line)
			text.WriteByte('\n')
		case call.Terminal(call.Stdout):
			known.take(r)
			for _, s := range known.sessions() {
				printTree(&text, at.PID, output.Width(call), s)
			}
			if len(known) == 0 {
				text.WriteString("no agent has used a file lately\n")
			}
			tree := output.Screen(call, text.String())
			text.Reset()
			text.WriteString(tree)
		default:
			printChanges(&text, known, r)
			known.take(r)
		}
		if _, err := fmt.Fprint(call.Stdout, text.String()); err != nil {
			return err
		}
	}
	return nil
}

// tree is the known state of the watched sessions.
type tree map[[2]string]*supervisorv1.SessionFiles

func keyOf(s *supervisorv1.SessionFiles) [2]string {
	return [2]string{s.GetAgentId(), s.GetSessionId()}
}

// take applies a change.
func (t tree) take(r *supervisorv1.WatchFilesResponse) {
	for _, changed := range r.GetSessions() {
		s := t[keyOf(changed)]
		if s == nil {
			s = &supervisorv1.SessionFiles{AgentId: changed.GetAgentId(), SessionId: changed.GetSessionId()}
			t[keyOf(changed)] = s
		}
		files := map[string]*supervisorv1.TouchedFile{}
		for _, file := range slices.Concat(s.GetFiles(), changed.GetFiles()) {
			files[file.GetPath()] = file
		}
		for _, path := range changed.GetRemoved() {
			delete(files, path)
		}
		if s.Files = slices.Collect(maps.Values(files)); len(s.GetFiles()) == 0 {
			delete(t, keyOf(changed))
		}
		if len(changed.GetRoots()) > 0 {
			s.Roots = changed.GetRoots()
		}
	}
}

// sessions returns the sessions with files, sorted by their ids.
func (t tree) sessions() []*supervisorv1.SessionFiles {
	return slices.SortedFunc(maps.Values(t), func(a, b *supervisorv1.SessionFiles) int {
		ka, kb := keyOf(a), keyOf(b)
		return slices.Compare(ka[:], kb[:])
	})
}

// printChanges writes a line for each file that was used, and for each that has left the context or become cold. It
// omits the states in between.
func printChanges(text *strings.Builder, known tree, r *supervisorv1.WatchFilesResponse) {
	for _, s := range r.GetSessions() {
		before := map[string]*supervisorv1.TouchedFile{}
		for _, file := range known[keyOf(s)].GetFiles() {
			before[file.GetPath()] = file
		}
		for _, file := range s.GetFiles() {
			was := before[file.GetPath()]
			switch {
			case was == nil, !was.GetTime().AsTime().Equal(file.GetTime().AsTime()), was.GetAction() != file.GetAction():
				fmt.Fprintf(text, "%s  %-10s  %s\n", output.Whole(s.GetSessionId()), actionWord(file.GetAction()), output.Whole(file.GetPath()))
			case was.GetInContext() && !file.GetInContext():
				fmt.Fprintf(text, "%s  %-10s  %s\n", output.Whole(s.GetSessionId()), "left", output.Whole(file.GetPath()))
			}
		}
		for _, path := range s.GetRemoved() {
			fmt.Fprintf(text, "%s  %-10s  %s\n", output.Whole(s.GetSessionId()), "cold", output.Whole(path))
		}
	}
}
