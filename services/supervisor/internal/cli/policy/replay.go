package policy

import (
	"context"
	"fmt"
	"iter"
	"os"

	"github.com/spf13/cobra"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/permd"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

func newReplay(call *command.Call, start permd.Starter) *cobra.Command {
	var policy, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay --policy NEW [AUDITFILE...]",
		Short: "Decide recorded actions by another rule file",
		Long: `Decide every action in the audit log by another rule file, and list the decisions
that would differ. Without AUDITFILE, the configured audit log is read, with its
rotated files.

Only the rule file applies, without answers of users and without the administrator's
rules. Decisions by an answer to an earlier attempt, or by one of acphost's own
rules (acphost/…), are omitted and counted. Secrets are redacted in the audit log,
so a rule about a secret may not match.`,
		Example: `  acphost policy replay --policy ./new.yaml
  acphost policy replay --policy headless ~/.local/state/acphost/audit.jsonl --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if policy == "" {
				return command.UsageErrorf(cmd, "--policy is missing")
			}
			if len(args) == 0 {
				c, err := config.Load(file, call.Env)
				if err != nil {
					return err
				}
				record := c.Effective().GetPermission().GetAudit().GetFile()
				if record == "" {
					return fmt.Errorf("there is no record of decisions to read: neither the configuration nor $HOME determines its file")
				}
				args = []string{record}
			}
			return permd.With(cmd.Context(), call, start, func(service permissionv1.PolicyServiceClient) error {
				return replay(cmd.Context(), call, service, policy, args, asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&policy, "policy", "", "decide by this rule `FILE`, or ready-made policy")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.Flags().StringVar(&file, "config", "", "the configuration `FILE`, which may name the record")
	return cmd
}

func replay(ctx context.Context, call *command.Call, service permissionv1.PolicyServiceClient, policy string, records []string, asJSON bool) error {
	for _, name := range records { // before any decision, because a misspelled name is not an empty record
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	file, err := policytool.ReadPolicy(ctx, service, policy, call.Stdin, permissionv1.Layer_LAYER_USER)
	if err != nil {
		return err
	}
	if ok, err := loads(ctx, call, service, file); err != nil || !ok {
		return err
	}
	r, err := policytool.Replay(ctx, service, file, readRecords(records), 0)
	if err != nil {
		return err
	}
	for i, err := range r.Unread {
		if i == 3 {
			fmt.Fprintf(call.Stderr, "and %d more\n", len(r.Unread)-i)
			break
		}
		fmt.Fprintf(call.Stderr, "left out: %v\n", err)
	}
	return printed(call, asJSON, r)
}

// readRecords reads several records one after another.
func readRecords(files []string) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		for _, file := range files {
			for record, err := range audit.Read(file, audit.Filter{}) {
				if !yield(record, err) {
					return
				}
			}
		}
	}
}
