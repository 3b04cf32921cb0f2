package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/policytool"
)

func (a *app) policyTrustCommand() *cobra.Command {
	var list, remove, yes bool
	var file string
	cmd := &cobra.Command{
		Use:   "trust [FOLDER|FILE]",
		Short: "Let a workspace's own rule file allow things",
		Long: `Let a workspace's own rule file, ` + config.WorkspacePolicy + `, allow things.

Whatever a repository brings along may only make the policy stricter, until you
have read it and say that you trust it. Trust holds for the file's content: once
it changes, its allow rules do not count, and you are asked to look again. What
the file allows is shown first. An agent cannot do this for you.`,
		Example: `  acphost policy trust
  acphost policy trust ~/src/project
  acphost policy trust --list
  acphost policy trust --remove ~/src/project`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case list && remove:
				return wrongUse(cmd, "either --list or --remove")
			case list && len(args) > 0:
				return wrongUse(cmd, "--list takes no argument, got %q", args[0])
			case len(args) > 1:
				return wrongUse(cmd, "one file is trusted at a time")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(file, a.env)
			if err != nil {
				return err
			}
			settings := c.Permd()
			if settings == nil {
				return errors.New("the configuration has another policy in permd's place, to which workspace files mean nothing")
			}
			trust := policytool.OpenTrust(settings.GetTrust())
			if list {
				return a.listTrusted(trust)
			}
			name, err := policytool.WorkspaceFile(strings.Join(args, ""), cmp.Or(settings.GetWorkspacePolicy(), config.WorkspacePolicy))
			if err != nil {
				return err
			}
			if err := a.refuseAgents(cmd); err != nil {
				return err
			}
			if remove {
				return a.distrust(trust, name)
			}
			return a.withPermd(cmd.Context(), func(service permissionv1.PolicyServiceClient) error {
				return a.trust(cmd, service, trust, name, yes)
			})
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list what is trusted")
	cmd.Flags().BoolVar(&remove, "remove", false, "trust it no longer")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`")
	return cmd
}

func (a *app) listTrusted(trust *policytool.Trust) error {
	files, err := trust.List()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		_, err := fmt.Fprintln(a.stderr, "no workspace's rule file is trusted")
		return err
	}
	return trust.Print(a.stdout, a.style(a.stdout))
}

func (a *app) distrust(trust *policytool.Trust, name string) error {
	found, err := trust.Remove(name)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%s is not trusted; --list shows what is", name)
	}
	_, err = fmt.Fprintf(a.stdout, "%s is not trusted any more\n", name)
	return err
}

func (a *app) trust(cmd *cobra.Command, service permissionv1.PolicyServiceClient, trust *policytool.Trust, name string, yes bool) error {
	content, err := policytool.ReadFile(name, nil)
	if err != nil {
		return err
	}
	file := &permissionv1.PolicyFile{Name: name, Content: content, Layer: permissionv1.Layer_LAYER_WORKSPACE_TRUSTED}
	checked, err := policytool.Check(cmd.Context(), service, file)
	if err != nil {
		return err
	}
	if !checked.OK() {
		a.status = statusFailed
		checked.Print(a.stderr, a.style(a.stderr))
		return nil
	}
	rules, err := policytool.Allows(file)
	if err != nil {
		return err
	}
	if len(rules) == 0 {
		_, err := fmt.Fprintf(a.stdout, "%s allows nothing; it counts as it is, and need not be trusted\n", name)
		return err
	}
	if err := policytool.PrintAllows(a.stdout, a.style(a.stdout), name, rules); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	if !yes {
		switch agreed, err := a.confirm("Trust this file as it is now?"); {
		case err != nil:
			return err
		case !agreed:
			a.status = statusFailed
			_, err := fmt.Fprintln(a.stdout, "not trusted")
			return err
		}
	}
	if err := trust.Add(name, content); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, "trusted, until it changes; \"acphost policy reload\" tells supervisors that run")
	return err
}

// confirm asks whoever sits at the terminal; everything but a yes is a no.
func (a *app) confirm(question string) (bool, error) {
	if !a.programs.terminal(a.stdin) {
		return false, errors.New("nobody is at a terminal to confirm it; --yes says that you have read it")
	}
	fmt.Fprintf(a.stdout, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// refuseAgents is for what only a person may do: an agent that runs acphost is told no.
func (a *app) refuseAgents(cmd *cobra.Command) error {
	switch from, err := a.programs.fromAgent(os.Getpid()); {
	case err != nil:
		return fmt.Errorf("%s is for people, and who asks cannot be told: %w", cmd.CommandPath(), err)
	case from:
		return fmt.Errorf("%s is for people: run it in a terminal of your own, not through an agent or a handler", cmd.CommandPath())
	}
	return nil
}
