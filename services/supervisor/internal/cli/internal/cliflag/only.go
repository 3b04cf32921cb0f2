package cliflag

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// ListFilter contains the flags that filter a list. The zero value selects all items.
type ListFilter struct {
	Limit int       // number of the newest items; 0: all
	Since time.Time // the oldest time
	Agent string    // the agent's id or name
	Cwd   string    // absolute: items in this folder
}

// The flags of Only, for Register.
const (
	LimitFlag = "limit"
	SinceFlag = "since"
	AgentFlag = "agent"
	CwdFlag   = "cwd"
)

// Register adds the flags that a list supports to a command. env looks up environment variables.
func (o *ListFilter) Register(cmd *cobra.Command, env func(string) string, names ...string) {
	for _, name := range names {
		switch name {
		case LimitFlag:
			cmd.Flags().Var(limit{&o.Limit}, name, "the newest `NUMBER`; 0: all")
			Complete(cmd, name, Words("10", "50", "100"))
		case SinceFlag:
			cmd.Flags().Func(name, "from this `TIME` on: 90m, 36h, 7d, 2026-03-01, 2026-03-01T12:00:00Z", TimeInto(&o.Since))
			Complete(cmd, name, Words("1h", "24h", "7d", "30d"))
		case AgentFlag:
			cmd.Flags().StringVar(&o.Agent, name, "", "of the `AGENT` with this name or id")
			Complete(cmd, name, Agents(env))
		case CwdFlag:
			cmd.Flags().Func(name, "in this `FOLDER` or below", func(text string) (err error) {
				if o.Cwd = ""; text != "" {
					o.Cwd, err = filepath.Abs(text)
				}
				return err
			})
			Complete(cmd, name, Folders)
		}
	}
}

// Folders completes a flag with folders.
func Folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// limit is the value of a flag for a number that is not negative.
type limit struct{ n *int }

func (l limit) String() string {
	if l.n == nil {
		return "0"
	}
	return strconv.Itoa(*l.n)
}

func (l limit) Type() string { return "NUMBER" }

func (l limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("expected 0 or more")
	}
	*l.n = n
	return nil
}

// Listed contains the properties of an item that Only compares. An item without a property is not selected by its flag.
type Listed struct {
	Time    time.Time
	Agents  []string // names and ids of the agent
	Folders []string
}

// Filter returns the selected items of a list, oldest first.
func Filter[T any](o *ListFilter, list []T, of func(T) Listed) []T {
	kept := slices.DeleteFunc(slices.Clone(list), func(item T) bool {
		at := of(item)
		return !o.Since.IsZero() && at.Time.Before(o.Since) || o.Agent != "" && !slices.Contains(at.Agents, o.Agent) ||
			o.Cwd != "" && !slices.ContainsFunc(at.Folders, o.Within)
	})
	if o.Limit > 0 && len(kept) > o.Limit {
		kept = kept[len(kept)-o.Limit:]
	}
	return kept
}

// Within reports whether a folder is Cwd or below it.
func (o *ListFilter) Within(folder string) bool {
	rel, err := filepath.Rel(o.Cwd, folder)
	return err == nil && filepath.IsLocal(rel)
}

// AgentNames returns the names that select an agent with an id such as "claude-1".
func AgentNames(id string, others ...string) []string {
	if name, number, ok := strings.Cut(id, "-"); ok && strings.Trim(number, "0123456789") == "" {
		others = append(others, name)
	}
	return append(others, id)
}

// TimeInto returns a function that parses a flag's value as a time. An empty value is the zero time.
func TimeInto(to *time.Time) func(string) error {
	return func(text string) (err error) {
		if text != "" {
			*to, err = parseTime(text, time.Now())
		}
		return err
	}
}

// parseTime parses a time, a day, or a duration before now.
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
	return time.Time{}, fmt.Errorf("%q is neither a time (2026-03-01T12:00:00Z, 2026-03-01) nor how long ago (90m, 36h, 7d)", s)
}

// OneOf returns an error unless the value of a flag is empty or one of a few words.
func OneOf(cmd *cobra.Command, flag, value string, words ...string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return command.UsageErrorf(cmd, "--%s: %v", flag, command.Expected(value, words...))
}
