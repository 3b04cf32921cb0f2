package host

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/config"
)

func TestJournal_ReportsOpenErrorOnce(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(state, nil, 0o600); err != nil { // a file where a folder should be
		t.Fatal(err)
	}
	cfg, err := config.Load("", func(name string) string {
		return map[string]string{"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": filepath.Dir(state)}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []Record
	h := newHost(Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Unrecorded: func(what Record, err error) {
		if !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("of %s it is told %v, want that there is no folder", what, err)
		}
		told = append(told, what)
	}})
	h.openJournal()
	if h.journal != nil || len(told) != 1 || told[0] != RecordSessions {
		t.Errorf("it is told of %q, want %q once", told, RecordSessions)
	}
	h.closeJournal()
}
