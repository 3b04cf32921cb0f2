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

// Sections is the annotation of a command with sections that stand after its usage, such as "Exit status:".
const Sections = "sections"

// ExitStatus is the section of commands that have no exit status of their own.
const ExitStatus = `
Exit status:
  0  it worked
  1  something went wrong
  2  acphost was called wrongly
  128 and the signal's number, if a signal ended it: 130 for Ctrl-C, 143 for SIGTERM
`

// AddExitStatus puts ExitStatus before the sections of each command below one that says nothing of its exit status.
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

// UsageError is a mistake in how the program was called, not in what it then did.
type UsageError struct {
	Command string // the command's path: "acphost run"
	Message string
}

func (e *UsageError) Error() string { return e.Message }

// WrongUse returns a UsageError of a command.
func WrongUse(cmd *cobra.Command, format string, args ...any) error {
	return &UsageError{Command: cmd.CommandPath(), Message: fmt.Sprintf(format, args...)}
}

// Expected says that an argument is none of the words that it could be, and which one it is a slip of.
func Expected(got string, words ...string) error {
	list := words[len(words)-1]
	if n := len(words); n > 1 {
		list = strings.Join(words[:n-1], ", ") + " or " + list
	}
	return fmt.Errorf("expected %s, got %q%s", list, got, DidYouMean(got, words))
}

// RefusedError is a supervisor's refusal of a caller that may not call.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// Group returns a command that only holds others: it takes no arguments of its own, and shows its help.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return WrongUse(cmd, "there is no command %q%s", args[0], cmp.Or(suggested(cmd, args[0]), DidYouMean(args[0], names(cmd))))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// suggested names the command below cmd that has another name (cobra's SuggestFor) for what somebody called, for the end of an
// error; empty: no command has.
func suggested(cmd *cobra.Command, got string) string {
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, got) {
			return fmt.Sprintf(": did you mean \"%s %s\" (%s)?", cmd.CommandPath(), c.Use, strings.ToLower(c.Short[:1])+c.Short[1:])
		}
	}
	return ""
}

// names are those of the commands below one that people call.
func names(cmd *cobra.Command) (all []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return all
}

// DidYouMean asks whether a word is a slip of another one, for the end of an error; empty: it is near none of them.
func DidYouMean(got string, words []string) string {
	if near := yamlproto.Nearest(got, words); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	return ""
}

// nearFlag is DidYouMean for a flag that there is not.
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

// NoArguments is for a command that takes flags only.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return WrongUse(cmd, "%s takes no argument, got %q", cmd.Name(), args[0])
	}
	return nil
}

// OneArgument is for a command that takes one thing: what says which, for people, and hints say where it is found.
func OneArgument(what string, hints ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return WrongUse(cmd, "%s", strings.Join(append([]string{fmt.Sprintf("expected %s, got %d arguments", what, len(args))}, hints...), "; "))
		}
		return nil
	}
}
