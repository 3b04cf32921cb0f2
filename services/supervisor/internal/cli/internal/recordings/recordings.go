// Package recordings finds the recorded sessions that a command refers to, and the decisions in them, in the configured
// journal and audit log.
package recordings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal/index"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// List returns the recorded sessions for a query, oldest first. configFile is the configuration file; empty means the
// default one.
func List(call *command.Call, configFile string, q index.Query) ([]journal.Session, error) {
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		return nil, err
	}
	dir := c.Effective().GetJournal().GetDir()
	if dir == "" {
		return nil, errors.New("the folder of the journal is unknown: neither XDG_STATE_HOME nor HOME is set; set journal.dir")
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return index.List(dir, q)
}

// Newest returns the id of the session of an agent in a folder with the latest turn. It ignores sessions that are open
// in a supervisor, because agents do not support opening a session twice.
func Newest(call *command.Call, configFile, agent, cwd string) (string, error) {
	all, err := List(call, configFile, index.Query{Agent: agent, Cwd: cwd})
	if err != nil {
		return "", err
	}
	var newest journal.Session
	for _, s := range all {
		if s.Cwd == cwd && s.Turns > 0 && !s.Live && !s.Ended.Before(newest.Ended) {
			newest = s
		}
	}
	if newest.Session == "" {
		return "", fmt.Errorf("no session of %q in %s is recorded that is not open; \"acphost sessions list\" lists all; leave --continue out to begin one", agent, cwd)
	}
	return newest.Session, nil
}

// AuditFile returns the path of the audit. configFile is the same as for List.
func AuditFile(call *command.Call, configFile string) (string, error) {
	c, err := config.Load(configFile, call.Env)
	if err != nil {
		return "", err
	}
	name := c.Effective().GetPermission().GetAudit().GetFile()
	if name == "" {
		return "", errors.New("the file of the audit is unknown: neither XDG_STATE_HOME nor HOME is set; set permission.audit.file")
	}
	return name, nil
}

// Decisions returns the decisions in a session of an agent, oldest first. Without an audit, it returns none. It skips
// lines that cannot be parsed.
func Decisions(call *command.Call, configFile string, f audit.Filter) ([]*supervisorv1.AuditRecord, error) {
	name, err := AuditFile(call, configFile)
	if err != nil {
		return nil, err
	}
	var all []*supervisorv1.AuditRecord
	for r, err := range audit.Read(name, f) {
		if _, bad := errors.AsType[*audit.LineError](err); bad {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// maxCompleted limits the completions to the newest sessions.
const maxCompleted = 200

// CompleteSessions completes the ids of recorded sessions, for an argument or a flag. configFile is the same as for
// List.
func CompleteSessions(call *command.Call, configFile *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, _ := List(call, *configFile, index.Query{}) // without sessions there are no completions
		seen := map[string]bool{}
		for _, s := range slices.Backward(all) {
			if !seen[s.Session] && len(list) < maxCompleted {
				seen[s.Session] = true
				list = output.Completions(list, s.Session, s.Agent+" "+s.Title)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
