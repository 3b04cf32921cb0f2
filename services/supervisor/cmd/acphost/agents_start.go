package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// modeServe is the mode of a supervisor that takes agents.
const modeServe = "serve"

// runningAgent is an agent, and who has it.
type runningAgent struct {
	at *reached
	*supervisorv1.Agent
}

func (r runningAgent) message() (int, proto.Message) { return r.at.pid, r.Agent }

func (a *app) agentsStartCommand() *cobra.Command {
	var which reachFlags
	var values, files []string
	req := &supervisorv1.StartAgentRequest{}
	cmd := &cobra.Command{
		Use:   "start {NAME | -- COMMAND} [ARGUMENT…]",
		Short: `Start an agent in a running "acphost serve"`,
		Long: `Start an agent in a running "acphost serve", and wait until it answers.

NAME is one of "acphost agents list". An agent that runs with the same configuration
is not started again. Keys belong in files: --env-file NAME=FILE; what --env says can
be seen by other processes.`,
		Example: `  acphost agents start claude
  acphost agents start gemini --env-file GEMINI_API_KEY=/run/secrets/gemini
  acphost agents start --name mine -- ./my-agent --acp`,
		Args: func(cmd *cobra.Command, args []string) error {
			return startArguments(cmd, args, values, files, which.address != "", req)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeAgents(cmd, args, text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, closeAll, err := a.reachOne(cmd, &which, `supervisor that takes agents ("acphost serve")`, func(r *reached) bool { return r.mode == modeServe })
			if err != nil {
				return err
			}
			defer closeAll()
			ctx, cancel := context.WithTimeout(cmd.Context(), verbTimeout)
			defer cancel()
			res, err := supervisorv1.NewAgentServiceClient(at.conn).StartAgent(ctx, req)
			if err != nil {
				return explained(err)
			}
			word := "started"
			if res.GetReused() {
				word = "runs already"
			}
			return a.printAgentLine(word, res.GetAgent())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Name, "name", "", "the `NAME` that policies and handlers see")
	flags.StringVar(&req.Cwd, "cwd", "", "the working `FOLDER` of its process")
	flags.StringArrayVar(&values, "env", nil, "an environment variable, `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&files, "env-file", nil, "an environment variable whose value is in a file, `NAME=FILE`; may be repeated")
	flags.BoolVar(&req.Attended, "attended", false, "somebody will answer what it asks beside permissions")
	flags.BoolVar(&req.Separate, "separate", false, "start a process of its own even if one with the same configuration runs")
	complete(cmd, "env", words())
	which.register(cmd)
	return cmd
}

// startArguments reads what is to be started. Where the supervisor is far, its paths are, and absolute ones alone mean
// something there.
func startArguments(cmd *cobra.Command, args, values, files []string, far bool, req *supervisorv1.StartAgentRequest) error {
	there := func(path string) (string, error) {
		if far && !filepath.IsAbs(path) {
			return "", wrongUse(cmd, "with --address, paths are those of where the supervisor is: expected an absolute one, got %q", path)
		}
		return filepath.Abs(path) // relative to where the person is, not to the supervisor
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
			return wrongUse(cmd, "--env: expected NAME=VALUE, got %q", v)
		}
		req.Env[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: value}}
	}
	for _, v := range files {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return wrongUse(cmd, "--env-file: expected NAME=FILE, got %q", v)
		}
		if req.Env[name] != nil {
			return wrongUse(cmd, "--env, --env-file: %s is set twice", name)
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
		return wrongUse(cmd, `expected an agent's name, or "--" and a command; "acphost agents list" shows the names`)
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
		return wrongUse(cmd, `put "--" before arguments: acphost agents start %s -- %s`, args[0], strings.Join(args[1:], " "))
	case before > 1:
		return wrongUse(cmd, "expected one agent's name, got %d", before)
	default:
		req.Preset, req.Args = args[0], slices.Clone(args[1:])
	}
	return nil
}

func (a *app) agentsStopCommand() *cobra.Command {
	return a.agentVerb("stop", "stopped", `Stop an agent of a running "acphost serve", and all that it started`,
		func(ctx context.Context, c supervisorv1.AgentServiceClient, id string) (*supervisorv1.Agent, error) {
			res, err := c.StopAgent(ctx, &supervisorv1.StopAgentRequest{AgentId: id})
			return res.GetAgent(), err
		})
}

func (a *app) agentsRestartCommand() *cobra.Command {
	return a.agentVerb("restart", "restarted", `Stop an agent of a running "acphost serve", start it again, and resume its sessions`,
		func(ctx context.Context, c supervisorv1.AgentServiceClient, id string) (*supervisorv1.Agent, error) {
			res, err := c.RestartAgent(ctx, &supervisorv1.RestartAgentRequest{AgentId: id})
			return res.GetAgent(), err
		})
}

// agentVerb is a command that does something to a running agent.
func (a *app) agentVerb(verb, done, short string, do func(context.Context, supervisorv1.AgentServiceClient, string) (*supervisorv1.Agent, error)) *cobra.Command {
	var which reachFlags
	cmd := &cobra.Command{
		Use:   verb + " ID",
		Short: short,
		Long:  short + ".\n\nID is what \"acphost agents running\" shows, or the agent's name where only one has it.",
		Args:  oneArgument("an agent's id"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeRunning(cmd, &which, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, closeAll, err := a.reachAll(cmd, &which)
			defer closeAll()
			if err != nil {
				return err
			}
			at, err := a.runningAt(cmd.Context(), all, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), verbTimeout)
			defer cancel()
			agent, err := do(ctx, supervisorv1.NewAgentServiceClient(at.conn), args[0])
			if err != nil {
				return explained(err)
			}
			return a.printAgentLine(done, agent)
		},
	}
	which.register(cmd)
	return cmd
}

// runningAt finds the supervisor that has an agent.
func (a *app) runningAt(ctx context.Context, all []*reached, id string) (*reached, error) {
	switch len(all) {
	case 0:
		return nil, errors.New("no supervisor is running")
	case 1:
		return all[0], nil // it says what is wrong
	}
	var found []*reached
	for _, agent := range a.runningAgents(ctx, all) {
		if (agent.GetId() == id || agent.GetName() == id) && !slices.Contains(found, agent.at) {
			found = append(found, agent.at)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf(`no agent %s is running; "acphost agents running" shows those that are`, cell(id))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d supervisors have an agent %s: say whose is meant%s", len(found), cell(id), choices(found))
}

func (a *app) agentsRunningCommand() *cobra.Command {
	var which reachFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "running",
		Short: "List the agents of running supervisors",
		Example: `  acphost agents running
  acphost agents running --json | jq -r '.[].id'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, closeAll, err := a.reachAll(cmd, &which)
			defer closeAll()
			if err != nil {
				return err
			}
			list := a.runningAgents(cmd.Context(), all)
			if asJSON {
				return printMessages(a, list)
			}
			return a.printRunning(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	which.register(cmd)
	return cmd
}

func (a *app) runningAgents(ctx context.Context, all []*reached) []runningAgent {
	return asked(ctx, a, all, "agents", func(ctx context.Context, at *reached) ([]runningAgent, error) {
		res, err := supervisorv1.NewAgentServiceClient(at.conn).ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
		if err != nil {
			return nil, err
		}
		var some []runningAgent
		for _, agent := range res.GetAgents() {
			some = append(some, runningAgent{at, agent})
		}
		return some, nil
	})
}

func (a *app) printRunning(list []runningAgent) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stderr, "no agent is running")
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUPERVISOR\tID\tNAME\tSTATE\tPID\tSINCE\tRESTARTS\tSESSIONS\tCOMMAND\tERROR")
	for _, r := range list {
		pid := "-"
		if r.GetPid() != 0 {
			pid = fmt.Sprint(r.GetPid())
		}
		since := "-"
		if r.GetStartTime().IsValid() {
			since = r.GetStartTime().AsTime().Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.at.pid, cell(r.GetId()), cell(r.GetName()), agentWord(r.GetState()), pid, since,
			r.GetRestarts(), len(r.GetSessionIds()), oneLine(strings.Join(r.GetCommand(), " "), 80), oneLine(r.GetError().GetMessage(), 80))
	}
	return w.Flush()
}

// printAgentLine says what became of an agent.
func (a *app) printAgentLine(done string, agent *supervisorv1.Agent) error {
	text := fmt.Sprintf("%s: %s", cell(agent.GetId()), done)
	if info := agent.GetInfo(); info != nil {
		text += ", " + oneLine(strings.TrimSpace(cmp.Or(info.GetTitle(), info.GetName(), agent.GetName())+" "+info.GetVersion()), 80)
	}
	if agent.GetPid() != 0 {
		text += fmt.Sprintf(", process %d", agent.GetPid())
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// agentWord is a state as people write it: "running".
func agentWord(s supervisorv1.AgentState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "AGENT_STATE_"))
}

// completeRunning completes the ids of running agents.
func (a *app) completeRunning(cmd *cobra.Command, which *reachFlags, args []string) []cobra.Completion {
	if len(args) > 0 {
		return nil
	}
	all, closeAll, err := a.reachAll(cmd, which)
	defer closeAll()
	if err != nil {
		return nil
	}
	var list []cobra.Completion
	for _, r := range a.runningAgents(cmd.Context(), all) {
		list = append(list, cobra.CompletionWithDesc(cell(r.GetId()), oneLine(strings.Join(r.GetCommand(), " "), 60)))
	}
	return list
}
