// Package grants implements "acphost grants": lists and revokes stored answers, in the file and in running supervisors.
package grants

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// New returns the command "grants".
func New(call *command.Call) *cobra.Command {
	return command.Group("grants", "List or revoke remembered answers", `List or revoke the answers that acphost remembers.

The answer "always" creates a grant for each command and each file of the question.
A grant answers in your place if the policy would ask and permits grants. It never
overrides a deny rule. Grants of a session end with it; all others are stored in a
file (permission.grants.file in the configuration).`,
		newList(call), newRevoke(call), newExport(call))
}

func newList(call *command.Call) *cobra.Command {
	var asJSON bool
	var which reach.Flags
	var only cliflag.ListFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the active remembered answers",
		Long: `List the active remembered answers, oldest first: those in the file, and those of
the sessions of running supervisors. With --pid, --socket or --address, those of one
supervisor.`,
		Example: `  acphost grants list
  acphost grants list --json | jq 'select(.action == "run") | .argv'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, call, &which, func(r *storedGrants) error {
				grants := cliflag.Filter(&only, r.grants(), func(g *supervisorv1.Grant) cliflag.Listed {
					return cliflag.Listed{Time: g.GetCreateTime().AsTime(), Agents: []string{g.GetAgent()}, Folders: []string{g.GetWorkspace()}}
				})
				for _, g := range grants {
					secret.Argv(g.GetArgv())
				}
				if !asJSON {
					return output.PrintTable(call, grantTable(grants))
				}
				list, err := lines(grants)
				if err != nil {
					return err
				}
				return output.PrintLines(call, list)
			})
		},
	}
	only.Register(cmd, call.Env, cliflag.AgentFlag, cliflag.CwdFlag, cliflag.SinceFlag, cliflag.LimitFlag)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	which.Register(cmd)
	return cmd
}

func newExport(call *command.Call) *cobra.Command {
	var which reach.Flags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the remembered answers as JSON lines",
		Long: `Print the active remembered answers, one JSON object per line, in the format of the
file.`,
		Example: `  acphost grants export > grants.jsonl`,
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, call, &which, func(r *storedGrants) error {
				list, err := lines(r.grants())
				if err != nil {
					return err
				}
				for _, line := range list {
					if _, err := fmt.Fprintf(call.Stdout, "%s\n", line); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	which.Register(cmd)
	return cmd
}

func newRevoke(call *command.Call) *cobra.Command {
	var which reach.Flags
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Delete remembered answers",
		Long: `Delete remembered answers: in the file, and in the sessions of running supervisors.
This applies at once. If one of the ids is not known, nothing is deleted.

Only a person can: an agent, and what an agent started, is refused.`,
		Example: `  acphost grants revoke piwe2u2dw6yv
  acphost grants revoke $(acphost grants list --json | jq -r .id)`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageErrorf(cmd, "the id of a grant is missing; \"acphost grants list\" shows them")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
			_ = with(cmd, call, &which, func(r *storedGrants) error { // without grants there are no completions
				for _, g := range r.grants() {
					list = output.Completions(list, g.GetId(), grant.Reach(g))
				}
				return nil
			})
			return list, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := call.RejectAgents(cmd); err != nil {
				return err
			}
			return with(cmd, call, &which, func(r *storedGrants) error {
				revoked, err := r.revoke(cmd.Context(), args)
				for _, g := range revoked {
					fmt.Fprintf(call.Stdout, "revoked %s: %s\n", output.Cell(g.GetId()), grant.Reach(g))
				}
				return err
			})
		},
	}
	which.Register(cmd)
	return cmd
}

// storedGrants are the grants in the file and in running supervisors.
type storedGrants struct {
	store   *grant.Store // nil: one supervisor was selected, which has the grants of its file, too
	running []runningGrant
}

// runningGrant is a grant with its supervisor.
type runningGrant = reach.Item[*supervisorv1.Grant]

// with reads the file and connects to the supervisors, or only to the selected supervisor, and keeps the connections
// while do runs. It reports supervisors that do not answer, and makes the command fail at its end.
func with(cmd *cobra.Command, call *command.Call, which *reach.Flags, do func(*storedGrants) error) error {
	var store *grant.Store
	if !which.Named() {
		c, err := config.Load(which.Config, call.Env)
		if err != nil {
			return err
		}
		store, err = grant.Open(grant.Options{
			File: c.Effective().GetPermission().GetGrants().GetFile(), Logger: plainLogger(call.Stderr),
		})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
	}
	return reach.With(cmd, call, which, func(all []*reach.Supervisor) error {
		return do(&storedGrants{store: store, running: reach.List(cmd.Context(), call, all, "grants",
			func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.Grant, error) {
				res, err := at.State.ListGrants(ctx, &supervisorv1.ListGrantsRequest{})
				return res.GetGrants(), err
			})})
	})
}

// inFile returns the grants in the file.
func (r *storedGrants) inFile() []*supervisorv1.Grant {
	if r.store == nil {
		return nil
	}
	return r.store.List()
}

// grants returns all grants, each once, oldest first.
func (r *storedGrants) grants() []*supervisorv1.Grant {
	all := r.inFile()
	for _, g := range r.running {
		if !has(all, g.Of.GetId()) {
			all = append(all, g.Of)
		}
	}
	slices.SortStableFunc(all, func(x, y *supervisorv1.Grant) int {
		return x.GetCreateTime().AsTime().Compare(y.GetCreateTime().AsTime())
	})
	return all
}

func has(grants []*supervisorv1.Grant, id string) bool {
	return slices.ContainsFunc(grants, func(g *supervisorv1.Grant) bool { return g.GetId() == id })
}

// revoke removes grants from the file and from supervisors. It finds all ids before it removes a grant.
func (r *storedGrants) revoke(ctx context.Context, ids []string) (revoked []*supervisorv1.Grant, err error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	inFile := r.inFile()
	var kept, missing []string
	of := map[*reach.Supervisor][]string{}
	for _, id := range ids {
		i := slices.IndexFunc(r.running, func(g runningGrant) bool { return g.Of.GetId() == id })
		switch {
		case has(inFile, id):
			kept = append(kept, id)
		case i >= 0:
			of[r.running[i].At] = append(of[r.running[i].At], id)
		default:
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("revoke: there is no grant %s; nothing was revoked", strings.Join(missing, ", "))
	}
	if len(kept) > 0 {
		if revoked, err = r.store.Revoke(kept...); err != nil {
			return nil, err
		}
	}
	for _, g := range r.running {
		at, ids := g.At, of[g.At]
		if len(ids) == 0 {
			continue
		}
		delete(of, at)
		ctx, cancel := context.WithTimeout(ctx, reach.ListTimeout)
		res, callErr := at.Control.RevokeGrants(ctx, &supervisorv1.RevokeGrantsRequest{Ids: ids})
		cancel()
		revoked = append(revoked, res.GetGrants()...)
		if callErr != nil {
			err = errors.Join(err, fmt.Errorf("revoke %s: supervisor %d: %w", strings.Join(ids, ", "), at.PID, reach.CallErrorLine(callErr)))
		}
	}
	return revoked, err
}

// lines returns grants as JSON, in the format of the file.
func lines(grants []*supervisorv1.Grant) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	for _, g := range grants {
		line, err := grant.Line(g)
		if err != nil {
			return nil, err
		}
		list = append(list, line)
	}
	return list, nil
}

func grantTable(grants []*supervisorv1.Grant) *output.Table {
	t := output.NewTable("no answer is remembered", "ID", "GIVEN", "ENDS", "WHERE", "AGENT", "WHAT").
		Long("WHAT", "WHERE").Spare("ENDS", "AGENT")
	for _, g := range grants {
		ends := "with its scope"
		if g.GetExpireTime() != nil {
			ends = g.GetExpireTime().AsTime().Local().Format(time.DateOnly)
		} else if where(g) == "session" || where(g) == "turn" {
			ends = "with its " + where(g)
		}
		t.Add(g.GetId(), g.GetCreateTime().AsTime(), ends, where(g), cmp.Or(g.GetAgent(), "any"), grant.Reach(g))
	}
	return t
}

// where returns the scope of a grant in a word.
func where(g *supervisorv1.Grant) string {
	switch g.GetScope() {
	case supervisorv1.GrantScope_GRANT_SCOPE_TURN:
		return "turn"
	case supervisorv1.GrantScope_GRANT_SCOPE_SESSION:
		return "session"
	case supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE:
		return g.GetWorkspace()
	case supervisorv1.GrantScope_GRANT_SCOPE_AGENT:
		return "every session of the agent"
	case supervisorv1.GrantScope_GRANT_SCOPE_EVERYWHERE:
		return "everywhere"
	}
	return "nowhere"
}

// plainLogger returns a logger that writes warnings about a file to standard error.
func plainLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
}
