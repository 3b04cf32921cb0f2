package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acphost/acphost/internal/yamlproto"
)

// Sections is the annotation of a command with sections after its usage, such as "Exit status:".
const Sections = "sections"

// ExitStatus is the section of commands without special exit statuses.
const ExitStatus = `
Exit status:
  0  success
  1  error
  2  wrong usage
  128 and the signal's number, if a signal ended it: 130 for Ctrl-C, 143 for SIGTERM
`

// AddExitStatus adds ExitStatus to the sections of each command below root that does not describe its exit statuses.
func AddExitStatus(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		AddExitStatus(cmd)
		if sections := cmd.Annotations[Sections]; !cmd.HasSubCommands() && !strings.Contains(sections, "Exit status:") {
			if cmd.Annotations == nil {
				cmd.Annotations = map[string]string{}
			}
			cmd.Annotations[Sections] = ExitStatus + sections
		}
	}
}

// UsageError is the error of a call with wrong arguments.
type UsageError struct {
	Command string // path of the command: "acphost run"
	Message string
}

func (e *UsageError) Error() string { return e.Message }

// UsageErrorf returns a UsageError of a command.
func UsageErrorf(cmd *cobra.Command, format string, args ...any) error {
	return &UsageError{Command: cmd.CommandPath(), Message: fmt.Sprintf(format, args...)}
}

// Expected returns the error for an argument that is not one of the words. It names the word that the argument may be a
// misspelling of.
func Expected(got string, words ...string) error {
	list := words[len(words)-1]
	if n := len(words); n > 1 {
		list = strings.Join(words[:n-1], ", ") + " or " + list
	}
	return fmt.Errorf("expected %s, got %q%s", list, got, DidYouMean(got, words))
}

// RejectedError is the error of a supervisor that rejected the caller.
type RejectedError struct{ Text string }

func (e *RejectedError) Error() string { return e.Text }

// Group returns a command that only has subcommands: it accepts no arguments, and prints its help.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return UsageErrorf(cmd, "there is no command %q%s", args[0], cmp.Or(suggested(cmd, args[0]), DidYouMean(args[0], names(cmd))))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// suggested returns the command below cmd with another name (cobra's SuggestFor) that was typed, as the end of an
// error, or "".
func suggested(cmd *cobra.Command, got string) string {
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, got) {
			return fmt.Sprintf(": did you mean \"%s %s\" (%s)?", cmd.CommandPath(), c.Use, strings.ToLower(c.Short[:1])+c.Short[1:])
		}
	}
	return ""
}

// names returns the names of the visible subcommands.
func names(cmd *cobra.Command) (all []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return all
}

// DidYouMean returns a question about a similar word, as the end of an error, or "" if no word is similar.
func DidYouMean(got string, words []string) string {
	if near := yamlproto.Nearest(got, words); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ""
}

// nearFlag is DidYouMean for an unknown flag.
func nearFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	var words []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			words = append(words, "--"+f.Name)
		}
	})
	return DidYouMean("--"+unknown.GetSpecifiedName(), words)
}

// NoArguments rejects arguments of a command that has only flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageErrorf(cmd, "%s takes no argument, got %q", cmd.Name(), args[0])
	}
	return nil
}

// OneArgument requires exactly one argument. what describes it for users, and hints describe where to find it.
func OneArgument(what string, hints ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return UsageErrorf(cmd, "%s", strings.Join(append([]string{fmt.Sprintf("expected %s, got %d arguments", what, len(args))}, hints...), "; "))
		}
		return nil
	}
}
