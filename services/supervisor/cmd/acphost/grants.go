package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/grant"
)

// supervisorTimeout is how long a running supervisor may take to answer.
const supervisorTimeout = 2 * time.Second

func (a *app) grantsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "List or revoke remembered answers",
		Long: `List or revoke the answers that acphost remembers.

An "always" to a permission question becomes one grant for each command and each
file that it was about; it says how far it reaches. Grants turn "ask" into "allow"
where the policy lets them, and never a "deny". Those of a session live in its
supervisor and end with it; all others are kept in a file
(permission.grants.file in the configuration).`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.grantsListCommand(), a.grantsRevokeCommand(), a.grantsExportCommand())
	return cmd
}

func (a *app) grantsListCommand() *cobra.Command {
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the remembered answers in force",
		Long: `List the remembered answers in force, oldest first: those in the file, and those
that running supervisors remember for their sessions.`,
		Example: `  acphost grants list
  acphost grants list --json | jq '.[] | select(.action == "run") | .argv'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.remembered(cmd.Context(), file)
			if err != nil {
				return err
			}
			defer r.close()
			if asJSON {
				return a.printGrantsJSON(r.grants())
			}
			return a.printGrants(r.grants())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the file of grants")
	return cmd
}

func (a *app) grantsExportCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the remembered answers as JSON lines",
		Long: `Print the remembered answers in force, one JSON object a line, as the file of
grants holds them.`,
		Example: `  acphost grants export > grants.jsonl`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.remembered(cmd.Context(), file)
			if err != nil {
				return err
			}
			defer r.close()
			for _, g := range r.grants() {
				line, err := grant.Line(g)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(a.stdout, "%s\n", line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the file of grants")
	return cmd
}

func (a *app) grantsRevokeCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Forget remembered answers",
		Long: `Forget remembered answers: those in the file, and those that running supervisors
remember for their sessions. It counts at once, in running supervisors too. If one
of the ids is not known, nothing is forgotten.

Only a person can: an agent, and what an agent started, is refused.`,
		Example: `  acphost grants revoke piwe2u2dw6yv
  acphost grants revoke $(acphost grants list --json | jq -r '.[].id')`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse(cmd, "the id of a grant is missing; \"acphost grants list\" shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch agents, err := admin.FromAgent(os.Getpid()); {
			case err != nil:
				return fmt.Errorf("revoke: only a person may: %w", err)
			case agents:
				return errors.New("revoke: this was started by an agent, and only a person may change what is remembered")
			}
			r, err := a.remembered(cmd.Context(), file)
			if err != nil {
				return err
			}
			defer r.close()
			revoked, err := r.revoke(cmd.Context(), args)
			for _, g := range revoked {
				fmt.Fprintf(a.stdout, "revoked %s: %s\n", cell(g.GetId()), grant.Reach(g))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the file of grants")
	return cmd
}

// remembered are the grants of the file, and of the supervisors that run.
type remembered struct {
	store   *grant.Store
	running []runningGrants
}

// runningGrants are those that a supervisor has.
type runningGrants struct {
	supervisor admin.Supervisor
	grants     []*supervisorv1.Grant
}

// remembered asks the file and the supervisors. A supervisor that does not answer is complained of.
func (a *app) remembered(ctx context.Context, configFile string) (*remembered, error) {
	c, err := config.Load(configFile, a.env)
	if err != nil {
		return nil, err
	}
	store, err := grant.Open(grant.Options{
		File: c.Effective().GetPermission().GetGrants().GetFile(), Logger: a.plainLogger(),
	})
	if err != nil {
		return nil, err
	}
	var further []string
	if socket := c.Proto.GetAdmin().GetSocket(); socket != "" {
		further = []string{socket}
	}
	r := &remembered{store: store}
	for _, s := range admin.Running(ctx, a.programs.sockets(a.env), further...) {
		grants, err := grantsOf(ctx, s)
		if err != nil {
			a.complain(fmt.Errorf("the grants of supervisor %d are not known: %w", s.PID, err))
			continue
		}
		r.running = append(r.running, runningGrants{s, grants})
	}
	return r, nil
}

func grantsOf(ctx context.Context, s admin.Supervisor) ([]*supervisorv1.Grant, error) {
	if s.Err != nil {
		return nil, s.Err
	}
	var grants []*supervisorv1.Grant
	err := callSupervisor(ctx, s, func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := supervisorv1.NewSupervisorStateServiceClient(conn).ListGrants(ctx, &supervisorv1.ListGrantsRequest{})
		if status.Code(err) == codes.Unimplemented {
			return nil // an older one, which remembers nothing
		}
		grants = res.GetGrants()
		return err
	})
	return grants, err
}

func (r *remembered) close() { _ = r.store.Close() }

// grants returns all of them, each once, oldest first.
func (r *remembered) grants() []*supervisorv1.Grant {
	all := r.store.List()
	known := map[string]bool{}
	for _, g := range all {
		known[g.GetId()] = true
	}
	for _, s := range r.running {
		for _, g := range s.grants {
			if !known[g.GetId()] {
				known[g.GetId()] = true
				all = append(all, g)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y *supervisorv1.Grant) int {
		return x.GetCreateTime().AsTime().Compare(y.GetCreateTime().AsTime())
	})
	return all
}

// revoke forgets grants where they are. Every id is looked for before anything is forgotten.
func (r *remembered) revoke(ctx context.Context, ids []string) (revoked []*supervisorv1.Grant, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	inFile := r.store.List()
	var kept, missing []string
	of := make([][]string, len(r.running))
	for _, id := range ids {
		has := func(grants []*supervisorv1.Grant) bool {
			return slices.ContainsFunc(grants, func(g *supervisorv1.Grant) bool { return g.GetId() == id })
		}
		if has(inFile) {
			kept = append(kept, id)
			continue
		}
		found := false
		for i, s := range r.running {
			if has(s.grants) {
				of[i] = append(of[i], id)
				found = true
				break
			}
		}
		if !found {
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
	for i, s := range r.running {
		if len(of[i]) == 0 {
			continue
		}
		callErr := callSupervisor(ctx, s.supervisor, func(ctx context.Context, conn *grpc.ClientConn) error {
			res, err := supervisorv1.NewSupervisorControlServiceClient(conn).RevokeGrants(ctx, &supervisorv1.RevokeGrantsRequest{Ids: of[i]})
			revoked = append(revoked, res.GetGrants()...)
			return err
		})
		if callErr != nil {
			err = errors.Join(err, fmt.Errorf("revoke %s: supervisor %d: %s",
				strings.Join(of[i], ", "), s.supervisor.PID, status.Convert(callErr).Message()))
		}
	}
	return revoked, err
}

func (a *app) printGrantsJSON(grants []*supervisorv1.Grant) error {
	list := []json.RawMessage{}
	for _, g := range grants {
		line, err := grant.Line(g)
		if err != nil {
			return err
		}
		list = append(list, line)
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(list)
}

func (a *app) printGrants(grants []*supervisorv1.Grant) error {
	if len(grants) == 0 {
		_, err := fmt.Fprintln(a.stderr, "no answer is remembered")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tGIVEN\tENDS\tWHERE\tAGENT\tWHAT")
	for _, g := range grants {
		ends := "with its scope"
		if g.GetExpireTime() != nil {
			ends = g.GetExpireTime().AsTime().Local().Format(time.DateOnly)
		} else if where(g) == "session" || where(g) == "turn" {
			ends = "with its " + where(g)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cell(g.GetId()), g.GetCreateTime().AsTime().Local().Format(time.DateTime),
			ends, cell(where(g)), cell(cmp.Or(g.GetAgent(), "any")), cell(grant.Reach(g)))
	}
	return w.Flush()
}

// where says in a word how far a grant reaches.
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

// callSupervisor makes a call to a running supervisor.
func callSupervisor(ctx context.Context, s admin.Supervisor, call func(context.Context, *grpc.ClientConn) error) error {
	conn, err := admin.Dial(s.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, supervisorTimeout)
	defer cancel()
	return call(ctx, conn)
}

// plainLogger complains on standard error of what an own file holds.
func (a *app) plainLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
}
