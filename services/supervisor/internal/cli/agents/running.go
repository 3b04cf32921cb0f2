package agents

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

// modeServe is the mode of a supervisor that starts agents on request.
const modeServe = "serve"

// runningAgent is an agent with its supervisor.
type runningAgent = reach.Item[*supervisorv1.Agent]

func newStart(call *command.Call) *cobra.Command {
	var which reach.Flags
	var values, files []string
	req := &supervisorv1.StartAgentRequest{}
	cmd := &cobra.Command{
		Use:   "start {NAME | -- COMMAND} [ARGUMENT…]",
		Short: `Start an agent in a running "acphost serve"`,
		Long: `Start an agent in a running "acphost serve", and wait until it answers.

NAME is a name in "acphost agents list". An agent that already runs with the same
configuration is not started again. Put keys into files (--env-file NAME=FILE):
other processes can read the values of --env.`,
		Example: `  acphost agents start claude
  acphost agents start gemini --env-file GEMINI_API_KEY=/run/secrets/gemini
  acphost agents start --name mine -- ./my-agent --acp`,
		Args: func(cmd *cobra.Command, args []string) error {
			return startArguments(cmd, args, values, files, which.Address != "", req)
		},
		ValidArgsFunction: cliflag.Agents(call.Env),
		RunE: func(cmd *cobra.Command, _ []string) error {
			takesAgents := func(r *reach.Supervisor) bool { return r.Mode == modeServe }
			return reach.Perform(cmd, call, &which, `supervisor that takes agents ("acphost serve")`, takesAgents, func(ctx context.Context, at *reach.Supervisor) error {
				res, err := at.Agents.StartAgent(ctx, req)
				if name := req.GetPreset(); err != nil && name != "" && strings.Contains(err.Error(), "no agent is called") {
					return fmt.Errorf(`%w; if it is a command, put "--" before it: acphost agents start -- %s`, reach.CallError(err), output.Cell(name))
				}
				if err != nil {
					return reach.CallError(err)
				}
				word := "started"
				if res.GetReused() {
					word = "runs already"
				}
				return printAgentLine(call, word, res.GetAgent())
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Name, "name", "", "the `NAME` that policies and handlers see")
	flags.StringVar(&req.Cwd, "cwd", "", "the working `FOLDER` of its process")
	flags.StringArrayVar(&values, "env", nil, "an environment variable, `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&files, "env-file", nil, "an environment variable whose value is in a file, `NAME=FILE`; may be repeated")
	flags.BoolVar(&req.Attended, "attended", false, "a user answers its forms (elicitations)")
	flags.BoolVar(&req.Separate, "separate", false,
		"start a separate process even if one with the same configuration runs")
	cliflag.Complete(cmd, "env", cliflag.Words())
	which.Register(cmd)
	return cmd
}

// startArguments reads the agent to start. Paths for a remote supervisor are paths on its machine, and must be
// absolute.
func startArguments(cmd *cobra.Command, args, values, files []string, far bool, req *supervisorv1.StartAgentRequest) error {
	there := func(path string) (string, error) {
		if far && !filepath.IsAbs(path) {
			return "", command.UsageErrorf(cmd, "with --address, paths are those of where the supervisor is: expected an absolute one, got %q", path)
		}
		return filepath.Abs(path) // relative to the user's working directory, not the supervisor's
	}
	if err := startWhat(cmd, args, there, req); err != nil {
		return err
	}
	if req.GetCwd() != "" {
		dir, err := there(req.GetCwd())
		if err != nil {
			return err
		}
		req.Cwd = dir
	}
	req.Env = map[string]*supervisorv1.EnvValue{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return command.UsageErrorf(cmd, "--env: expected NAME=VALUE, got %q", v)
		}
		req.Env[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: value}}
	}
	for _, v := range files {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return command.UsageErrorf(cmd, "--env-file: expected NAME=FILE, got %q", v)
		}
		if req.Env[name] != nil {
			return command.UsageErrorf(cmd, "--env, --env-file: %s is set twice", name)
		}
		path, err := there(file)
		if err != nil {
			return err
		}
		req.Env[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: path}}
	}
	return nil
}

// startWhat reads the preset and its arguments, or the command.
func startWhat(cmd *cobra.Command, args []string, there func(string) (string, error), req *supervisorv1.StartAgentRequest) error {
	switch before := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return command.UsageErrorf(cmd, `expected an agent's name, or "--" and a command; "acphost agents list" shows the names`)
	case before == 0:
		req.Command = slices.Clone(args)
		if program := req.GetCommand()[0]; strings.ContainsRune(program, filepath.Separator) {
			path, err := there(program)
			if err != nil {
				return err
			}
			req.Command[0] = path
		}
	case before < 0 && len(args) > 1:
		return command.UsageErrorf(cmd, `put "--" before arguments: acphost agents start %s -- %s`, args[0], strings.Join(args[1:], " "))
	case before > 1:
		return command.UsageErrorf(cmd, "expected one agent's name, got %d", before)
	default:
		req.Preset, req.Args = args[0], slices.Clone(args[1:])
	}
	return nil
}

func newStop(call *command.Call) *cobra.Command {
	return agentVerb(call, "stop", "stopped", `Stop an agent of a running "acphost serve", and all its processes`,
		func(ctx context.Context, c supervisorv1.AgentServiceClient, id string) (*supervisorv1.Agent, error) {
			res, err := c.StopAgent(ctx, &supervisorv1.StopAgentRequest{AgentId: id})
			return res.GetAgent(), err
		})
}

func newRestart(call *command.Call) *cobra.Command {
	return agentVerb(call, "restart", "restarted", `Stop an agent of a running "acphost serve", start it again, and resume its sessions`,
		func(ctx context.Context, c supervisorv1.AgentServiceClient, id string) (*supervisorv1.Agent, error) {
			res, err := c.RestartAgent(ctx, &supervisorv1.RestartAgentRequest{AgentId: id})
			return res.GetAgent(), err
		})
}

// agentVerb returns a command that performs an operation on a running agent.
func agentVerb(call *command.Call, verb, done, short string, do func(context.Context, supervisorv1.AgentServiceClient, string) (*supervisorv1.Agent, error)) *cobra.Command {
	var which reach.Flags
	cmd := &cobra.Command{
		Use:               verb + " ID",
		Short:             short,
		Long:              short + ".\n\nID is the id in \"acphost agents running\", or the agent's name if it is unique.",
		Args:              command.OneArgument("an agent's id"),
		ValidArgsFunction: reach.Complete(call, &which, 1, completeRunning),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reach.With(cmd, call, &which, func(all []*reach.Supervisor) error {
				at, err := runningAt(cmd.Context(), call, all, args[0])
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), reach.VerbTimeout)
				defer cancel()
				agent, err := do(ctx, at.Agents, args[0])
				if err != nil {
					return reach.CallError(err)
				}
				return printAgentLine(call, done, agent)
			})
		},
	}
	which.Register(cmd)
	return cmd
}

// runningAt finds the supervisor of an agent.
func runningAt(ctx context.Context, call *command.Call, all []*reach.Supervisor, id string) (*reach.Supervisor, error) {
	switch len(all) {
	case 0:
		return nil, reach.None(call, "supervisor")
	case 1:
		return all[0], nil // its error describes the problem
	}
	var found []*reach.Supervisor
	for _, agent := range runningAgents(ctx, call, all) {
		if (agent.Of.GetId() == id || agent.Of.GetName() == id) && !slices.Contains(found, agent.At) {
			found = append(found, agent.At)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf(`no agent %s is running; "acphost agents running" shows those that are`, output.Cell(id))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d supervisors have an agent %s: say whose is meant%s", len(found), output.Cell(id), reach.Choices(found))
}

func newRunning(call *command.Call) *cobra.Command {
	return reach.Lister(&cobra.Command{
		Use:   "running",
		Short: "List the agents of running supervisors",
		Example: `  acphost agents running
  acphost agents running --json | jq -r .id`,
	}, call, runningAgents, func(list []runningAgent) error { return output.PrintTable(call, runningTable(list)) }, func(r runningAgent) cliflag.Listed {
		return cliflag.Listed{Time: r.Of.GetStartTime().AsTime(), Agents: []string{r.Of.GetId(), r.Of.GetName(), r.Of.GetPreset()}, Folders: []string{r.Of.GetCwd()}}
	}, cliflag.LimitFlag, cliflag.SinceFlag, cliflag.AgentFlag, cliflag.CwdFlag)
}

func runningAgents(ctx context.Context, call *command.Call, all []*reach.Supervisor) []runningAgent {
	ask := func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.Agent, error) {
		res, err := at.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
		return res.GetAgents(), err
	}
	return reach.List(ctx, call, all, "agents", ask)
}

func completeRunning(ctx context.Context, call *command.Call, all []*reach.Supervisor, _ []string) (list []cobra.Completion) {
	for _, r := range runningAgents(ctx, call, all) {
		list = output.Completions(list, r.Of.GetId(), strings.Join(r.Of.GetCommand(), " "))
	}
	return list
}

func runningTable(list []runningAgent) *output.Table {
	t := output.NewTable("no agent is running", "SUPERVISOR", "ID", "NAME", "STATE", "PID", "SINCE", "RESTARTS", "SESSIONS", "COMMAND", "ERROR").
		Long("COMMAND", "ERROR").Spare("SUPERVISOR", "RESTARTS", "PID", "COMMAND")
	for _, r := range list {
		a := r.Of
		line, problem := output.Short(strings.Join(a.GetCommand(), " "), 80), output.Short(a.GetError().GetMessage(), 80)
		t.Add(r.At.PID, a.GetId(), a.GetName(), reach.StateWord(a.GetState()), output.OrNone(a.GetPid()), a.GetStartTime().AsTime(),
			a.GetRestarts(), len(a.GetSessionIds()), line, problem)
	}
	return t
}

// printAgentLine prints the result of an operation on an agent.
func printAgentLine(call *command.Call, done string, agent *supervisorv1.Agent) error {
	text := fmt.Sprintf("%s: %s", output.Cell(agent.GetId()), done)
	if info := agent.GetInfo(); info != nil {
		text += ", " + output.OneLine(strings.TrimSpace(cmp.Or(info.GetTitle(), info.GetName(), agent.GetName())+" "+info.GetVersion()), 80)
	}
	if agent.GetPid() != 0 {
		text += fmt.Sprintf(", process %d", agent.GetPid())
	}
	_, err := fmt.Fprintln(call.Stdout, text)
	return err
}
