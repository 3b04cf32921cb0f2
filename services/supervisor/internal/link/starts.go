package link

import (
	"context"
	"path/filepath"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/kernel"
)

// startsForItself reports whether the agent is known to start a program for itself, with just these arguments and no
// variables that may change what it does. The program then is started as the agent, so that all that it changes and
// starts is decided. It has to be the one that its name led to when the agent was started, where the agent cannot
// change it without being asked.
func (l *Link) startsForItself(ctx context.Context, e *kernelEvent, s intent.Session, start intent.ProgramStart) bool {
	if e.command != nil || start.Cut || !l.opts.Kernel.Mine.Starts(start.Args, s.Unknown(start.Env), l.opts.Sessions.Roots()) {
		return false
	}
	found := programs.Find(start.Args[0], kernel.Variable(l.environ(e), "PATH"), "/")
	return found != "" && paths.Real(found) == e.Path && !l.changesFreely(ctx, filepath.Dir(e.Path), s)
}
