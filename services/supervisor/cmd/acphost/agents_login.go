package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/handshake"
	"github.com/acphost/acphost/services/supervisor/internal/preset"
)

// askTimeout is how long an agent may take to say how one logs in to it.
const askTimeout = 60 * time.Second

func (a *app) agentsLoginCommand() *cobra.Command {
	var method string
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to an agent on this terminal",
		Long: `Log in to an agent on this terminal.

acphost becomes the agent's own login: the command that is known for it, else the
one that the agent offers when it is asked (a method of type "terminal"). Nothing
stands between you and the agent then. Where an agent has no such login, what
there is instead is listed.`,
		Example: `  acphost agents login opencode
  acphost agents login claude --method console-login`,
		ValidArgsFunction: a.completeAgents,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrongUse(cmd, "expected one agent's name, got %d arguments; \"acphost agents list\" shows the names", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !a.programs.terminal(a.stdin) || !a.programs.terminal(a.stdout) {
				return errors.New("a login needs a terminal: run this command in one")
			}
			r, err := a.preset(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.login(cmd.Context(), r, method)
		},
	}
	cmd.Flags().StringVar(&method, "method", "", "the `ID` of the way to log in, where the agent offers several")
	return cmd
}

// login becomes the agent's login, or says what to do instead.
func (a *app) login(ctx context.Context, r *preset.Resolved, method string) error {
	if command := r.Login(); command != nil && method == "" {
		return a.become(command, overlaid(os.Environ(), r.Env))
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := a.ask(ctx, r.Agent.ID, r.Command, r.Env, true)
	if err != nil {
		return fmt.Errorf("ask the agent %s how to log in: %w", r.Agent.ID, err)
	}
	i := slices.IndexFunc(answer.AuthMethods, func(m handshake.AuthMethod) bool {
		return m.Type == "terminal" && (method == "" || m.ID == method)
	})
	if i >= 0 {
		m := answer.AuthMethods[i]
		fmt.Fprintf(a.stderr, "acphost: logging in: %s\n", cell(strings.Join([]string{m.ID, m.Name}, " ")))
		return a.become(slices.Concat(r.Command, m.Args), overlaid(overlaid(os.Environ(), r.Env), m.Env))
	}
	return noLogin(r, method, answer.AuthMethods)
}

// become replaces acphost with a command.
func (a *app) become(command, env []string) error {
	status, err := a.programs.exec(command, env)
	a.status = status
	if err != nil {
		a.complain(err)
	}
	return nil
}

// noLogin says what there is to do where no terminal helps.
func noLogin(r *preset.Resolved, method string, methods []handshake.AuthMethod) error {
	if len(methods) == 0 {
		return fmt.Errorf("the agent %s offers no login: it may be logged in already, or take a key from its environment", r.Agent.ID)
	}
	var b strings.Builder
	if method != "" {
		fmt.Fprintf(&b, "the agent %s offers no login on a terminal with the id %q; it offers:", r.Agent.ID, method)
	} else {
		fmt.Fprintf(&b, "the agent %s offers no login on a terminal; it offers:", r.Agent.ID)
	}
	for _, m := range methods {
		fmt.Fprintf(&b, "\n  %s (%s): %s", cell(m.ID), cell(m.Type), cell(strings.TrimSpace(m.Name+" "+m.Description)))
		switch m.Type {
		case "agent":
			b.WriteString("\n    the agent does it by itself: choose it in your editor")
		case "env_var":
			b.WriteString("\n    set the variable in the environment that the agent is started in")
		}
	}
	return errors.New(b.String())
}

// ask starts an agent, asks it who it is, and ends it.
func (a *app) ask(ctx context.Context, name string, command, env []string, terminalAuth bool) (*handshake.Answer, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	return handshake.Ask(ctx, agent.Spec{
		Name: name, Command: command, Env: overlaid(os.Environ(), env), Guard: []string{self, "guard"},
		Logger: slog.New(slog.DiscardHandler),
	}, handshake.Client{Version: buildVersion(), TerminalAuth: terminalAuth})
}
