package certs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/certs"
)

func TestReach_FindsClientKeysNearServerKeys(t *testing.T) {
	dir, other := authority(t, certs.Options{}), authority(t, certs.Options{})
	server := filepath.Join(dir, certs.ServerDir)
	all := []string{
		filepath.Join(dir, "approver", "client.key"), filepath.Join(dir, "ca.key"),
		filepath.Join(dir, "operator", "client.key"), filepath.Join(dir, "viewer", "client.key"),
	}
	at := func(dir string) []string { return certs.CallerKeys(certs.ServerFiles(dir)) }
	if got := at(server); !slices.Equal(got, all) {
		t.Errorf("beside the server's folder: %q, want %q", got, all)
	}

	// The folder alone, as it is deployed, and the folder among the keys of another authority.
	alone, foreign := filepath.Join(t.TempDir(), "a", "b"), filepath.Join(dir, "foreign")
	for _, to := range []string{alone, foreign} {
		if err := os.CopyFS(to, os.DirFS(filepath.Join(other, certs.ServerDir))); err != nil {
			t.Fatal(err)
		}
		if got := at(to); len(got) != 0 {
			t.Errorf("in %s: %q", to, got)
		}
	}

	// The layout of older versions of acphost: all files in one folder.
	for _, name := range []string{"server.crt", "server.key"} {
		if err := os.Rename(filepath.Join(server, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := at(dir); !slices.Equal(got, all) {
		t.Errorf("in the server's folder: %q, want %q", got, all)
	}
	renewed, err := certs.Renew(dir, certs.Options{})
	if err != nil || len(renewed) != 4 || renewed[0] != filepath.Join(dir, "server.crt") {
		t.Errorf("renewed %q, %v", renewed, err)
	}
	link := filepath.Join(t.TempDir(), "server.key")
	if err := os.Symlink(filepath.Join(dir, "server.key"), link); err != nil {
		t.Fatal(err)
	}
	f := certs.ServerFiles(filepath.Join(dir, "foreign"))
	f.CA, f.Key = filepath.Join(dir, "ca.crt"), link
	if got := certs.CallerKeys(f); !slices.Equal(got, all) {
		t.Errorf("behind a link: %q, want %q", got, all)
	}
}
