// Package policy implements "acphost policy": checks rule files, explains decisions, and tests rules on recorded
// actions.
package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/ownfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// New returns the command "policy".
func New(call *command.Call, start permd.Starter) *cobra.Command {
	return command.Group("policy", "Check, explain and test rule files",
		`Check, explain and test the rule files of permd, acphost's own policy.

A rule file is YAML. If several rules match an action, the strictest one applies:
deny before ask before allow. If no rule matches, acphost asks the user. Up to three
files apply together: the administrator's (`+config.DefaultAdminPolicy+`), yours
(permission.policy in the configuration, or policy.yaml beside it) and the
workspace's (`+config.WorkspacePolicy+`), which can only make decisions stricter
unless you trust it.`,
		newCheck(call, start), newWhy(call, start), newProfile(call, start), newReplay(call, start),
		newImport(call, start), newShow(call, start), newTrust(call, start), newReload(call))
}

func newCheck(call *command.Call, start permd.Starter) *cobra.Command {
	var asJSON bool
	var configFile string
	cmd := &cobra.Command{
		Use:        "check [FILE...]",
		SuggestFor: []string{"test"},
		Short:      "Check rule files and run their tests",
		Long: `Load rule files like permd, run their tests, and report rules that probably do not
have the intended effect. Without FILE, the rule files for this folder are checked:
those of the configuration, the administrator's, and the workspace's.

Every problem is printed as FILE:LINE:COLUMN: error|warning: MESSAGE. The exit
status is 0 if all files load, even with warnings, else 1. "-" is standard input.`,
		Example: `  acphost policy check
  acphost policy check ~/.config/acphost/policy.yaml
  acphost policy check .acphost/policy.yaml --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && configFile != "" {
				return command.UsageErrorf(cmd, "--config is for a check without files")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				files, err := policyFiles(cmd.Context(), call, service, configFile, args)
				if err != nil {
					return err
				}
				return checkPolicies(cmd.Context(), call, service, files, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.Flags().StringVar(&configFile, "config", "", "the configuration `FILE`, which names the rule files")
	return cmd
}

// policyFiles reads rule files by their names. Without names, it returns those that apply in the working directory.
func policyFiles(ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, configFile string, names []string) ([]*permissionv1.PolicyFile, error) {
	var files []*permissionv1.PolicyFile
	for _, name := range names {
		file, err := policytool.ReadPolicy(ctx, service, name, call.Stdin, policytool.LayerOf(name))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(names) > 0 {
		return files, nil
	}
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		return nil, err
	}
	settings := c.Permd()
	if settings == nil {
		return nil, errors.New("the configuration has another program decide (permission), and no rule files: name a rule file")
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	files, err = policytool.Layers(ctx, service, settings, dir)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no policy is configured (permission.policy): name a rule file, or a ready policy (%s)", strings.Join(config.ReadyPolicies(), ", "))
	}
	return files, err
}

func checkPolicies(ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, files []*permissionv1.PolicyFile, asJSON bool) error {
	all := []any{}
	for _, file := range files {
		checked, err := policytool.Check(ctx, service, file)
		if err != nil {
			return err
		}
		if !checked.OK() {
			call.Status = command.StatusFailed
		}
		if !asJSON {
			checked.Print(call.Stdout, output.Style(call, call.Stdout))
			if note := note(call, file); note != "" {
				fmt.Fprintf(call.Stderr, "%s: %s\n", safetext.Exact(file.GetName()), note)
			}
			continue
		}
		found, err := checked.JSON()
		if err != nil {
			return err
		}
		all = append(all, found)
	}
	if asJSON {
		return output.PrintLines(call, all)
	}
	return nil
}

// note describes rules about machines that have no effect in the configuration, or returns "".
func note(call *command.Call, file *permissionv1.PolicyFile) string {
	c, err := config.Load("", call.Env)
	if err != nil || !policytool.NamesMachines(file) {
		return ""
	}
	return policytool.NetworkNote(c)
}

// printed prints a result as JSON, or for users.
func printed(call *command.Call, asJSON bool, what interface {
	JSON() (any, error)
	Print(io.Writer, policytool.Style)
}) error {
	if !asJSON {
		what.Print(call.Stdout, output.Style(call, call.Stdout))
		return nil
	}
	object, err := what.JSON()
	if err != nil {
		return err
	}
	return output.PrintJSON(call, object)
}

// loads reports whether permd can load a rule file. Otherwise it prints the errors, and makes the command fail.
func loads(ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, file *permissionv1.PolicyFile) (bool, error) {
	checked, err := policytool.Check(ctx, service, file)
	if err == nil && !checked.OK() {
		call.Status = command.StatusFailed
		checked.Print(call.Stderr, output.Style(call, call.Stderr))
	}
	return err == nil && checked.OK(), err
}

func newImport(call *command.Call, start permd.Starter) *cobra.Command {
	var format, out string
	var force bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Convert another program's permissions to a rule file",
		Long: `Convert settings of another program to a rule file: the permissions in Claude Code's
settings.json, Gemini CLI's policy TOML, or the permission map in opencode.json.

The rule file goes to standard output, or to a file with --out. Settings that could
not be converted are listed on standard error. The rule file is never less strict
than the original.`,
		Example: `  acphost policy import ~/.claude/settings.json
  acphost policy import .gemini/policies/rules.toml --out policy.yaml
  acphost policy import --format opencode ./config.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return command.UsageErrorf(cmd, "the file is missing")
			case 1:
				return nil
			}
			return command.UsageErrorf(cmd, "import takes one file, got %q as well", args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				return importPolicy(call, cmd, service, args[0], format, out, force)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "the file's `FORMAT`: claude, gemini or opencode; default: detected")
	cmd.Flags().StringVar(&out, "out", "", "write the rule file to `FILE`")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that --out names")
	return cmd
}

func importPolicy(call *command.Call, cmd *cobra.Command, service permissionv1.PolicyServiceClient, name, format, out string, force bool) error {
	switch format {
	case "", "claude", "gemini", "opencode":
	default:
		return command.UsageErrorf(cmd, "--format: %v", command.Expected(format, "claude", "gemini", "opencode"))
	}
	if out != "" && !force {
		if _, err := os.Lstat(out); err == nil {
			return fmt.Errorf("%s is there already; --force replaces it", out)
		}
	}
	content, err := policytool.ReadFile(name, call.Stdin)
	if err != nil {
		return err
	}
	answer, err := policytool.Import(cmd.Context(), service, format, name, content)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := w.Write(answer.GetPolicy())
		return err
	}
	if out == "" {
		err = write(call.Stdout)
	} else {
		err = ownfile.Write(out, force, write)
	}
	if err == nil {
		policytool.PrintDropped(call.Stderr, output.Style(call, call.Stderr), name, answer)
	}
	return err
}

func newShow(call *command.Call, start permd.Starter) *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "List the ready-made policies, or print one",
		Long:  `List the ready-made policies, or print one, for example as a start for your own.`,
		Example: `  acphost policy show
  acphost policy show workspace > ~/.config/acphost/policy.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageErrorf(cmd, "one policy is shown at a time")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				if len(args) == 0 {
					return policytool.PrintReady(cmd.Context(), service, call.Stdout, output.Style(call, call.Stdout))
				}
				content, err := policytool.ReadyPolicy(cmd.Context(), service, args[0])
				if err != nil {
					return err
				}
				_, err = call.Stdout.Write(content)
				return err
			})
		},
	}
}
