package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func made(t *testing.T, role string) (Token, string) {
	t.Helper()
	token, secret, err := New("n", role, noon, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token, secret
}

func TestSet_FindsValidToken(t *testing.T) {
	a, secretA := made(t, "operator")
	b, secretB := made(t, "viewer")
	s := Set{a, b}
	if secretA == secretB || a.ID == b.ID {
		t.Fatal("two tokens are the same")
	}
	for presented, want := range map[string]string{
		secretA: a.ID, secretB: b.ID,
		secretA[:len(secretA)-1]: "", secretA + "x": "", " " + secretA: "", strings.ToUpper(secretA): "",
		"": "", a.Hash: "", a.ID: "", strings.TrimPrefix(secretA, prefix): "", secretA + secretB: "",
	} {
		if got, ok := s.Find(presented, noon.Add(time.Minute)); got.ID != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", presented, got.ID, want)
		}
	}
	if _, ok := s.Find(secretA, noon.Add(time.Hour)); ok {
		t.Error("a token is good when it has expired")
	}
	if _, _, err := New("", "gateway", noon, time.Hour); err == nil {
		t.Error("a token has an invalid role")
	}
	a.Role = "root"
	if _, ok := (Set{a}).Find(secretA, noon); ok {
		t.Error("an invalid role is taken from a file")
	}
}

func TestRead_RejectsFileWritableByOthers(t *testing.T) {
	a, secret := made(t, "approver")
	text, err := Encode(Set{a})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, FileName)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(name); err != nil || len(s) != 1 {
		t.Fatalf("%v, %v", s, err)
	} else if _, ok := s.Find(secret, noon); !ok {
		t.Error("the token is not found any more")
	}
	for _, c := range []struct {
		path string
		mode os.FileMode
	}{{name, 0o620}, {name, 0o602}, {dir, 0o720}, {dir, 0o702}} {
		before, err := os.Stat(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.path, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), "others can write it") {
			t.Errorf("%s with mode %o: %v", c.path, c.mode, err)
		}
		if err := os.Chmod(c.path, before.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	for bad, want := range map[string]string{"{": "unexpected end", `{"tokens":[{"id":"x","sha256":"zz"}]}`: `token "x" has no SHA-256`, `{"tokens":[{"id":"y","sha256":""}]}`: `token "y" has no SHA-256`} {
		if err := os.WriteFile(name, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
	fifo := filepath.Join(dir, "link")
	if err := os.Symlink("/dev/zero", fifo); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(fifo); err == nil {
		t.Error("a device is read")
	}
}
