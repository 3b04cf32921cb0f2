package main

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
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read the record of decisions",
		Long: `Read the record of what the policy decided, and of what came of it.

The record is a file of JSON lines (permission.audit.file in the configuration),
written before an answer leaves, with secrets redacted. Printed are the time, the
policy's verdict, the outcome, what it was about, the rule, and the agent with who
answered.`,
		Args: commandNeeded,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.auditTailCommand(), a.auditQueryCommand())
	return cmd
}

func (a *app) auditTailCommand() *cobra.Command {
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if number < 0 {
				return wrongUse(cmd, "-n takes 0 or more, got %d", number)
			}
			name, err := a.auditFile(file)
			if err != nil {
				return err
			}
			if follow {
				return a.printRecords(audit.Follow(cmd.Context(), name, audit.Filter{Limit: number}), asJSON)
			}
			if number == 0 {
				return nil
			}
			return a.printRecords(audit.Read(name, audit.Filter{Limit: number}), asJSON)
		},
	}
	cmd.Flags().IntVarP(&number, "lines", "n", 20, "how many of the newest")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the audit's file")
	return cmd
}

func (a *app) auditQueryCommand() *cobra.Command {
	var f audit.Filter
	var since, until, file string
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, at := range map[string]struct {
				text string
				to   *time.Time
			}{"since": {since, &f.Since}, "until": {until, &f.Until}} {
				if at.text == "" {
					continue
				}
				t, err := parseTime(at.text, time.Now())
				if err != nil {
					return wrongUse(cmd, "--%s: %v", flag, err)
				}
				*at.to = t
			}
			if f.Limit < 0 {
				return wrongUse(cmd, "--limit takes 0 or more, got %d", f.Limit)
			}
			if _, err := path.Match(f.Kind, ""); err != nil {
				return wrongUse(cmd, "--kind: %q is no kind and no glob of kinds", f.Kind)
			}
			name, err := a.auditFile(file)
			if err != nil {
				return err
			}
			return a.printRecords(audit.Read(name, f), asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "from this `TIME` on")
	flags.StringVar(&until, "until", "", "before this `TIME`")
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

func (a *app) auditFile(configFile string) (string, error) {
	c, err := config.Load(configFile, a.env)
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
func (a *app) printRecords(records iter.Seq2[*supervisorv1.AuditRecord, error], asJSON bool) error {
	for r, err := range records {
		if _, ok := errors.AsType[*audit.LineError](err); ok {
			a.complain(err)
			continue
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_, err := fmt.Fprintln(a.stderr, "no decision is recorded")
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
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

// recordLine is a record for people. The columns have fixed widths, so that lines that come later stand below.
func recordLine(r *supervisorv1.AuditRecord) string {
	at := r.GetTime().AsTime().Local().Format(time.DateTime)
	if r.GetNote() != "" {
		return fmt.Sprintf("%s  %s", at, cell("note: "+r.GetNote()))
	}
	who := cell(r.GetAgent())
	if by := r.GetAnsweredBy(); by != "" && by != "policy" {
		who += ", answered by " + cell(by)
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-7s  %-15s  %-50s  %-20s  %s", at, cell(r.GetVerdict()), cell(r.GetOutcome()),
		cell(intent.Summary(r.GetAction())), cell(cmp.Or(r.GetRule(), "no rule")), who), " ")
}
