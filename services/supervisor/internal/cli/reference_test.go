package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// docs is the folder of the documentation.
const docs = "../../../../docs"

// The reference of the command line is made of what --help prints: "make reference" writes it anew.
func TestReference_HasAllCommands(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Reference: command line\n\nMade from `acphost --help` by `make reference`. A flag's value is in capitals.\n")
	fmt.Fprintf(&b, "\nUnless a command says otherwise:\n\n```text\n%s\n```\n", strings.Trim(command.ExitStatus, "\n"))
	var write func(cmd *cobra.Command)
	write = func(cmd *cobra.Command) {
		if cmd.Hidden || !cmd.IsAvailableCommand() && cmd.HasParent() || cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n\n%s\n", cmd.CommandPath(), cmd.UseLine(), markdown(cmp.Or(cmd.Long, cmd.Short+".")))
		head := "\n| flag | |\n|---|---|\n"
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			fmt.Fprintf(&b, "%s| `%s` | %s |\n", head, strings.TrimSpace(name+" "+value), strings.ReplaceAll(html(usage), "|", `\|`))
			head = ""
		})
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", outdented(cmd.Example))
		}
		if more := strings.Trim(strings.Replace(cmd.Annotations[command.Sections], command.ExitStatus, "", 1), "\n"); more != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", more)
		}
		for _, c := range cmd.Commands() {
			write(c)
		}
	}
	write(newRoot(&command.Call{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: func(string) string { return "" }}, programs{}))
	testkit.Golden(t, "../"+docs+"/reference-command-line.md", b.String())
}

// markdown is the text of --help as Markdown, with indented paragraphs unchanged.
func markdown(text string) string {
	parts := strings.Split(strings.Trim(text, "\n"), "\n\n")
	for i, p := range parts {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n  ") {
			parts[i] = "```text\n" + p + "\n```"
		} else {
			parts[i] = html(p)
		}
	}
	return strings.Join(parts, "\n\n")
}

// html is a text in which nothing is taken for markup.
func html(text string) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`).Replace(text)
}

func outdented(text string) string {
	return regexp.MustCompile(`(?m)^  `).ReplaceAllString(text, "")
}

// called is a line of the documentation that calls acphost.
var called = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S* )*acphost (.*)$`)

// The commands and flags in the documentation exist.
func TestDocs_CommandsAndFlagsExist(t *testing.T) {
	pages, err := filepath.Glob(docs + "/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%q, %v", pages, err)
	}
	count := 0
	for _, page := range append(pages, docs+"/../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				m := called.FindStringSubmatch(strings.TrimSpace(line))
				if m == nil {
					continue
				}
				count++
				if err := parses(words(m[1])); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), strings.TrimSpace(line), err)
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("only %d lines were looked at", count)
	}
}

// words are a line's words up to a comment, a pipe, a redirection or another command.
func words(line string) (all []string) {
	for _, m := range regexp.MustCompile(`"([^"]*)"|'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		if strings.HasPrefix(m[3], "#") || strings.HasPrefix(m[3], "|") || strings.HasPrefix(m[3], ">") || strings.HasPrefix(m[3], "&") || strings.HasPrefix(m[3], ";") {
			break
		}
		all = append(all, strings.TrimSuffix(m[1]+m[2]+m[3], ")"))
	}
	return all
}

func parses(args []string) error {
	root := newRoot(&command.Call{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: func(string) string { return "" }}, programs{})
	root.InitDefaultHelpFlag()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("there is no command %q", rest[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return cmd.ParseFlags(rest)
}
