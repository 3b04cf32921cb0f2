package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/policytool"
)

// stopPermd bounds how long the end of permd is waited for.
const stopPermd = 10 * time.Second

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, explain and try out rule files",
		Long: `Check, explain and try out the rule files of permd, acphost's own policy.

A rule file is YAML. Of the rules that match what an agent is about to do the
strictest counts, deny before ask before allow; where none matches, a person is
asked. Three files make one policy: the administrator's
(` + config.DefaultAdminPolicy + `), yours (permission.policy in the configuration,
else policy.yaml beside it) and the workspace's (` + config.WorkspacePolicy + `), which may
only tighten unless you trust it.`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyCheckCommand(), a.policyWhyCommand(), a.policyReplayCommand(), a.policyImportCommand(),
		a.policyShowCommand(), a.policyTrustCommand(), a.policyReloadCommand())
	return cmd
}

// startPermd runs the permd that stands next to acphost's own program.
func startPermd(ctx context.Context, log *slog.Logger) (service permissionv1.PolicyServiceClient, stop func(context.Context) error, err error) {
	exe, err := executable()
	if err != nil {
		return nil, nil, err
	}
	permd, err := policytool.Start(ctx, config.Program("permd", filepath.Dir(exe)), log)
	if err != nil {
		return nil, nil, fmt.Errorf("start permd: %w", err)
	}
	return permd, permd.Stop, nil
}

// withPermd runs permd for the time of one function.
func (a *app) withPermd(ctx context.Context, do func(permissionv1.PolicyServiceClient) error) (err error) {
	level, ok := levels()[a.env(envLog)]
	if !ok {
		level = slog.LevelWarn
	}
	service, stop, err := a.programs.permd(ctx, slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		return err
	}
	defer func() {
		// Whatever ended the function, permd is stopped.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPermd)
		defer cancel()
		if stopErr := stop(ctx); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stop permd: %w", stopErr))
		}
	}()
	return do(service)
}

// style is how output to a file looks.
func (a *app) style(f *os.File) policytool.Style {
	if !a.programs.terminal(f) {
		return policytool.Style{}
	}
	return policytool.Style{Color: a.env("NO_COLOR") == "", Width: terminalWidth(f)}
}

func (a *app) policyCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check rule files and run their tests",
		Long: `Load rule files as permd would, run their tests and look for rules that most
likely do not do what was meant.

Every finding is printed as FILE:LINE:COLUMN: error|warning: what is wrong. The
exit status is 0 if all files load, even with warnings, else 1. "-" reads the
standard input.`,
		Example: `  acphost policy check ~/.config/acphost/policy.yaml
  acphost policy check .acphost/policy.yaml --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse(cmd, "the rule file is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPermd(cmd.Context(), func(service permissionv1.PolicyServiceClient) error {
				return a.checkPolicies(cmd.Context(), service, args, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func (a *app) checkPolicies(ctx context.Context, service permissionv1.PolicyServiceClient, files []string, asJSON bool) error {
	var all []*policytool.Checked
	for _, name := range files {
		content, err := policytool.ReadFile(name, a.stdin)
		if err != nil {
			return err
		}
		checked, err := policytool.Check(ctx, service, &permissionv1.PolicyFile{Name: name, Content: content, Layer: policytool.LayerOf(name)})
		if err != nil {
			return err
		}
		if !checked.OK() {
			a.status = statusFailed
		}
		if !asJSON {
			checked.Print(a.stdout, a.style(a.stdout))
		}
		all = append(all, checked)
	}
	if asJSON {
		return policytool.PrintChecksJSON(a.stdout, all)
	}
	return nil
}

func (a *app) policyImportCommand() *cobra.Command {
	var format, out string
	var force bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn another program's permissions into a rule file",
		Long: `Turn what you have already into a rule file: the permissions in Claude Code's
settings.json, Gemini CLI's policy TOML, or the permission map in opencode.json.

The rule file goes to the standard output, or to a file with --out; what could
not be carried over is listed on the standard error. The rule file is then
stricter than the original, never looser.`,
		Example: `  acphost policy import ~/.claude/settings.json
  acphost policy import .gemini/policies/rules.toml --out policy.yaml
  acphost policy import --format opencode ./config.json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPermd(cmd.Context(), func(service permissionv1.PolicyServiceClient) error {
				return a.importPolicy(cmd, service, args[0], format, out, force)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "the file's `FORMAT`: claude, gemini or opencode; not needed as a rule")
	cmd.Flags().StringVar(&out, "out", "", "write the rule file to `FILE`")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --out names")
	return cmd
}

func (a *app) importPolicy(cmd *cobra.Command, service permissionv1.PolicyServiceClient, name, format, out string, force bool) error {
	switch format {
	case "", "claude", "gemini", "opencode":
	default:
		return wrongUse(cmd, "--format: %v", &expected{words: []string{"claude", "gemini", "opencode"}, got: format})
	}
	if out != "" && !force {
		if _, err := os.Lstat(out); err == nil {
			return fmt.Errorf("%s is there already; --force replaces it", out)
		}
	}
	content, err := policytool.ReadFile(name, a.stdin)
	if err != nil {
		return err
	}
	answer, err := policytool.Import(cmd.Context(), service, format, name, content)
	if err != nil {
		return err
	}
	if out == "" {
		_, err = a.stdout.Write(answer.GetPolicy())
	} else {
		err = policytool.WriteNew(out, answer.GetPolicy(), force)
	}
	if err == nil {
		policytool.PrintDropped(a.stderr, a.style(a.stderr), name, answer)
	}
	return err
}

func (a *app) policyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "List the ready policies, or print one",
		Long: `List the rule files that acphost comes with, or print one: as it is, or to begin
your own from.`,
		Example: `  acphost policy show
  acphost policy show workspace > ~/.config/acphost/policy.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return wrongUse(cmd, "one policy is shown at a time")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPermd(cmd.Context(), func(service permissionv1.PolicyServiceClient) error {
				if len(args) == 0 {
					return policytool.PrintReady(cmd.Context(), service, a.stdout, a.style(a.stdout))
				}
				content, err := policytool.ReadyPolicy(cmd.Context(), service, args[0])
				if err != nil {
					return err
				}
				_, err = a.stdout.Write(content)
				return err
			})
		},
	}
}

// oneFile is for a command that works on one file.
func oneFile(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return wrongUse(cmd, "the file is missing")
	case 1:
		return nil
	}
	return wrongUse(cmd, "%s takes one file, got %q as well", cmd.Name(), args[1])
}
