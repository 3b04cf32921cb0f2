package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

func TestARecordThatCannotBeWrittenIsToldOnceInALine(t *testing.T) {
	full := func(part, op string) error { return fmt.Errorf("%s: %s: %w", part, op, syscall.ENOSPC) }
	for name, c := range map[string]struct {
		early, later []notRecorded
		want         []string // what each line has
	}{
		"nothing fails": {},
		"both for one cause at the start": {
			early: []notRecorded{{host.RecordDecisions, full("audit", "mkdir /x")}, {host.RecordSessions, full("journal", "mkdir /x/s")}},
			want:  []string{"neither the session nor what is decided in it is recorded: mkdir /x: no space left on device; the turn goes on"},
		},
		"both for causes of their own": {
			early: []notRecorded{{host.RecordDecisions, full("audit", "mkdir /x")}, {host.RecordSessions, fmt.Errorf("journal: %w", syscall.EACCES)}},
			want:  []string{"what is decided is not recorded: mkdir /x", "the session is not recorded: permission denied; the turn goes on. See"},
		},
		"again and again while it runs": {
			later: []notRecorded{{host.RecordSessions, full("journal", "write a\x1b]")}, {host.RecordSessions, full("journal", "write b")}},
			want:  []string{"journal.dir"},
		},
		"at the start and while it runs": {
			early: []notRecorded{{host.RecordSessions, full("journal", "mkdir /x")}},
			later: []notRecorded{{host.RecordSessions, full("journal", "write b")}},
			want:  []string{"acphost doctor"},
		},
		"an error that says what to do": {
			later: []notRecorded{{host.RecordDecisions, fmt.Errorf("audit: no room; or set permission.audit.file to another place")}},
			want:  []string{"set permission.audit.file to another place; the turn goes on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			u := &unrecorded{tell: func(line string) { got = append(got, line) }}
			for _, n := range c.early {
				u.failed(n.what, n.err)
			}
			if got != nil {
				t.Errorf("before the supervisor runs, %q was told", got)
			}
			u.begun()
			for _, n := range c.later {
				u.failed(n.what, n.err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%q was told, want %q", got, c.want)
			}
			for i, line := range got {
				if !strings.Contains(line, c.want[i]) || strings.ContainsAny(line, "\x1b\n") {
					t.Errorf("%q was told, want %q", line, c.want[i])
				}
			}
		})
	}
}

func TestWhereTheLogHasWarningsNobodyElseTellsOfRecords(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelWarn: false, slog.LevelError: true} {
		o := host.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: level}))}
		(&unrecorded{}).watch(&o)
		if got := o.Unrecorded != nil; got != want {
			t.Errorf("at level %v it is told: %v, want %v", level, got, want)
		}
	}
}

func TestAPromptTellsOfItsRecordWhileItRunsAndAfterwards(t *testing.T) {
	r := newRun(t, false)
	unsaid := make(chan string, 4)
	r.unsaid = unsaid
	unsaid <- "not recorded: a\x1b[2J"
	r.fake.turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
		send(&supervisorv1.Event{Event: &supervisorv1.Event_TurnEnded{TurnEnded: &supervisorv1.TurnEnded{StopReason: "end_turn"}}})
		return nil
	}
	late := &lateNews{fakeSupervisor: r.fake, unsaid: unsaid}
	r.start = func(context.Context) (headless, error) { return late, nil }
	r.begin(t)
	if got := r.wait(t); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
	errs := r.errs.String()
	if !strings.Contains(errs, "acphost: not recorded: a") || !strings.HasSuffix(errs, "acphost: not recorded: b\n") || strings.Contains(errs, "\x1b") {
		t.Errorf("standard error is %q", errs)
	}
}

// lateNews is a supervisor that finds out when it is closed.
type lateNews struct {
	*fakeSupervisor
	unsaid chan<- string
}

func (l *lateNews) Close() {
	l.fakeSupervisor.Close()
	l.unsaid <- "not recorded: b"
}
