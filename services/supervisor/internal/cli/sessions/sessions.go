// Package sessions implements "acphost sessions": prints sessions from the journal or from a running supervisor.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/recordings"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal/index"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/transcript"
)

// New returns the command "sessions".
func New(call *command.Call) *cobra.Command {
	return command.Group("sessions", "Read recorded sessions, and use sessions of a running \"acphost serve\"",
		`Read recorded sessions, and use sessions of a running "acphost serve".

acphost records each session in a journal, a file of JSON lines with all frames
(journal in the configuration). "list", "show", "watch" and "export" read it, also
after the session has ended. "new", "prompt" and "cancel" use the sessions of a
running "acphost serve".`,
		newList(call), newShow(call), newWatch(call), newExport(call), newNew(call), newPrompt(call), newCancel(call))
}

func newList(call *command.Call) *cobra.Command {
	var q index.Query
	var only cliflag.ListFilter
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, oldest first",
		Long: `List the recorded sessions that match all flags, oldest first. A session that was
loaded again is listed once for each time. --since compares the end of a session, or
the current time if the session is open.`,
		Example: `  acphost sessions list --search 'flaky test'
  acphost sessions list --cwd . --json | jq -r .file`,
		Args: command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			q.Agent, q.Cwd = only.Agent, only.Cwd
			all, err := recordings.List(call, file, q)
			if err != nil {
				return err
			}
			everything := q == index.Query{} && only.Since.IsZero()
			only.Agent, only.Cwd = "", "" // the index has filtered by them
			all = cliflag.Filter(&only, all, func(s journal.Session) cliflag.Listed { return cliflag.Listed{Time: s.Ended} })
			return printSessions(call, withBeginning(call, all), asJSON, everything)
		},
	}
	only.Register(cmd, call.Env, cliflag.AgentFlag, cliflag.CwdFlag, cliflag.SinceFlag, cliflag.LimitFlag)
	flags := cmd.Flags()
	flags.StringVar(&q.Text, "search", "", "with this `TEXT` in the title or in messages")
	flags.BoolVar(&asJSON, "json", false, "print JSON lines")
	flags.StringVar(&file, "config", "", "the configuration `FILE`, which may name the journal's folder")
	return cmd
}

// showFlags configure the output of a session.
type showFlags struct {
	config           string
	asJSON, follow   bool
	verbose, history bool
}

func newShow(call *command.Call) *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print a recorded session",
		Long: `Print a recorded session like "sessions watch": messages, tool calls, changes,
questions and answers; in addition the start and end of turns, requested files, and
the output of commands. ID is the id of a session, a prefix, or the end of its
file's name.`,
		Example: `  acphost sessions show 4f1c --follow
  acphost sessions show 4f1c --json | jq 'select(.method == "session/prompt")'`,
		Args:              oneSession,
		ValidArgsFunction: recordings.CompleteSessions(call, &f.config),
		RunE: func(cmd *cobra.Command, args []string) error {
			parts, err := findSession(call, f.config, args[0])
			if err != nil {
				return err
			}
			return showSession(cmd.Context(), call, parts, &f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.asJSON, "json", false, "print the journal's lines")
	flags.BoolVarP(&f.follow, "follow", "f", false, "continue until interrupted")
	flags.BoolVar(&f.verbose, "verbose", false, "also print calls for terminals, and commands")
	flags.BoolVar(&f.history, "history", false, "include the history that the agent repeated when it loaded the session")
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`, which may name the journal's folder")
	return cmd
}

func newExport(call *command.Call) *cobra.Command {
	var format, out, file string
	var o transcript.PageOptions
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Export a recorded session",
		Long: `Export a session as recorded (ndjson), as Markdown, or as an HTML page without
scripts and external resources.

A page begins with a table of contents. A question precedes the action that it
decided. The rules of decisions are from the audit log ("acphost audit").`,
		Example:           `  acphost sessions export 4f1c --format html --out session.html`,
		Args:              oneSession,
		ValidArgsFunction: recordings.CompleteSessions(call, &file),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := exports[format]
			if !ok {
				return command.UsageErrorf(cmd, "--format: %v", command.Expected(format, "ndjson", "markdown", "html"))
			}
			parts, err := findSession(call, file, args[0])
			if err != nil {
				return err
			}
			return exported(call, out, func(w io.Writer) error { return write(call, w, file, parts, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&format, "format", "markdown", "`ndjson|markdown|html`")
	flags.StringVarP(&out, "out", "o", "", "the `FILE` to write; default: standard output")
	flags.BoolVar(&o.History, "history", false, "include the history that the agent repeated when it loaded the session")
	flags.StringVar(&file, "config", "", "the configuration `FILE`, which may name the journal's folder")
	cliflag.Complete(cmd, "format", cliflag.Words("ndjson", "markdown", "html"))
	return cmd
}

func oneSession(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return command.UsageErrorf(cmd, "%s takes a session's id, or how one begins; \"acphost sessions list\" lists them", cmd.Name())
	}
	return nil
}

// findSession returns the files of one session, oldest first.
func findSession(call *command.Call, configFile, id string) ([]journal.Session, error) {
	all, err := recordings.List(call, configFile, index.Query{Session: id})
	if err != nil {
		return nil, err
	}
	same := func(s journal.Session) bool { return s.Session == id }
	all = reach.Select(all, same, func(journal.Session) bool { return true })
	if len(all) == 0 {
		return nil, fmt.Errorf("no session %q is in the journal; \"acphost sessions list\" lists them", id)
	}
	if all[0].Started.IsZero() && len(all) == 1 {
		return nil, fmt.Errorf("%s has no whole line: nothing is recorded in it", all[0].File)
	}
	for _, s := range all[1:] {
		if s.Session != all[0].Session || s.Agent != all[0].Agent || s.Cwd != all[0].Cwd {
			var b strings.Builder
			for _, s := range all[:min(len(all), 20)] {
				fmt.Fprintf(&b, "\n  %s  %s  %s  %s", fileKey(s.File), output.Cell(s.Session), output.Cell(s.Agent), output.Cell(s.Cwd))
			}
			return nil, fmt.Errorf("%q may be any of several sessions; say more of the id, or take the key that stands first:%s", id, b.String())
		}
	}
	return all, nil
}

// fileKey returns the end of a file's name, which is unique.
func fileKey(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".ndjson")
	return name[strings.LastIndexByte(name, '-')+1:]
}

// withBeginning removes recordings without their first line, which do not identify their session, and reports their
// number.
func withBeginning(call *command.Call, all []journal.Session) []journal.Session {
	n := len(all)
	all = slices.DeleteFunc(all, func(s journal.Session) bool { return s.Session == "" })
	if n -= len(all); n > 0 {
		call.Notice("%s left out, which have no beginning: the disk was full, or acphost was killed, when they began", safetext.Count(n, "recording"))
	}
	return all
}

func printSessions(call *command.Call, all []journal.Session, asJSON, everything bool) error {
	if asJSON {
		for _, s := range all {
			line, err := json.Marshal(s)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(call.Stdout, safetext.JSON(line)); err != nil {
				return err
			}
		}
		return nil
	}
	none := "no session is in the journal"
	if !everything {
		none = "no session in the journal is like that"
	}
	t := output.NewTable(none, "STARTED", "KEY", "SESSION", "AGENT", "TURNS", "SIZE", "STATE", "TITLE").Long("TITLE").Spare("SIZE", "SESSION", "TURNS")
	for _, s := range all {
		state := output.Faint("ended")
		switch {
		case s.Live && s.Lost > 0:
			state = output.Warn(fmt.Sprintf("live, lacks %d frames", s.Lost))
		case s.Lost > 0:
			state = output.Warn(fmt.Sprintf("ended, lacks %d frames", s.Lost))
		case s.Live:
			state = output.Good("live")
		}
		t.Add(s.Started, fileKey(s.File), output.Short(s.Session, 40), output.Short(s.Agent, 20), s.Turns, output.Size(s.Bytes), state, output.Short(s.Title, 60))
	}
	return output.PrintTable(call, t)
}

// showSession prints a session from the journal. Its lines are escaped.
func showSession(ctx context.Context, call *command.Call, parts []journal.Session, f *showFlags) error {
	if f.asJSON {
		return eachLine(ctx, parts, f.follow, call.PrintError, func(line []byte) error {
			_, err := fmt.Fprintln(call.Stdout, safetext.JSON(line))
			return err
		})
	}
	look := output.RenderOptions(call, parts[0].Cwd, f.verbose, false)
	look.History = f.history
	text := transcript.NewText(call.Stdout, look)
	if f.follow {
		return transcript.Follow(ctx, parts, call.PrintError, text.Write)
	}
	return errors.Join(transcript.Read(parts, call.PrintError, text.Write), text.Close())
}

// eachLine passes the lines of the journal to do, and reports those that cannot be parsed. With follow it continues
// after the last line until ctx ends.
func eachLine(ctx context.Context, parts []journal.Session, follow bool, complain func(error), do func(line []byte) error) error {
	for i, part := range parts {
		entries := journal.Read(part.File)
		if follow && i == len(parts)-1 {
			entries = journal.Follow(ctx, part.File)
		}
		for e, err := range entries {
			if _, ok := errors.AsType[*journal.LineError](err); ok {
				complain(err)
				continue
			}
			if err == nil {
				err = do(e.Raw)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// exporter writes a session in a format.
type exporter func(call *command.Call, w io.Writer, configFile string, parts []journal.Session, o transcript.PageOptions) error

// exports are the formats of an export.
var exports = map[string]exporter{
	"ndjson":   copyLines,
	"markdown": page(transcript.NewMarkdown),
	"html":     page(transcript.NewHTML),
}

// copyLines writes the lines of the journal unchanged.
func copyLines(_ *command.Call, w io.Writer, _ string, parts []journal.Session, _ transcript.PageOptions) error {
	return eachLine(context.Background(), parts, false, func(error) {}, func(line []byte) error {
		_, err := w.Write(append(line, '\n'))
		return err
	})
}

// Export writes a session from the journal, in the format of the file's extension.
func Export(call *command.Call, configFile, id, file string) error {
	format, ok := map[string]string{
		".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".ndjson": "ndjson", ".jsonl": "ndjson",
	}[filepath.Ext(file)]
	if !ok {
		return fmt.Errorf("%s: expected a name that ends with .md, .html or .ndjson", file)
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s is there already", file)
	}
	parts, err := findSession(call, configFile, id)
	if err != nil {
		return err
	}
	return exported(call, file, func(w io.Writer) error {
		return exports[format](call, w, configFile, parts, transcript.PageOptions{})
	})
}

// page reads a session twice: for the head of its page, then for the page. It adds the decisions in the audit.
func page(begin func(io.Writer, *transcript.Summary, transcript.PageOptions) (*transcript.Page, error)) exporter {
	return func(call *command.Call, w io.Writer, configFile string, parts []journal.Session, o transcript.PageOptions) error {
		var sum transcript.Summary
		if err := transcript.Read(parts, call.PrintError, sum.Add); err != nil {
			return err
		}
		if id := parts[0].Session; id != "" {
			decided, err := recordings.Decisions(call, configFile, audit.Filter{Session: id, Agent: parts[0].Agent, Since: sum.First, Until: sum.Last.Add(transcript.LateDecision)})
			if err != nil {
				return fmt.Errorf("the decisions: %w", err)
			}
			for _, r := range decided {
				o.Decisions = append(o.Decisions, transcript.Decision{AuditRecord: r, What: intent.Summary(r.GetAction())})
			}
		}
		page, err := begin(w, &sum, o)
		if err != nil {
			return err
		}
		if err := transcript.Read(parts, nil, page.Write); err != nil {
			return err
		}
		return page.Close()
	}
}

// exported calls write with a new file that appears only when it is complete, or with standard output.
func exported(call *command.Call, name string, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		return write(call.Stdout)
	}
	return ownfile.Write(name, true, write)
}
