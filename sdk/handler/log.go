package handler

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/acphost/acphost/sdk/internal/wire"
)

// Logger returns a logger to stderr: as text in a sidecar, and as JSON in a child, because its supervisor parses it,
// unless --log-format selects the format. The level is --log-level, else $ACPHOST_LOG, else info. Main uses the same
// logger.
func Logger() *slog.Logger {
	o := parseArgs(os.Args[1:])
	return newLogger(stderr{}, o, os.Getenv)
}

func newLogger(w io.Writer, o options, env func(string) string) *slog.Logger {
	name := o.logLevel
	if name == "" {
		name = env(wire.LogEnv)
	}
	var level slog.Level // info
	_ = level.UnmarshalText([]byte(strings.ToLower(name)))
	settings := &slog.HandlerOptions{Level: level}
	if o.logFormat == "json" || (o.logFormat == "" && o.listen == "") {
		return slog.New(slog.NewJSONHandler(w, settings))
	}
	return slog.New(slog.NewTextHandler(w, settings))
}

// stderr writes to file descriptor 2. Once go-plugin serves, os.Stderr is redirected through the connection, and the
// last output of a handler would be lost.
type stderr struct{}

func (stderr) Write(p []byte) (int, error) {
	var done int
	for done < len(p) {
		n, err := syscall.Write(syscall.Stderr, p[done:])
		if n > 0 {
			done += n
		}
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return done, os.NewSyscallError("write", err)
		}
	}
	return done, nil
}
