package policy

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

func newTrust(call *command.Call, start permd.Starter) *cobra.Command {
	var list, remove, yes bool
	var file string
	cmd := &cobra.Command{
		Use:   "trust [FOLDER|FILE]",
		Short: "Apply the allow rules of a workspace's own rule file",
		Long: `Apply the allow rules of a workspace's own rule file, ` + config.WorkspacePolicy + `.

The rule file of a repository can only make decisions stricter, until you trust it.
The command shows the allow rules of the file, and asks for a confirmation. Trust
applies to the current content: after a change, the allow rules have no effect until
you trust the file again. Agents cannot run this command.`,
		Example: `  acphost policy trust
  acphost policy trust ~/src/project
  acphost policy trust --list
  acphost policy trust --remove ~/src/project`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case list && remove:
				return command.UsageErrorf(cmd, "either --list or --remove")
			case list && len(args) > 0:
				return command.UsageErrorf(cmd, "--list takes no argument, got %q", args[0])
			case len(args) > 1:
				return command.UsageErrorf(cmd, "one file is trusted at a time")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(file, call.Env)
			if err != nil {
				return err
			}
			settings := c.Permd()
			if settings == nil {
				return errors.New("the configuration has another policy in permd's place, to which workspace files mean nothing")
			}
			trust := policytool.OpenTrustStore(settings.GetTrust())
			if list {
				files, err := trust.List()
				if err == nil && len(files) == 0 {
					fmt.Fprintln(call.Stderr, "no workspace's rule file is trusted")
				}
				policytool.PrintTrusted(call.Stdout, output.Style(call, call.Stdout), files)
				return err
			}
			name, err := policytool.WorkspaceFile(strings.Join(args, ""), cmp.Or(settings.GetWorkspacePolicy(), config.WorkspacePolicy))
			if err != nil {
				return err
			}
			if err := call.RejectAgents(cmd); err != nil {
				return err
			}
			if remove {
				return distrust(call, trust, name)
			}
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				return addTrust(cmd, call, service, trust, name, yes)
			})
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list trusted files")
	cmd.Flags().BoolVar(&remove, "remove", false, "revoke the trust")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`")
	return cmd
}

func distrust(call *command.Call, trust *policytool.TrustStore, name string) error {
	found, err := trust.Remove(name)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%s is not trusted; --list shows what is", name)
	}
	_, err = fmt.Fprintf(call.Stdout, "%s is not trusted any more\n", name)
	return err
}

func addTrust(cmd *cobra.Command, call *command.Call, service permissionv1.PolicyServiceClient, trust *policytool.TrustStore, name string, yes bool) error {
	content, err := policytool.ReadFile(name, nil)
	if err != nil {
		return err
	}
	file := &permissionv1.PolicyFile{Name: name, Content: content, Layer: permissionv1.Layer_LAYER_WORKSPACE_TRUSTED}
	if ok, err := loads(cmd.Context(), call, service, file); err != nil || !ok {
		return err
	}
	rules, err := policytool.Allows(file)
	if err != nil {
		return err
	}
	if len(rules) == 0 {
		_, err := fmt.Fprintf(call.Stdout, "%s allows nothing; it counts as it is, and need not be trusted\n", name)
		return err
	}
	if err := policytool.PrintAllows(call.Stdout, output.Style(call, call.Stdout), name, rules); err != nil {
		return err
	}
	fmt.Fprintln(call.Stdout)
	if !yes {
		switch agreed, err := confirm(call, "Trust this file as it is now?"); {
		case err != nil:
			return err
		case !agreed:
			call.Status = command.StatusFailed
			_, err := fmt.Fprintln(call.Stdout, "not trusted")
			return err
		}
	}
	if err := trust.Add(name, content); err != nil {
		return err
	}
	_, err = fmt.Fprintln(call.Stdout, "trusted, until it changes; \"acphost policy reload\" tells supervisors that run")
	return err
}

// confirm asks the user at the terminal. Any answer other than yes means no.
func confirm(call *command.Call, question string) (bool, error) {
	if !call.Terminal(call.Stdin) {
		return false, errors.New("nobody is at a terminal to confirm it; --yes says that you have read it")
	}
	fmt.Fprintf(call.Stdout, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(call.Stdin, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
