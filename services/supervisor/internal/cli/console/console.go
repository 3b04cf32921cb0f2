// Package console implements "acphost console": signs a browser in to the console of a gateway on this machine.
package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/confirmsocket"
	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/question/confirm"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const long = `Sign in a browser to the console of a gateway (gatewayd) on this machine. The
browser shows the code. The console is at /console/ of the gateway's address.

The command shows which browser has the code, and asks you to type letters that it
shows. So a program that can write into your terminal, but cannot read it, cannot
confirm a code. Agents and processes that they have started are refused.

The gateway must run as your user; if you are root, as any user.

The role determines the rights of the browser:

  viewer     reads all state
  approver   also answers questions
  operator   also sends prompts, cancels turns, revokes grants`

const (
	defaultLifetime = 8 * time.Hour
	maxLifetime     = 7 * 24 * time.Hour
	// callTimeout limits the time until a gateway answers: it waits for the browser.
	callTimeout = 15 * time.Second
)

// flags are the flags of "console".
type flags struct {
	role, end string
	lifetime  time.Duration
	list      bool
	json      bool
}

// New returns the command "console".
func New(call *command.Call) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "console CODE",
		Short: "Sign in a browser to a gateway's console",
		Long:  long,
		Example: `  acphost console k3m9p-7xwqa --role approver
  acphost console --list
  acphost console --sign-out 1f0c9a2b77de`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			if err := call.RejectAgents(cmd); err != nil {
				return err
			}
			names, err := confirmsocket.Find()
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return errors.New("no gateway of this user runs on this machine: start gatewayd, or call this as the user that it runs as, or as root")
			}
			switch {
			case f.list:
				return list(cmd.Context(), call, names, f.json)
			case f.end != "":
				return end(cmd.Context(), call, names, f.end)
			}
			return signIn(cmd.Context(), call, names, args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.role, "role", "viewer", "the `ROLE` of the browser: viewer, approver or operator")
	cmd.Flags().DurationVar(&f.lifetime, "for", defaultLifetime, "the duration of the sign-in")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the browsers that are signed in")
	cmd.Flags().BoolVar(&f.json, "json", false, "with --list: print JSON lines")
	cmd.Flags().StringVar(&f.end, "sign-out", "", "sign out the browser with this `ID`")
	cliflag.Complete(cmd, "role", cliflag.Words(tokens.Roles()...))
	return cmd
}

func (f flags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.list && f.end != "", (f.list || f.end != "") && len(args) > 0:
		return command.UsageErrorf(cmd, "exactly one is required: a code, --list or --sign-out")
	case f.json && !f.list:
		return command.UsageErrorf(cmd, "--json is for --list")
	case f.list || f.end != "":
		return nil
	case len(args) != 1:
		return command.UsageErrorf(cmd, "expected the one code that the browser shows")
	case !slices.Contains(tokens.Roles(), f.role):
		return command.UsageErrorf(cmd, "--role: expected one of %s, got %q", strings.Join(tokens.Roles(), ", "), f.role)
	case f.lifetime < time.Second || f.lifetime > maxLifetime:
		return command.UsageErrorf(cmd, "--for: expected 1s to %s, got %s", maxLifetime, f.lifetime)
	}
	return nil
}

// allows describes the rights of the roles.
var allows = map[string]string{
	"viewer":   "read the sessions, with the files and the output that they show",
	"approver": "read the sessions, and answer the questions of agents: what it allows is done as you",
	"operator": "start agents, give them prompts and answer their questions: it can read and change all that you can",
}

// ask calls all gateways concurrently, and returns the first answer without an error, and the gateway that sent it. It
// returns the error of a gateway that knows the code at once.
func ask(ctx context.Context, names []string, r confirmsocket.Request) (confirmsocket.Answer, string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	type result struct {
		name   string
		answer confirmsocket.Answer
		err    error
	}
	results := make(chan result, len(names))
	for _, name := range names {
		go func() {
			a, err := confirmsocket.Call(ctx, name, r)
			results <- result{name, a, err}
		}()
	}
	var failed error
	for range names {
		got := <-results
		if got.err == nil || got.answer.Known {
			return got.answer, got.name, got.err
		}
		failed = got.err
	}
	return confirmsocket.Answer{}, "", failed
}

func signIn(ctx context.Context, call *command.Call, names []string, code string, f flags) error {
	if !call.Terminal(call.Stdin) || !call.Terminal(call.Stderr) {
		return errors.New("a person has to confirm this at a terminal; for a program, \"acphost tokens create\" makes a token")
	}
	fmt.Fprintln(call.Stderr, "Looking for the browser that shows this code …")
	found, name, err := ask(ctx, names, confirmsocket.Request{Code: code})
	if err != nil {
		return err
	}
	if found.Browser == nil {
		return errors.New("gatewayd does not name the browser that shows the code")
	}
	var codes confirm.Codes
	letters := codes.New().Text() + codes.New().Text()
	fmt.Fprintf(call.Stderr, "A browser at %s shows this code. It calls itself\n  %s\nThe role %s lets whoever has that browser %s. Agents can show codes, too: confirm only one that you see on a page that you opened.\nType %s to sign it in as %s for %s, or anything else to leave it out: ",
		safetext.Line(found.Browser.Address), safetext.Line(found.Browser.Agent), f.role, allows[f.role], letters, f.role, f.lifetime)
	line, err := bufio.NewReader(call.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != letters {
		return errors.New("nothing was confirmed")
	}
	got, _, err := ask(ctx, []string{name}, confirmsocket.Request{Code: code, Confirm: &confirmsocket.Confirm{Role: f.role, Seconds: int(f.lifetime / time.Second)}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(call.Stdout, "signed in as %s until %s: %s\n", got.Session.Role, got.Session.Expires.Local().Format(time.DateTime), safetext.Line(got.Session.ID))
	return err
}

func list(ctx context.Context, call *command.Call, names []string, asJSON bool) error {
	all := []confirmsocket.Session{}
	for _, name := range names {
		got, _, err := ask(ctx, []string{name}, confirmsocket.Request{List: true})
		if err != nil {
			call.PrintError(err)
			call.Status = command.StatusFailed
			continue
		}
		all = append(all, got.Sessions...)
	}
	if asJSON {
		return output.PrintLines(call, all)
	}
	if len(all) == 0 {
		if call.Status == 0 {
			fmt.Fprintln(call.Stderr, "no browser is signed in")
		}
		return nil
	}
	w := tabwriter.NewWriter(call.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tROLE\tBY\tSINCE\tUNTIL\tADDRESS\tBROWSER")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", safetext.Line(s.ID), safetext.Line(s.Role), safetext.Line(s.How),
			s.Created.Local().Format(time.DateTime), s.Expires.Local().Format(time.DateTime), safetext.Line(s.Browser.Address), safetext.Line(s.Browser.Agent))
	}
	return w.Flush()
}

func end(ctx context.Context, call *command.Call, names []string, id string) error {
	if _, _, err := ask(ctx, names, confirmsocket.Request{End: id}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(call.Stdout, "signed out %s\n", safetext.Line(id))
	return err
}
