package secretfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/secretfile/secrettest"
)

func TestFile_DecidesCorpus(t *testing.T) {
	files := secrettest.Files(t)
	if len(files) < 150 {
		t.Errorf("the corpus has %d files, want at least 150", len(files))
	}
	dir := t.TempDir()
	for i, f := range files {
		// Each file has its own folder, because names differ only in case.
		root := filepath.Join(dir, strings.Repeat("i", i/26+1)+string(rune('a'+i%26)))
		path := write(t, f.Under(root+"/w", root+"/home"), f.Content)
		if got := secretfile.File(path, true); got != f.Want {
			t.Errorf("%s: got %d, want %d\n%.300q", f.Path, got, f.Want, f.Content)
		}
	}
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFile_JudgesUnreadableFilesByName(t *testing.T) {
	dir := t.TempDir()
	var cert, key string
	for _, f := range secrettest.Files(t) {
		switch f.Path {
		case "ca.pem":
			cert = string(f.Content)
		case "id":
			key = string(f.Content)
		}
	}
	pipe := filepath.Join(dir, "pipe.pem")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat(cert, secretfile.MaxContent/len(cert)+1)
	behind := strings.Repeat("x", secretfile.MaxPrefix-100) + "\n"
	for name, c := range map[string]struct {
		path string
		want secretfile.Verdict
	}{
		"a missing key":                   {filepath.Join(dir, "none.pem"), secretfile.Secret},
		"a missing file":                  {filepath.Join(dir, "none.txt"), secretfile.Ordinary},
		"a named pipe":                    {pipe, secretfile.Secret},
		"a folder":                        {dir, secretfile.Ordinary},
		"a device":                        {"/dev/zero", secretfile.Ordinary},
		"certificates of more than 1 MiB": {write(t, dir+"/long.pem", []byte(long)), secretfile.Secret},
		"certificates of almost 1 MiB":    {write(t, dir+"/most.pem", []byte(long[:secretfile.MaxContent/len(cert)*len(cert)])), secretfile.Public},
		"settings of more than 1 MiB":     {write(t, dir+"/.npmrc", []byte(strings.Repeat("a=b\n", secretfile.MaxContent/4+1))), secretfile.Secret},
		"a key behind the prefix":         {write(t, dir+"/late.txt", []byte(behind+strings.Repeat("x", 200)+"\n"+key)), secretfile.Ordinary},
		"a key before the end of it":      {write(t, dir+"/soon.txt", []byte("x\n"+key+behind)), secretfile.HoldsKey},
	} {
		t.Run(name, func(t *testing.T) {
			if got := secretfile.File(c.path, true); got != c.want {
				t.Errorf("%s: got %d, want %d", c.path, got, c.want)
			}
		})
	}
}

func TestNamed_FindsNamesInWords(t *testing.T) {
	for _, word := range []string{
		".env", "./.env", "deploy/.env.local", "@deploy/.env.local", "--file=.env", "--file=.env.example.local", "HEAD:.env", "~/.ssh",
		"~/.ssh/id_rsa", ".ssh/", "config/Server.PEM", "server.p12", "tls/server.key", "/home/u/.aws/credentials", ".NPMRC", "/etc/shadow",
		"/proc/1/environ", "$HOME/.docker/config.json", "file:///home/u/.netrc", "me@host:.env",
	} {
		if !secretfile.Named(word) {
			t.Errorf("%s names no secret", word)
		}
	}
	for _, word := range []string{
		"", "-v", ".env.example", "deploy/.env.local.sample", ".env.d.ts", "environment", "ssh/README.md", "README.md", "nuget.config",
		"pip.conf", "user.key", "id_rsa.pub", "known_hosts", "server.crt", "a=b", "https://example.com/a.b",
	} {
		if secretfile.Named(word) {
			t.Errorf("%s names a secret", word)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, c := range secrettest.Files(f) {
		f.Add("/w/"+c.Path, c.Content, true)
	}
	f.Fuzz(func(_ *testing.T, path string, content []byte, complete bool) {
		secretfile.Judge(path, content, complete)
	})
}
