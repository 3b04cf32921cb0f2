package main

import (
	"os"
	"path/filepath"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/sdk/roots"
)

// TestRead_SwappedSymlinkStaysInRoot replaces a folder by a symbolic link after the path was resolved and before the
// file is opened, as a second process of an agent can.
func TestRead_SwappedSymlinkStaysInRoot(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"ws/sub", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "f"), []byte(folder), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := &acpv1.CallContext{Roots: []*acpv1.Root{{Path: dir + "/ws"}}}
	at, err := roots.Enter(c, dir+"/ws/sub/f", nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"/ws/sub", dir+"/ws/away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../out", dir+"/ws/sub"); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), at, &fsv1.ReadTextFileRequest{}, 1000); err == nil {
		t.Errorf("read %q", got)
	}
	if err := write(at, "changed"); err == nil {
		t.Error("written")
	}
	if got, err := os.ReadFile(dir + "/out/f"); err != nil || string(got) != "out" {
		t.Errorf("the file outside holds %q, %v", got, err)
	}
}

func TestSettings_RejectInvalid(t *testing.T) {
	for most, want := range map[int64]bool{0: true, 1: true, 60 << 20: true, -1: false, 60<<20 + 1: false} {
		if err := (&settings{MaxBytes: most}).check(); (err == nil) != want {
			t.Errorf("max_bytes %d: %v", most, err)
		}
	}
}
