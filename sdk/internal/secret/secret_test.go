package secret

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const word = "0123456789abcdef0123456789abcdef"

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoad_RequiresPrivateFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(write(t, word, 0o600), link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, want string }{
		"as openssl writes it":   {write(t, word+"\n", 0o600), ""},
		"that cannot be written": {write(t, word, 0o400), ""},
		"through a link":         {link, ""},
		"the longest":            {write(t, strings.Repeat("x", maxBytes), 0o600), ""},
		"that the group reads":   {write(t, word, 0o640), "open to others (mode 0640)"},
		"that others read":       {write(t, word, 0o604), "open to others"},
		"that others write":      {write(t, word, 0o602), "open to others"},
		"that the group runs":    {write(t, word, 0o610), "open to others"},
		"a byte too short":       {write(t, " \n"+word[:31]+"\n ", 0o600), "has 31 bytes, and 32 are the least"},
		"that is empty":          {write(t, "", 0o600), "has 0 bytes"},
		"of spaces":              {write(t, strings.Repeat(" ", 100), 0o600), "has 0 bytes"},
		"a byte too long":        {write(t, strings.Repeat("x", maxBytes+1), 0o600), "longer than 4096"},
		"of two words":           {write(t, word+" "+word, 0o600), "printable ASCII"},
		"with a header in it":    {write(t, word+"\r\nx: y", 0o600), "printable ASCII"},
		"that is no text":        {write(t, word+"\xff", 0o600), "printable ASCII"},
		"a folder":               {dir, "not a regular file"},
		"a named pipe":           {pipe, "not a regular file"},
		"a device":               {"/dev/zero", "not a regular file"},
		"that is not there":      {filepath.Join(dir, "gone"), "no such file"},
	} {
		s, err := Load(c.file)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a file %s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("a file %s: error %v, want %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), word[:8]):
			t.Errorf("a file %s: the error contains the secret: %v", name, err)
		case c.want == "" && !s.InHeaders(map[string][]string{"authorization": {"Bearer " + s.value}}):
			t.Errorf("a file %s: its secret is not taken", name)
		}
	}
}

func TestLoad_RejectsFileOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to give a file away takes root")
	}
	file := write(t, word, 0o600)
	if err := os.Chown(file, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "belongs to user 1000; it must belong to user 0") {
		t.Errorf("error = %v", err)
	}
}

func TestSecret_IsNotPrinted(t *testing.T) {
	s, err := Load(write(t, word, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "pointer", &s)
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s", s, s, s, &s), log.String()} {
		if strings.Contains(text, word) {
			t.Errorf("got %s", text)
		}
	}
}
