// Package man implements "acphost man": writes the manual pages from the tree of commands.
package man

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// New returns the command "man".
func New(call *command.Call) *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages into a folder",
		Long: `Write the manual pages into a folder: acphost.1, and a page for each command, such
as acphost-run.1, with the text of --help. Existing files of these names are
replaced.`,
		Example: `  acphost man ~/.local/share/man/man1
  man acphost-run`,
		Args: command.OneArgument("the folder to write into"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := writePages(cmd.Root(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(call.Stdout, "%d pages in %s\n", n, args[0])
			return err
		},
	}
}

// writePages writes the pages of a command and of its subcommands, and returns their number.
func writePages(cmd *cobra.Command, dir string) (n int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // manual pages are for everybody
		return 0, fmt.Errorf("make the folder for manual pages: %w", err)
	}
	file := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(file, []byte(page(cmd)), 0o644); err != nil { //nolint:gosec // manual pages are for everybody
		return 0, fmt.Errorf("write a manual page: %w", err)
	}
	n = 1
	for _, c := range cmd.Commands() {
		if c.Hidden || !c.IsAvailableCommand() {
			continue
		}
		below, err := writePages(c, dir)
		n += below
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// pageName returns the name of a command's page: "acphost-policy-check".
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns a command's manual page, in the macros of man(7).
func page(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s\n", quoted(strings.ToUpper(pageName(cmd))), quoted("acphost "+cmd.Root().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	b.WriteString(paragraphs(cmp.Or(cmd.Long, cmd.Short+".")))
	flags(&b, cmd.NonInheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + verbatim(cmd.Example))
	}
	if more := cmd.Annotations[command.Sections]; more != "" {
		sections(&b, more)
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, ".BR "+roff(pageName(cmd.Parent()))+" (1)")
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			also = append(also, ".BR "+roff(pageName(c))+" (1)")
		}
	}
	if len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(also, ",\n") + "\n")
	}
	return b.String()
}

// flags writes a section of flags.
func flags(b *strings.Builder, set *pflag.FlagSet) {
	title := ".SH OPTIONS\n"
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		b.WriteString(title)
		title = ""
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		b.WriteString("\n" + roff(usage) + "\n")
	})
}

// sections writes text. A line that ends with a colon and is not indented begins a section.
func sections(b *strings.Builder, text string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		title, rest, ok := strings.Cut(part, ":\n")
		if !ok || strings.HasPrefix(title, " ") || strings.Contains(title, "\n") {
			b.WriteString(".PP\n" + paragraphs(part))
			continue
		}
		fmt.Fprintf(b, ".SH %s\n%s", roff(strings.ToUpper(title)), verbatim(rest))
	}
}

// paragraphs writes text with paragraphs separated by empty lines. Indented paragraphs are unchanged.
func paragraphs(text string) string {
	var b strings.Builder
	for i, p := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, " ") {
			b.WriteString(verbatim(p))
			continue
		}
		b.WriteString(roff(p) + "\n")
	}
	return b.String()
}

// verbatim writes lines unchanged, indented once.
func verbatim(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = roff(strings.TrimPrefix(lines[i], "  "))
	}
	return ".RS 2\n.nf\n" + strings.Join(lines, "\n") + "\n.fi\n.RE\n"
}

func quoted(s string) string { return `"` + strings.ReplaceAll(roff(s), `"`, `\(dq`) + `"` }

// roff escapes requests and escape sequences of roff.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
