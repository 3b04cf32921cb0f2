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

// Only are the flags of lists that say which items are wanted. The zero value wants all.
type Only struct {
	Limit int       // the newest so many; 0: all
	Since time.Time // not older
	Agent string    // the agent's id or name
	Cwd   string    // absolute: in this folder or below
}

// Flags of Only, for Register.
const (
	LimitFlag = "limit"
	SinceFlag = "since"
	AgentFlag = "agent"
	CwdFlag   = "cwd"
)

// Register gives a command those of the flags that its list knows. env is the environment.
func (o *Only) Register(cmd *cobra.Command, env func(string) string, names ...string) {
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

// limit is a number that is not negative.
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

// Listed is what Only knows of an item. What is not known, no flag can want.
type Listed struct {
	Time    time.Time
	Agents  []string // by which the agent is called
	Folders []string
}

// Kept returns the items that are wanted of a list, oldest first.
func Kept[T any](o *Only, list []T, of func(T) Listed) []T {
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

// Within reports whether a folder is Cwd or below.
func (o *Only) Within(folder string) bool {
	rel, err := filepath.Rel(o.Cwd, folder)
	return err == nil && filepath.IsLocal(rel)
}

// AgentNames are the words by which people call an agent with an id such as "claude-1".
func AgentNames(id string, others ...string) []string {
	if name, number, ok := strings.Cut(id, "-"); ok && strings.Trim(number, "0123456789") == "" {
		others = append(others, name)
	}
	return append(others, id)
}

// TimeInto takes the value of a flag that is a time; an empty one is none.
func TimeInto(to *time.Time) func(string) error {
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
	return time.Time{}, fmt.Errorf("%q is neither a time (2026-03-01T12:00:00Z, 2026-03-01) nor how long ago (90m, 36h, 7d)", s)
}

// OneOf checks that the value of a flag, if it is not empty, is one of a few words.
func OneOf(cmd *cobra.Command, flag, value string, words ...string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return command.WrongUse(cmd, "--%s: %v", flag, command.Expected(value, words...))
}
