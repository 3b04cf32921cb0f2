package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/policytool"
)

// whyFlags say which action is explained, and by what.
type whyFlags struct {
	policy, action, config string
	question               policytool.Question
	asJSON                 bool
}

func (a *app) policyWhyCommand() *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why (--command LINE | --path FILE | --action FILE)",
		Short: "Explain what would be decided, and why",
		Long: `Explain what would be decided of an action of an agent: the verdict on the first
line, then every rule with why it did or did not match, then what was read from
the action: each command of the line, the files it redirects, where paths lead.

Without --policy the rule files count that a supervisor started in this folder
would have: the administrator's, yours and the workspace's. Nothing is run or
opened but rule files; paths are followed as they are on this machine now.`,
		Example: `  acphost policy why --command 'git status && rm -rf build'
  acphost policy why --path ~/.ssh/id_ed25519 --on fs.read
  acphost policy why --policy ./new.yaml --path src/main.go --on tool.edit
  acphost audit query --json --limit 1 | jq .action | acphost policy why --action -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := 0
			for _, s := range []string{f.question.Command, f.question.Path, f.action} {
				if s != "" {
					given++
				}
			}
			if given != 1 {
				return wrongUse(cmd, "expected one of --command, --path and --action")
			}
			if f.action != "" && (f.question.Kind != "" || f.question.Agent != "" || f.question.Mode != "" || f.question.Tool != "") {
				return wrongUse(cmd, "--on, --agent, --mode and --tool are not for --action: the action says them itself")
			}
			return a.withPermd(cmd.Context(), func(service permissionv1.PolicyServiceClient) error {
				return a.explain(cmd.Context(), service, f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "decide by this rule `FILE`, or ready policy, alone")
	flags.StringVar(&f.question.Command, "command", "", "a command `LINE`, as an agent would run it")
	flags.StringVar(&f.question.Path, "path", "", "a `FILE` or folder that an agent would touch")
	flags.StringVar(&f.question.Kind, "on", "", "the action's `KIND`: fs.read, fs.write, fs.list, terminal.create or tool.KIND")
	flags.StringVar(&f.action, "action", "", "read an action as JSON from `FILE`; - is the standard input")
	flags.StringVar(&f.question.Dir, "cwd", "", "the session's `FOLDER`; this one if not given")
	flags.StringVar(&f.question.Agent, "agent", "", "the agent's `NAME`")
	flags.StringVar(&f.question.Mode, "mode", "", "the session's `MODE`")
	flags.StringVar(&f.question.Tool, "tool", "", "the `NAME` of the agent's tool, for --on tool.KIND")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`")
	return cmd
}

func (a *app) explain(ctx context.Context, service permissionv1.PolicyServiceClient, f whyFlags) error {
	dir, err := filepath.Abs(f.question.Dir) // "" is this folder
	if err != nil {
		return err
	}
	c, err := config.Load(f.config, a.env)
	if err != nil {
		return err
	}
	files, err := a.filesInEffect(ctx, service, c, f.policy, dir)
	if err != nil {
		return err
	}
	action, err := a.actionOf(f, c, dir)
	if err != nil {
		return err
	}
	explained, err := policytool.Explain(ctx, service, action, files)
	if err != nil {
		return err
	}
	if f.asJSON {
		return explained.PrintJSON(a.stdout)
	}
	explained.Home = a.env("HOME")
	explained.Print(a.stdout, a.style(a.stdout))
	return nil
}

// filesInEffect returns the rule files to decide by.
func (a *app) filesInEffect(
	ctx context.Context, service permissionv1.PolicyServiceClient, c *config.Config, policy, dir string,
) ([]*permissionv1.PolicyFile, error) {
	if policy != "" {
		file, err := policytool.ReadPolicy(ctx, service, policy, a.stdin, permissionv1.Layer_LAYER_USER)
		if err != nil {
			return nil, err
		}
		return []*permissionv1.PolicyFile{file}, nil
	}
	settings := c.Permd()
	switch others := c.Deciders() - 1; {
	case settings == nil:
		return nil, fmt.Errorf("the configuration has another policy in permd's place, which only itself can explain; --policy FILE explains a rule file")
	case others > 0:
		fmt.Fprintf(a.stderr, "permd is one of %d policies that are asked; the strictest counts\n", others+1)
	case !c.PolicySet():
		fmt.Fprintln(a.stderr, "no policy is set: questions go to the front as they are, and calls are only counted")
	}
	return policytool.Layers(ctx, service, settings, dir)
}

func (a *app) actionOf(f whyFlags, c *config.Config, dir string) (*permissionv1.Action, error) {
	if f.action != "" {
		data, err := policytool.ReadFile(f.action, a.stdin)
		if err != nil {
			return nil, err
		}
		return policytool.ParseAction(f.action, data)
	}
	q := f.question
	q.Dir = dir
	q.Agent = cmp.Or(q.Agent, c.Proto.GetAgent().GetName(), "agent")
	q.Protected = c.ProtectedPaths(admin.Dirs(a.env)...)
	return q.Action()
}

func (a *app) policyReplayCommand() *cobra.Command {
	var policy, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay --policy NEW [AUDITFILE...]",
		Short: "Decide the recorded past by another rule file",
		Long: `Decide every action in the record of decisions by another rule file, and list
what would have been decided differently. Without a file, the configured record
is read, with the parts of it that were put aside.

Only the rule file counts, not the answers of people and not the administrator's
rules. Secrets are redacted in the record, so a rule about one may find it missing.`,
		Example: `  acphost policy replay --policy ./new.yaml
  acphost policy replay --policy headless ~/.local/state/acphost/audit.jsonl --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if policy == "" {
				return wrongUse(cmd, "--policy is missing")
			}
			if len(args) == 0 {
				c, err := config.Load(file, a.env)
				if err != nil {
					return err
				}
				record := c.Effective().GetPermission().GetAudit().GetFile()
				if record == "" {
					return fmt.Errorf("there is no record of decisions to read: neither the configuration nor $HOME says where it is")
				}
				args = []string{record}
			}
			return a.withPermd(cmd.Context(), func(service permissionv1.PolicyServiceClient) error {
				return a.replay(cmd.Context(), service, policy, args, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "decide by this rule `FILE`, or ready policy")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the record")
	return cmd
}

func (a *app) replay(ctx context.Context, service permissionv1.PolicyServiceClient, policy string, records []string, asJSON bool) error {
	for _, name := range records { // before anything is decided: a misspelt name is not an empty record
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	file, err := policytool.ReadPolicy(ctx, service, policy, a.stdin, permissionv1.Layer_LAYER_USER)
	if err != nil {
		return err
	}
	checked, err := policytool.Check(ctx, service, file)
	if err != nil {
		return err
	}
	if !checked.OK() {
		a.status = statusFailed
		checked.Print(a.stderr, a.style(a.stderr))
		return nil
	}
	r, err := policytool.Replay(ctx, service, file, readRecords(records))
	if err != nil {
		return err
	}
	for i, err := range r.Unread {
		if i == 3 {
			fmt.Fprintf(a.stderr, "and %d more\n", len(r.Unread)-i)
			break
		}
		fmt.Fprintf(a.stderr, "left out: %v\n", err)
	}
	if asJSON {
		return r.PrintJSON(a.stdout)
	}
	r.Print(a.stdout, a.style(a.stdout))
	return nil
}

// readRecords reads several records one after the other.
func readRecords(files []string) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		for _, file := range files {
			for record, err := range audit.Read(file, audit.Filter{}) {
				if !yield(record, err) {
					return
				}
			}
		}
	}
}
