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
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Unrecorded tells a person, once for each record, that it cannot be written. What fails for one cause while the
// supervisor starts is told in one line. Safe for concurrent use.
type Unrecorded struct {
	Tell func(line string) // must not wait

	mu      sync.Mutex
	started bool
	told    map[host.Record]bool
	early   []notRecorded
}

// notRecorded is a record that cannot be written.
type notRecorded struct {
	what host.Record
	err  error
}

// Watch has o tell of records. Where warnings are logged, the log says it.
func (u *Unrecorded) Watch(o *host.Options) {
	if o.Logger.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	o.Unrecorded = u.failed
}

// failed takes the news from the supervisor.
func (u *Unrecorded) failed(what host.Record, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.told[what] {
		return
	}
	if u.told == nil {
		u.told = map[host.Record]bool{}
	}
	u.told[what] = true
	news := notRecorded{what, err}
	if !u.started {
		u.early = append(u.early, news)
		return
	}
	u.Tell(news.line())
}

// Begun tells what came while the supervisor started: it runs now.
func (u *Unrecorded) Begun() {
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

// whatToDo is what helps as a rule.
const whatToDo = "See that the folder can be written and its disk has room (\"acphost doctor\" looks)"

func (n notRecorded) line() string {
	subject, setting := "the session is not recorded", "journal.dir"
	if n.what == host.RecordDecisions {
		subject, setting = "what is decided is not recorded", "permission.audit.file"
	}
	why := cause(n.err)
	if strings.Contains(why, setting) { // it says what to do
		return fmt.Sprintf("%s: %s; the turn goes on", subject, why)
	}
	return fmt.Sprintf("%s: %s; the turn goes on. %s, or name another place by %s", subject, why, whatToDo, setting)
}

// cause is an error on a line, without the name of the part of acphost that it comes from.
func cause(err error) string {
	text := err.Error()
	for _, part := range []string{"journal: ", "audit: "} {
		text = strings.TrimPrefix(text, part)
	}
	return safetext.Line(text)
}

// sameCause reports whether the system gave the same reason for both.
func sameCause(a, b error) bool {
	x, ok := errors.AsType[syscall.Errno](a)
	y, also := errors.AsType[syscall.Errno](b)
	return ok && also && x == y
}
