package cliflag

import (
	"cmp"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

// EnvLog is the environment variable with the log level.
const EnvLog = "ACPHOST_LOG"

// Log contains the flags that configure the log. The zero value is ready.
type Log struct{ Level, Format string }

// Register adds the flags to a command.
func (f *Log) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Level, "log-level", "", "log this `LEVEL` and above: debug, info, warn or error")
	cmd.Flags().StringVar(&f.Format, "log-format", "", "log in this `FORMAT`: text or json")
	Complete(cmd, "log-level", Words("debug", "info", "warn", "error"))
	Complete(cmd, "log-format", Words("text", "json"))
}

// Logger returns a logger that writes to w, and logs the configuration's warnings. Flags have precedence over
// $ACPHOST_LOG, which has precedence over the configuration.
func (f *Log) Logger(cmd *cobra.Command, env func(string) string, w io.Writer, c *config.Config) (*slog.Logger, error) {
	effective := c.Effective().GetLog()
	word := cmp.Or(f.Level, env(EnvLog), effective.GetLevel())
	level, ok := Level(word)
	if !ok {
		source := "--log-level"
		if f.Level == "" {
			source = "$" + EnvLog
		}
		return nil, command.UsageErrorf(cmd, "%s: %v", source, command.Expected(word, "debug", "info", "warn", "error"))
	}
	options := &slog.HandlerOptions{Level: level}
	var logger *slog.Logger
	switch format := cmp.Or(f.Format, effective.GetFormat()); format {
	case "text":
		logger = slog.New(slog.NewTextHandler(w, options))
	case "json":
		logger = slog.New(slog.NewJSONHandler(w, options))
	default:
		return nil, command.UsageErrorf(cmd, "--log-format: %v", command.Expected(format, "text", "json"))
	}
	for _, warning := range c.Warnings {
		logger.Warn(warning)
	}
	return logger, nil
}

// Level returns the log level for a word, and false for an unknown word.
func Level(word string) (slog.Level, bool) {
	level, ok := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[word]
	return level, ok
}
