package hosting

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/host"
)

func TestUnrecorded_ReportsEachErrorOnce(t *testing.T) {
	full := func(part, op string) error { return fmt.Errorf("%s: %s: %w", part, op, syscall.ENOSPC) }
	for name, c := range map[string]struct {
		early, later []failedRecord
		want         []string // what each line has
	}{
		"nothing fails": {},
		"both for one cause at the start": {
			early: []failedRecord{{host.RecordDecisions, full("audit", "mkdir /x")}, {host.RecordSessions, full("journal", "mkdir /x/s")}},
			want:  []string{"neither the session nor what is decided in it is recorded: mkdir /x: no space left on device; the turn goes on"},
		},
		"both for causes of their own": {
			early: []failedRecord{{host.RecordDecisions, full("audit", "mkdir /x")}, {host.RecordSessions, fmt.Errorf("journal: %w", syscall.EACCES)}},
			want:  []string{"what is decided is not recorded: mkdir /x", "the session is not recorded: permission denied; the turn goes on. See"},
		},
		"again and again while it runs": {
			later: []failedRecord{{host.RecordSessions, full("journal", "write a\x1b]")}, {host.RecordSessions, full("journal", "write b")}},
			want:  []string{"journal.dir"},
		},
		"at the start and while it runs": {
			early: []failedRecord{{host.RecordSessions, full("journal", "mkdir /x")}},
			later: []failedRecord{{host.RecordSessions, full("journal", "write b")}},
			want:  []string{"acphost doctor"},
		},
		"an error with advice": {
			later: []failedRecord{{host.RecordDecisions, fmt.Errorf("audit: no room; or set permission.audit.file to another place")}},
			want:  []string{"set permission.audit.file to another place; the turn goes on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			u := &RecordingWarnings{Tell: func(line string) { got = append(got, line) }}
			for _, n := range c.early {
				u.failed(n.what, n.err)
			}
			if got != nil {
				t.Errorf("before the supervisor runs, %q was logged", got)
			}
			u.Begun()
			for _, n := range c.later {
				u.failed(n.what, n.err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%q was logged, want %q", got, c.want)
			}
			for i, line := range got {
				if !strings.Contains(line, c.want[i]) || strings.ContainsAny(line, "\x1b\n") {
					t.Errorf("%q was logged, want %q", line, c.want[i])
				}
			}
		})
	}
}

func TestUnrecorded_SilentIfLogHasWarnings(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelWarn: false, slog.LevelError: true} {
		o := host.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: level}))}
		(&RecordingWarnings{}).Watch(&o)
		if got := o.Unrecorded != nil; got != want {
			t.Errorf("at level %v it is logged: %v, want %v", level, got, want)
		}
	}
}
