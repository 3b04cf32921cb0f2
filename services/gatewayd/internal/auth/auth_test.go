package auth_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/gatewayd/internal/auth"
)

func TestNew_LogsMissingTokensFile(t *testing.T) {
	var log bytes.Buffer
	file := filepath.Join(t.TempDir(), "tokens.json")
	auth.New(auth.Options{Tokens: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), file) {
		t.Errorf("the log is %q", log.String())
	}
	log.Reset()
	auth.New(auth.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if log.Len() > 0 {
		t.Errorf("without a file the log is %q", log.String())
	}
}

// TestGate_WithoutTokensFile: the error must not advise a new token if the gateway reads no tokens.
func TestGate_WithoutTokensFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, want string }{
		"no file":   {"", "start gatewayd with --tokens FILE"},
		"with file": {file, "is not known, or has expired"},
	} {
		gate := auth.New(auth.Options{Tokens: c.file, Logger: slog.New(slog.DiscardHandler)})
		_, rejection := gate.Token(t.Context(), "acphost_x")
		if rejection == nil || rejection.Status != http.StatusUnauthorized || !strings.Contains(rejection.Text, c.want) {
			t.Errorf("%s: refused by %v, want 401 and %q", name, rejection, c.want)
		}
	}
}
