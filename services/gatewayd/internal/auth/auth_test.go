package auth_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/gatewayd/internal/auth"
)

func TestATokensFileThatIsMissingIsSaidAtOnce(t *testing.T) {
	var said bytes.Buffer
	file := filepath.Join(t.TempDir(), "tokens.json")
	auth.New(auth.Options{Tokens: file, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if !strings.Contains(said.String(), file) {
		t.Errorf("the log says %q", said.String())
	}
	said.Reset()
	auth.New(auth.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if said.Len() > 0 {
		t.Errorf("without a file the log says %q", said.String())
	}
}
