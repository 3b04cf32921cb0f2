package hosting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// RecordingWarnings reports to the user, once for each record, that it cannot be written. Failures with one cause at
// the start of the supervisor are reported in one line. It is safe for concurrent use.
type RecordingWarnings struct {
	Tell func(line string) // must not block

	mu       sync.Mutex
	started  bool
	reported map[host.Record]bool
	early    []failedRecord
}

// failedRecord is a record that cannot be written.
type failedRecord struct {
	what host.Record
	err  error
}

// Watch sets the callback for failures in o. If warnings are logged, the log contains them.
func (u *RecordingWarnings) Watch(o *host.Options) {
	if o.Logger.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	o.Unrecorded = u.failed
}

// failed processes a failure of the supervisor.
func (u *RecordingWarnings) failed(what host.Record, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reported[what] {
		return
	}
	if u.reported == nil {
		u.reported = map[host.Record]bool{}
	}
	u.reported[what] = true
	news := failedRecord{what, err}
	if !u.started {
		u.early = append(u.early, news)
		return
	}
	u.Tell(news.line())
}

// Begun reports the failures at the start of the supervisor, which is now complete.
func (u *RecordingWarnings) Begun() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.started = true
	early := u.early
	u.early = nil
	if len(early) == 2 && sameCause(early[0].err, early[1].err) {
		u.Tell(fmt.Sprintf("neither the session nor what is decided in it is recorded: %s; the turn goes on. %s, or name other places by journal.dir and permission.audit.file",
			cause(early[0].err), whatToDo))
		return
	}
	for _, news := range early {
		u.Tell(news.line())
	}
}

// whatToDo is the usual advice.
const whatToDo = "See that the folder can be written and its disk has room (\"acphost doctor\" looks)"

func (n failedRecord) line() string {
	subject, setting := "the session is not recorded", "journal.dir"
	if n.what == host.RecordDecisions {
		subject, setting = "what is decided is not recorded", "permission.audit.file"
	}
	why := cause(n.err)
	if strings.Contains(why, setting) { // it contains advice
		return fmt.Sprintf("%s: %s; the turn goes on", subject, why)
	}
	return fmt.Sprintf("%s: %s; the turn goes on. %s, or name another place by %s", subject, why, whatToDo, setting)
}

// cause formats an error on a line, without the name of the part of acphost.
func cause(err error) string {
	text := err.Error()
	for _, part := range []string{"journal: ", "audit: "} {
		text = strings.TrimPrefix(text, part)
	}
	return safetext.Line(text)
}

// sameCause reports whether two errors have the same error of the operating system.
func sameCause(a, b error) bool {
	x, ok := errors.AsType[syscall.Errno](a)
	y, also := errors.AsType[syscall.Errno](b)
	return ok && also && x == y
}
