package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/handshake"
)

// askTimeout limits the time until an agent reports its login methods.
const askTimeout = 60 * time.Second

func newLogin(call *command.Call, execute agentcmd.Executor) *cobra.Command {
	var method string
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to an agent on this terminal",
		Long: `Log in to an agent on this terminal.

acphost replaces itself with the agent's own login: the known command, or a method
of type "terminal" that the agent offers. No policy applies to the login. It runs as
the user that the configuration names for agents, and cannot access other processes.
If the agent has no such login, acphost lists its other methods.`,
		Example: `  acphost agents login opencode
  acphost agents login claude --method console-login`,
		ValidArgsFunction: cliflag.Agents(call.Env),
		Args:              command.OneArgument("one agent's name", `"acphost agents list" shows the names`),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !call.Terminal(call.Stdin) || !call.Terminal(call.Stdout) {
				return errors.New("a login needs a terminal: run this command in one")
			}
			r, err := agentcmd.Find(cmd.Context(), call, args[0])
			if err != nil {
				return err
			}
			return login(cmd.Context(), call, execute, r, method)
		},
	}
	cmd.Flags().StringVar(&method, "method", "", "the `ID` of the login method, if the agent offers several")
	return cmd
}

// login replaces this process by the agent's login, or prints what to do instead.
func login(ctx context.Context, call *command.Call, execute agentcmd.Executor, r *preset.Resolved, method string) error {
	rights, err := agentcmd.Configured(call, "")
	if err != nil {
		return err
	}
	if argv := r.Login(); argv != nil && method == "" {
		return rights.Exec(call, execute, argv, rights.Variables(r.Env...))
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask(ctx, call, rights, r)
	if err != nil {
		return fmt.Errorf("ask the agent %s how to log in: %w", r.Agent.ID, err)
	}
	i := slices.IndexFunc(answer.AuthMethods, func(m handshake.AuthMethod) bool {
		return m.Type == "terminal" && (method == "" || m.ID == method)
	})
	if i >= 0 {
		m := answer.AuthMethods[i]
		call.Notice("logging in: %s", output.Cell(strings.Join([]string{m.ID, m.Name}, " ")))
		return rights.Exec(call, execute, slices.Concat(r.Command, m.Args), rights.Variables(slices.Concat(r.Env, m.Env)...))
	}
	return loginAdvice(r, method, answer.AuthMethods)
}

// loginAdvice returns advice for an agent that cannot log in on a terminal.
func loginAdvice(r *preset.Resolved, method string, methods []handshake.AuthMethod) error {
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
		fmt.Fprintf(&b, "\n  %s (%s): %s", output.Cell(m.ID), output.Cell(m.Type), output.Cell(strings.TrimSpace(m.Name+" "+m.Description)))
		switch m.Type {
		case "agent":
			b.WriteString("\n    the agent does it by itself: choose it in your editor")
		case "env_var":
			b.WriteString("\n    set the variable in the environment that the agent is started in")
		}
	}
	return errors.New(b.String())
}

// ask starts an agent, sends it initialize, and ends it.
func ask(ctx context.Context, call *command.Call, rights *agentcmd.Rights, r *preset.Resolved) (*handshake.Answer, error) {
	guard, err := agent.OwnGuard()
	if err != nil {
		return nil, err
	}
	env, err := rights.Environ(rights.Variables(r.Env...))
	if err != nil {
		return nil, err
	}
	return handshake.Query(ctx, agent.Spec{
		Name: r.Agent.ID, Command: r.Command, Env: env, User: rights.User, Guard: guard,
		Confinement: rights.Walls, Logger: slog.New(slog.DiscardHandler),
	}, call.Version)
}
