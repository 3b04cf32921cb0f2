package git

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed returns what git reads in a configuration file, each "NAME\nVALUE"; not ok if git rejects the file.
func listed(t *testing.T, data []byte) (all []string, ok bool) {
	t.Helper()
	cmd := exec.Command("git", "config", "--no-includes", "-z", "--list", "--file", "-")
	cmd.Stdin, cmd.Env = bytes.NewReader(data), []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.Output()
	if err != nil {
		return nil, false
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if entry != "" {
			if !strings.Contains(entry, "\n") { // without a value
				entry += "\ntrue"
			}
			all = append(all, entry)
		}
	}
	return all, true
}

// TestExactSettings_AgreesWithGit checks unusual files, which are also the seeds of the fuzz target.
func TestExactSettings_AgreesWithGit(t *testing.T) {
	for _, text := range oddFiles {
		sameAsGit(t, []byte(text))
	}
}

func sameAsGit(t *testing.T, data []byte) {
	t.Helper()
	all, err := exactSettings(data)
	if err != nil {
		return
	}
	want, ok := listed(t, data)
	if !ok {
		return // git stops, and runs nothing
	}
	got := make([]string, len(all))
	for i, s := range all {
		got[i] = s.name() + "\n" + s.value
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q is read as %q, by git as %q", data, got, want)
	}
}

var oddFiles = []string{
	"",
	"[core]\n\tbare = false\n",
	"[core]bare=false",
	"[core] # c\n bare ; x\n",
	"[CoRe \"SuB\"]\nKEY = v\n",
	"[remote.Origin]\nurl = x\n",
	"[a.B \"c\"]\nd = e\n",
	"[a \"\"]\nd = e\n",
	"[a \"x\\\"y\\\\z\\q\"]\nd = e\n",
	"[a]\nb = \"x # y\" # z\n",
	"[a]\nb = x \\\n  y\n",
	"[a]\nb = x \\\r\n  y\r\n",
	"[a]\nb = \" x \"\n",
	"[a]\nb = x \" y \" z  \n",
	"[a]\nb = \"x\\ty\\n\\b\\\"\"\n",
	"[a]\nb = x\\\n",
	"[a]\nb = \"x\n\n",
	"[a]\nb = x\t  \n",
	"[a]\nb\n=c\n",
	"[a]\nb\tc\n",
	"[a]\nb \t= c\n",
	"[a\nb=c",
	"[a] b = c [d] e = f\n",
	"[a]\n\u00a0b = \u00a0c\u00a0\n",
	"[a]\n1b = c\n",
	"[a]\n-b = c\n",
	"[a-b.c]\nd-e = f\n",
	"[a b]\nc=d\n",
	"[]\nc=d\n",
	"[.a]\nc=d\n",
	"[a.]\nc=d\n",
	"[a..b]\nc=d\n",
	"[a_b]\nc=d\n",
	"[a \"b\" ]\nc=d\n",
	"[ a]\nc=d\n",
	"[a ]\nc=d\n",
	"[a\t\"b\"]\nc=d\n",
	"[a \"b]\nc=d\n\"]\n",
	"c=d\n",
	"[a]\nb = \\\n#c\n",
	"[a]\nb = x\\\ny = z\n",
	"[a]\nb = \"x\\\ny\"\n",
	"[a]\nb = # only a comment\\\nc = d\n",
	"# comment \\\n[a]\nb=c\n",
	"[a]\nb = c\\#d\n",
	"[a]\nb = \"\"\n",
	"[a]\nb =\n",
	"[a]\nb = \x0bx\x0c\n",
	"\ufeff[a]\nb = c\n",
	"[a]\nb = \xff\n",
	"[a]\nb = \u0085c\u0085\n",
	"[a]\nb = \"\u3000\"c\u3000\n",
	"[a]\nb = x \\t\n",
	"[a]\nb = \"x\\t\"\n",
	"[a]\nb = x\\b\n",
}

func FuzzExactSettings_AgreesWithGit(f *testing.F) {
	for _, text := range oddFiles {
		f.Add([]byte(text))
	}
	f.Fuzz(sameAsGit)
}

// FuzzHarmlessIndex_AgreesWithGit expects that git lists no name inside a repository folder for an index that
// HarmlessIndex accepts.
func FuzzHarmlessIndex_AgreesWithGit(f *testing.F) {
	dir := f.TempDir()
	run := func(args ...string) ([]byte, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		return cmd.Output()
	}
	if _, err := run("init", "--quiet"); err != nil {
		f.Fatal(err)
	}
	for name, text := range map[string]string{"a": "1", "ab": "2", "xgit/hooks/y": "3"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			f.Fatal(err)
		}
	}
	index := filepath.Join(dir, ".git", "index")
	for _, version := range []string{"2", "3", "4"} {
		_, err := run("add", ".")
		if err == nil {
			_, err = run("update-index", "--index-version", version)
		}
		data, err2 := os.ReadFile(index)
		if err != nil || err2 != nil {
			f.Fatal(err, err2)
		}
		f.Add(data)
		f.Add(bytes.Replace(data, []byte("xgit"), []byte(".git"), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if HarmlessIndex(data) != "" {
			return
		}
		if err := os.WriteFile(index, data, 0o600); err != nil {
			t.Fatal(err)
		}
		listed, err := run("ls-files", "-z")
		if err != nil {
			return // git stops
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
			if Own(name) || strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
				t.Errorf("git lists %q", name)
			}
		}
	})
}
