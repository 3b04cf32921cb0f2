// Package audit is "acphost audit": the record of decisions, printed.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
)

// New returns the command "audit".
func New(call *command.Call) *cobra.Command {
	return command.Group("audit", "Read the record of decisions", `Read the record of what the policy decided, and of what came of it.

The record is a file of JSON lines (permission.audit.file in the configuration),
written before an answer leaves, with secrets redacted. Printed are the time, the
policy's verdict, the outcome, what it was about, the rule, and the agent with who
answered.`,
		newTail(call), newQuery(call))
}

func newTail(call *command.Call) *cobra.Command {
	var number int
	var follow, asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest decisions",
		Long:  `Print the newest decisions, and with -f each further one as it is made.`,
		Example: `  acphost audit tail
  acphost audit tail -n 5 -f
  acphost audit tail -f --json | jq 'select(.outcome == "denied")'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if number < 0 {
				return command.WrongUse(cmd, "-n takes 0 or more, got %d", number)
			}
			name, err := auditFile(call, file)
			if err != nil {
				return err
			}
			if follow {
				return printRecords(call, audit.Follow(cmd.Context(), name, audit.Filter{Limit: number}), asJSON)
			}
			if number == 0 {
				return nil
			}
			return printRecords(call, audit.Read(name, audit.Filter{Limit: number}), asJSON)
		},
	}
	cmd.Flags().IntVarP(&number, "lines", "n", 20, "how many of the newest")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the audit's file")
	return cmd
}

func newQuery(call *command.Call) *cobra.Command {
	var f audit.Filter
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Print the decisions that match",
		Long: `Print the decisions for which every flag holds, oldest first.

A time is RFC 3339 (2026-03-01T12:00:00Z), a day (2026-03-01), or how long ago:
90m, 36h, 7d.`,
		Example: `  acphost audit query --since 1h --outcome denied
  acphost audit query --verdict ask --kind 'fs.*' --limit 50
  acphost audit query --text 'git push' --json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return command.WrongUse(cmd, "--limit takes 0 or more, got %d", f.Limit)
			}
			if _, err := path.Match(f.Kind, ""); err != nil {
				return command.WrongUse(cmd, "--kind: %q is no kind and no glob of kinds", f.Kind)
			}
			name, err := auditFile(call, file)
			if err != nil {
				return err
			}
			return printRecords(call, audit.Read(name, f), asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Func("since", "from this `TIME` on", timeInto(&f.Since))
	flags.Func("until", "before this `TIME`", timeInto(&f.Until))
	flags.StringVar(&f.Session, "session", "", "of the session with this `ID`")
	flags.StringVar(&f.Agent, "agent", "", "of the agent of this `NAME`")
	flags.StringVar(&f.Verdict, "verdict", "", "what the policy said: `allow|deny|ask`")
	flags.StringVar(&f.Outcome, "outcome", "", "what came of it: `allowed|denied|cancelled|...`")
	flags.StringVar(&f.Rule, "rule", "", "decided by the `RULE`")
	flags.StringVar(&f.Door, "door", "", "where it was asked: `request|call|report`")
	flags.StringVar(&f.Kind, "kind", "", "the `KIND` of action, or a glob: 'fs.*'")
	flags.StringVar(&f.Text, "text", "", "with this `TEXT` in command, path, title, rule or reason")
	flags.IntVar(&f.Limit, "limit", 0, "the newest so many; 0: all")
	flags.BoolVar(&asJSON, "json", false, "print JSON lines")
	flags.StringVar(&file, "config", "", "the configuration `FILE`, which may name the audit's file")
	return cmd
}

// timeInto takes the value of a flag that is a time; an empty one is none.
func timeInto(to *time.Time) func(string) error {
	return func(text string) (err error) {
		if text != "" {
			*to, err = parseTime(text, time.Now())
		}
		return err
	}
}

// parseTime reads a time, a day, or how long before now.
func parseTime(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, time.DateTime} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time nor how long ago", s)
}

func auditFile(call *command.Call, configFile string) (string, error) {
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		return "", err
	}
	name := c.Effective().GetPermission().GetAudit().GetFile()
	if name == "" {
		return "", errors.New("where the audit is cannot be told: neither XDG_STATE_HOME nor HOME is set; set permission.audit.file")
	}
	return name, nil
}

// printRecords prints records as they come. A line that cannot be read is complained of.
func printRecords(call *command.Call, records iter.Seq2[*supervisorv1.AuditRecord, error], asJSON bool) error {
	for r, err := range records {
		if _, ok := errors.AsType[*audit.LineError](err); ok {
			call.Complain(err)
			continue
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_, err := fmt.Fprintln(call.Stderr, "no decision is recorded")
			return err
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		}
		line := recordLine(r)
		if asJSON {
			data, err := audit.Line(r)
			if err != nil {
				return err
			}
			line = string(data)
		}
		if _, err := fmt.Fprintln(call.Stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// recordLine is a record for people. The columns have fixed widths, so that lines that come later stand below.
func recordLine(r *supervisorv1.AuditRecord) string {
	at := output.Moment(r.GetTime().AsTime())
	if r.GetNote() != "" {
		return fmt.Sprintf("%s  %s", at, output.Cell("note: "+r.GetNote()))
	}
	who := output.Cell(r.GetAgent())
	if by := r.GetAnsweredBy(); by != "" && by != "policy" {
		who += ", answered by " + output.Cell(by)
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-7s  %-15s  %-50s  %-20s  %s", at, output.Cell(r.GetVerdict()), output.Cell(r.GetOutcome()),
		output.Cell(intent.Summary(r.GetAction())), output.Cell(cmp.Or(r.GetRule(), "no rule")), who), " ")
}
