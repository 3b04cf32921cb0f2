// Package audit implements "acphost audit": prints the record of decisions.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/recordings"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// New returns the command "audit".
func New(call *command.Call) *cobra.Command {
	return command.Group("audit", "Read the audit log",
		`Read the audit log: the decisions of the policy and their outcomes.

The audit log is a file of JSON lines (permission.audit.file in the configuration),
with secrets redacted. acphost writes a decision before it sends the answer. These
commands print the time, the policy's verdict, the outcome, the action, the point of
the decision (DOOR), the rule, the agent, and the source of the answer (BY).

DOOR is request (a permission request of the agent), call (a call of the agent to
its client), kernel (an action of a process in the sandbox), or report (an action
that the agent reported afterwards). BY is policy; acphost (its own rule, or no user
could be asked); front, the user at the client; the name of a caller; grant, a
remembered answer; earlier answer, an answer of the same session; command (the
answer about an allowed command covers the action); "nobody in time" (no user was
available or answered in time; in JSON "timeout"); or nobody (the agent did not
ask).`,
		newTail(call), newQuery(call))
}

func newTail(call *command.Call) *cobra.Command {
	var number int
	var follow, asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest decisions",
		Long:  `Print the newest decisions, and with -f also new ones.`,
		Example: `  acphost audit tail
  acphost audit tail -n 5 -f
  acphost audit tail -f --json | jq 'select(.outcome == "denied")'`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if number < 0 {
				return command.UsageErrorf(cmd, "-n takes 0 or more, got %d", number)
			}
			name, err := recordings.AuditFile(call, file)
			if err != nil {
				return err
			}
			if follow {
				return printRecords(call, audit.Follow(cmd.Context(), name, audit.Filter{Limit: number}), noRecord, asJSON, true)
			}
			if number == 0 {
				return nil
			}
			return printRecords(call, audit.Read(name, audit.Filter{Limit: number}), noRecord, asJSON, false)
		},
	}
	cmd.Flags().IntVarP(&number, "lines", "n", 20, "the number of decisions")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the audit's file")
	return cmd
}

func newQuery(call *command.Call) *cobra.Command {
	var f audit.Filter
	var only cliflag.ListFilter
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Print the decisions that match",
		Long: `Print the decisions that match all flags, oldest first.

A time is RFC 3339 (2026-03-01T12:00:00Z), a day (2026-03-01), or a duration before
now: 90m, 36h, 7d.`,
		Example: `  acphost audit query --since 1h --outcome denied
  acphost audit query --verdict ask --kind 'fs.*' --limit 50
  acphost audit query --text 'git push' --json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, word := range []struct {
				flag, value string
				words       []string
			}{{"verdict", f.Verdict, verdicts}, {"outcome", f.Outcome, outcomes}, {"door", f.Door, doors}} {
				if err := cliflag.OneOf(cmd, word.flag, word.value, word.words...); err != nil {
					return err
				}
			}
			f.Since, f.Agent, f.Limit, f.Cwd = only.Since, only.Agent, only.Limit, only.Cwd
			if _, err := path.Match(f.Kind, ""); err != nil {
				return command.UsageErrorf(cmd, "--kind: %q is no kind and no glob of kinds", f.Kind)
			}
			name, err := recordings.AuditFile(call, file)
			if err != nil {
				return err
			}
			return printRecords(call, audit.Read(name, f), "no recorded decision matches", asJSON, false)
		},
	}
	only.Register(cmd, call.Env, cliflag.SinceFlag, cliflag.AgentFlag, cliflag.CwdFlag, cliflag.LimitFlag)
	flags := cmd.Flags()
	flags.Func("until", "before this `TIME`", cliflag.TimeInto(&f.Until))
	flags.StringVar(&f.Session, "session", "", "of the session with this `ID`")
	flags.StringVar(&f.Verdict, "verdict", "", "the policy's verdict: `allow|deny|ask`")
	flags.StringVar(&f.Outcome, "outcome", "", "the outcome: `allowed|denied|cancelled|...`")
	flags.StringVar(&f.Rule, "rule", "", "decided by the `RULE`")
	flags.StringVar(&f.Door, "door", "", "the point of the decision: `request|call|kernel|report`")
	flags.StringVar(&f.Kind, "kind", "", "the `KIND` of action, or a glob: 'fs.*'")
	flags.StringVar(&f.Text, "text", "", "with this `TEXT` in command, path, title, rule or reason")
	flags.BoolVar(&asJSON, "json", false, "print JSON lines")
	flags.StringVar(&file, "config", "", "the configuration `FILE`, which may name the audit's file")
	cliflag.Complete(cmd, "verdict", cliflag.Words(verdicts...))
	cliflag.Complete(cmd, "outcome", cliflag.Words(outcomes...))
	cliflag.Complete(cmd, "door", cliflag.Words(doors...))
	cliflag.Complete(cmd, "kind", cliflag.Words(kinds...))
	cliflag.Complete(cmd, "until", cliflag.Words("1h", "24h", "7d"))
	cliflag.Complete(cmd, "session", recordings.CompleteSessions(call, &file))
	cliflag.Complete(cmd, "rule", completeRules(call, &file))
	return cmd
}

// The values in records, for completion and for errors about misspelled ones.
var (
	verdicts = []string{"allow", "deny", "ask"}
	outcomes = []string{"allowed", "denied", "cancelled", "left to the call", "refused, then allowed", "done, not asked", "refused, not prevented"}
	doors    = []string{"request", "call", "kernel", "report"}
	kinds    = []string{"fs.read", "fs.write", "fs.list", "terminal.create", "tool.read", "tool.edit", "tool.delete", "tool.move", "tool.search", "tool.execute", "tool.fetch", "elicitation", "fs.*", "tool.*"}
)

// completeRules completes the ids of rules with recent decisions.
func completeRules(call *command.Call, file *string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
		// without records there are no completions
		records, _ := recordings.Decisions(call, *file, audit.Filter{Limit: 1000})
		seen := map[string]bool{}
		for _, r := range records {
			if rule := r.GetRule(); !seen[rule] {
				seen[rule] = true
				list = output.Completions(list, rule, r.GetReason())
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// noRecord is printed for an audit without records.
const noRecord = "no decision is recorded"

// printRecords prints records one by one, and none if there are none. It reports lines that cannot be parsed. follow
// means that more records will follow.
func printRecords(call *command.Call, records iter.Seq2[*supervisorv1.AuditRecord, error], none string, asJSON, follow bool) error {
	var t *output.Table
	if !asJSON && !follow {
		t = output.NewTable(none, "TIME", "VERDICT", "OUTCOME", "WHAT", "DOOR", "RULE", "AGENT", "BY").Long("WHAT", "RULE").Spare("BY", "AGENT", "DOOR")
	}
	out := output.NewPager(call)
	for r, err := range records {
		if _, ok := errors.AsType[*audit.LineError](err); ok {
			call.PrintError(err)
			continue
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_, err := fmt.Fprintln(call.Stderr, noRecord)
			return err
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		}
		switch {
		case t != nil:
			addRecord(t, r)
			continue
		case follow && !asJSON:
			if _, err := fmt.Fprintln(call.Stdout, recordLine(call, r)); err != nil {
				return err
			}
			continue
		}
		data, err := audit.Line(r)
		if err != nil {
			return err
		}
		if follow {
			_, err = fmt.Fprintln(call.Stdout, string(data))
		} else {
			_, err = fmt.Fprintln(out, string(data))
		}
		if errors.Is(err, output.ErrQuit) {
			break
		}
		if err != nil {
			return err
		}
	}
	if t != nil {
		return output.PrintTable(call, t)
	}
	return out.Close()
}

// addRecord adds a record to a table.
func addRecord(t *output.Table, r *supervisorv1.AuditRecord) {
	if r.GetNote() != "" {
		t.Add(r.GetTime().AsTime(), "note", "", r.GetNote(), "", "", "", "")
		return
	}
	rule := any(r.GetRule())
	if r.GetRule() == "" {
		rule = output.Faint("no rule")
	}
	t.Add(r.GetTime().AsTime(), r.GetVerdict(), outcomeWord(r.GetOutcome()), summary(r), r.GetDoor(), rule, r.GetAgent(), answeredBy(r))
}

// answeredBy returns the name of the client that answered. It is "timeout" if no user answered in time, or none was
// present.
func answeredBy(r *supervisorv1.AuditRecord) string {
	if by := r.GetAnsweredBy(); by != "timeout" {
		return by
	}
	return "nobody in time"
}

// summary describes the subject of a record, and for a count the number of repetitions: the first one has its own
// record.
func summary(r *supervisorv1.AuditRecord) string {
	what := intent.Summary(r.GetAction())
	if n := r.GetRepeats(); n > 0 {
		what = fmt.Sprintf("%d more like: %s", n, what)
	}
	return what
}

func outcomeWord(outcome string) output.Word {
	switch outcome {
	case "allowed":
		return output.Good(outcome)
	case "cancelled", "left to the call":
		return output.Faint(outcome)
	case "denied":
		return output.Bad(outcome)
	}
	return output.Warn(outcome)
}

// recordLine formats a record for a user who follows the audit. The columns have fixed widths, because later records
// are unknown.
func recordLine(call *command.Call, r *supervisorv1.AuditRecord) string {
	at := output.Moment(r.GetTime().AsTime())
	line := fmt.Sprintf("%s  %s", at, output.Cell("note: "+r.GetNote()))
	if r.GetNote() == "" {
		agent := output.Cell(r.GetAgent())
		if by := answeredBy(r); by != "" && by != "policy" {
			agent += ", answered by " + output.Cell(by)
		}
		line = strings.TrimRight(fmt.Sprintf("%s  %-7s  %-15s  %-50s  %-7s  %-20s  %s", at, output.Cell(r.GetVerdict()), output.Cell(r.GetOutcome()),
			output.Cell(summary(r)), output.Cell(r.GetDoor()), output.Cell(cmp.Or(r.GetRule(), "no rule")), agent), " ")
	}
	if call.Terminal(call.Stdout) {
		line = safetext.Fit(line, output.Width(call))
	}
	return line
}
