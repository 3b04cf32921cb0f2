package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// MakeKeys makes an authority with its server and its clients.
func (p *Place) MakeKeys(t *testing.T, dir string) {
	t.Helper()
	if status, out, errs := p.Cli(t, "certs", "init", dir); status != 0 {
		t.Fatalf("acphost certs init: %s%s", out, errs)
	}
}

// Deploy copies the server's folder to a place without other keys, as an operator does.
func (p *Place) Deploy(t *testing.T, keys string) (dir string) {
	t.Helper()
	dir = filepath.Join(p.Home, "deployed", "tls")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(keys, "server"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "server.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Must reads a file.
func Must(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
