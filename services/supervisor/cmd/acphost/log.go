package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// envLog is the environment variable with the log level.
const envLog = "ACPHOST_LOG"

// logFlags are the flags that say what is logged.
type logFlags struct{ level, format string }

func (f *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.level, "log-level", "", "log this `LEVEL` and above: debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", "", "log in this `FORMAT`: text or json")
	complete(cmd, "log-level", words("debug", "info", "warn", "error"))
	complete(cmd, "log-format", words("text", "json"))
}

// logger makes the logger: flags before $ACPHOST_LOG before the configuration before the default.
func (f *logFlags) logger(cmd *cobra.Command, a *app, c *config.Config) (*slog.Logger, error) {
	effective := c.Effective().GetLog()
	word := cmp.Or(f.level, a.env(envLog), effective.GetLevel())
	level, ok := levels()[word]
	if !ok {
		source := "--log-level"
		if f.level == "" {
			source = "$" + envLog
		}
		return nil, wrongUse(cmd, "%s: %v", source, &expected{words: []string{"debug", "info", "warn", "error"}, got: word})
	}
	options := &slog.HandlerOptions{Level: level}
	switch format := cmp.Or(f.format, effective.GetFormat()); format {
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, options)), nil
	default:
		return nil, wrongUse(cmd, "--log-format: %v", &expected{words: []string{"text", "json"}, got: format})
	}
}

func levels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}

// complain prints an error that does not end the command the usual way.
func (a *app) complain(err error) { fmt.Fprintf(a.stderr, "acphost: %v\n", err) }

// expected is an argument that is none of the words it could be.
type expected struct {
	words []string
	got   string
}

func (e *expected) Error() string {
	list := e.words[len(e.words)-1]
	if n := len(e.words); n > 1 {
		list = strings.Join(e.words[:n-1], ", ") + " or " + list
	}
	return fmt.Sprintf("expected %s, got %q", list, e.got)
}

func isControl(c rune) bool { return unicode.IsControl(c) }
