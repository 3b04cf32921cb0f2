package policy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/rundir"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// whyFlags select the action to explain, and the rule files.
type whyFlags struct {
	policy, action, approval, config string
	walls                            []string
	denied                           bool
	question                         policytool.Question
	asJSON                           bool
}

func newWhy(call *command.Call, start permd.Starter) *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why (--command LINE | --path FILE | --host HOST | ... | -- PROGRAM ...)",
		Short: "Explain the decision about an action",
		Long: `Explain the decision about an action of an agent. The command prints the verdict;
how you can change it ("→"); every rule with the reason why it matches or not; and
the analysis of the action: each command of the line with its program, repository
and redirections, and the resolved paths. It includes acphost's own rules: for its
own files, key files, git's files, and commands that may name a key.

--denied uses the last denied action of any session. --approval uses a question by
its name in "acphost approvals list", or a decision by its id in the audit log
("acphost audit query --json"), also of a session that has ended.

--on is a kind of actions, also of processes in the sandbox: process.read,
process.write and process.git with --path, net.connect with the --path of a unix
socket, and process.start with the program and its arguments after "--". For these,
all walls are active, for other kinds none; --walls names the active ones.

Without --policy, the rule files of a supervisor that is started in this folder
apply: the administrator's, yours and the workspace's. The command runs no program,
and opens only rule files. It resolves paths as they are on this machine now.`,
		Example: `  acphost policy why --command 'git status && rm -rf build'
  acphost policy why --path ~/.ssh/id_ed25519 --on fs.read
  acphost policy why --path .vscode/tasks.json --on process.write
  acphost policy why --path /run/docker.sock --on net.connect
  acphost policy why --on process.start -- /usr/bin/make test
  acphost policy why --command 'make test' --walls files,reads,network
  acphost policy why --denied
  acphost policy why --host registry.npmjs.org:443
  acphost policy why --approval gemini-1/7
  acphost policy why --policy ./new.yaml --path src/main.go --on tool.edit
  acphost audit query --json --limit 1 | jq .action | acphost policy why --action -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 0 {
				return nil
			}
			return command.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.question.Argv = args
			given := min(len(args), 1)
			for _, s := range []string{f.question.Command, f.question.Path, f.question.Host, f.action, f.approval} {
				if s != "" {
					given++
				}
			}
			if f.denied {
				given++
			}
			if given != 1 {
				return command.UsageErrorf(cmd, "expected one of --command, --path, --host, --denied, --approval and --action, "+
					"or a program after --")
			}
			if len(f.question.Addresses) > 0 && f.question.Host == "" {
				return command.UsageErrorf(cmd, "--address is for --host")
			}
			q := f.question
			described := q.Kind != "" || q.Agent != "" || q.Mode != "" || q.Tool != "" || len(f.walls) > 0
			if (f.action != "" || f.recorded()) && described {
				return command.UsageErrorf(cmd, "--on, --agent, --mode, --tool and --walls are not for --action, --approval and --denied: "+
					"the action says them itself")
			}
			if len(f.walls) > 0 {
				var err error
				if f.question.Walls, err = policytool.ParseWalls(f.walls); err != nil {
					return command.UsageErrorf(cmd, "--walls: %v", err)
				}
			}
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				return explain(cmd.Context(), call, service, f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "decide by this rule `FILE`, or ready-made policy, without other files")
	flags.StringVar(&f.question.Command, "command", "", "a command `LINE`, as an agent would run it")
	flags.StringVar(&f.question.Path, "path", "", "a `FILE` or folder that an agent would use")
	flags.StringVar(&f.question.Host, "host", "", "a `HOST`, or HOST:PORT, that an agent would connect to; it is not looked up")
	flags.StringSliceVar(&f.question.Addresses, "address", nil, "an `IP` address that the machine of --host has")
	flags.StringVar(&f.question.Kind, "on", "",
		"the action's `KIND`: fs.read, terminal.create, tool.KIND, process.KIND, …")
	flags.StringSliceVar(&f.walls, "walls", nil, "the active `WALLS`: files, reads and network, or none")
	flags.StringVar(&f.action, "action", "", "read an action as JSON from `FILE`; - is the standard input")
	flags.BoolVar(&f.denied, "denied", false, "the action that was denied last, from the audit")
	flags.StringVar(&f.approval, "approval", "", "the action that the question `ID` is or was about, from the record")
	flags.StringVar(&f.question.Dir, "cwd", "", "the session's `FOLDER`; this one if not given")
	flags.StringVar(&f.question.Agent, "agent", "", "the agent's `NAME`")
	flags.StringVar(&f.question.Mode, "mode", "", "the session's `MODE`")
	flags.StringVar(&f.question.Tool, "tool", "", "the `NAME` of the agent's tool, for --on tool.KIND")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`")
	return cmd
}

// recorded reports whether the action comes from the record.
func (f *whyFlags) recorded() bool { return f.denied || f.approval != "" }

func explain(ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, f whyFlags) error {
	dir, err := filepath.Abs(f.question.Dir) // "" means the current folder
	if err != nil {
		return err
	}
	c, err := config.Load(f.config, call.Env)
	if err != nil {
		return err
	}
	g, err := policytool.NewGate(c.ProtectedPaths(rundir.Dirs(call.Env)...), c.KeyFiles())
	if err != nil {
		return err
	}
	f.question.Gate = g
	action, err := actionOf(call, f, c, dir)
	if err != nil {
		return err
	}
	if roots := action.GetRoots(); f.recorded() && f.question.Dir == "" && len(roots) > 0 {
		dir = roots[0]
	}
	files, err := filesInEffect(ctx, call, service, c, f.policy, dir)
	if err != nil {
		return err
	}
	var known hosts.Known
	if e := action.GetEndpoint(); e != nil {
		known = agentcmd.Machines(call, slog.New(slog.NewTextHandler(call.Stderr, nil)))(action.GetAgent())
		if note := policytool.NetworkNote(c); note != "" {
			fmt.Fprintln(call.Stderr, note)
		}
	}
	explained, err := policytool.Explain(ctx, service, g, action, known, files)
	if err != nil {
		return err
	}
	explained.Home = call.Env("HOME")
	if f.recorded() { // the journal contains whole commands
		explained.Action = audit.Redacted(explained.Action)
	}
	return printed(call, f.asJSON, explained)
}

// filesInEffect returns the rule files for the decision.
func filesInEffect(
	ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, c *config.Config, policy, dir string,
) ([]*permissionv1.PolicyFile, error) {
	if policy != "" {
		file, err := policytool.ReadPolicy(ctx, service, policy, call.Stdin, permissionv1.Layer_LAYER_USER)
		if err != nil {
			return nil, err
		}
		return []*permissionv1.PolicyFile{file}, nil
	}
	settings := c.Permd()
	switch others := c.PolicyCount() - 1; {
	case settings == nil:
		return nil, fmt.Errorf("the configuration has another policy in permd's place, which only itself can explain; --policy FILE explains a rule file")
	case others > 0:
		fmt.Fprintf(call.Stderr, "permd is one of %d policies that are asked; the strictest counts\n", others+1)
	case !c.PolicySet():
		fmt.Fprintln(call.Stderr, "no policy is set: what an agent asks goes to the person, and what it does is done unasked; "+
			"--policy workspace shows what that policy would say")
	}
	return policytool.Layers(ctx, service, settings, dir)
}

func actionOf(call *command.Call, f whyFlags, c *config.Config, dir string) (*permissionv1.Action, error) {
	if f.action != "" {
		data, err := policytool.ReadFile(f.action, call.Stdin)
		if err != nil {
			return nil, err
		}
		return policytool.ParseAction(f.action, data)
	}
	if f.recorded() {
		effective := c.Effective()
		records := policytool.Records{Journal: effective.GetJournal().GetDir(), Audit: effective.GetPermission().GetAudit().GetFile(),
			Gate: f.question.Gate, Dialect: agentcmd.Dialects(call, slog.New(slog.NewTextHandler(call.Stderr, nil)))}
		find := func() (*policytool.RecordedAction, error) { return records.Find(f.approval) }
		if f.denied {
			find = records.Denied
		}
		recorded, err := find()
		if err != nil {
			return nil, err
		}
		for _, note := range recorded.Notes {
			fmt.Fprintln(call.Stderr, note)
		}
		return recorded.Action, nil
	}
	q := f.question
	q.Dir = dir
	q.Agent = cmp.Or(q.Agent, c.Proto.GetAgent().GetName(), "agent")
	return q.Action()
}
