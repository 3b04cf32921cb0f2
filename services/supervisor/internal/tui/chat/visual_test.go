package chat

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/acphost/acphost/services/supervisor/internal/tui/jobcontrol"
)

func TestExternalEditor_FromEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		env   []string
		words []string
		named string
	}{
		"VISUAL goes before EDITOR":           {[]string{"EDITOR=ed", "VISUAL=vim"}, []string{"vim"}, "vim"},
		"EDITOR":                              {[]string{"EDITOR=/usr/bin/nano"}, []string{"/usr/bin/nano"}, "nano"},
		"vi where none is named":              {[]string{"EDITOR= "}, []string{"vi"}, "vi"},
		"with arguments":                      {[]string{"EDITOR=code --wait"}, []string{"code", "--wait"}, "code"},
		"shell syntax":                        {[]string{"EDITOR='my editor' -x"}, []string{"/bin/sh", "-c", `'my editor' -x "$@"`, "sh"}, "your editor"},
		"a name that would harm the terminal": {[]string{"EDITOR=a\x1bb"}, []string{"a\x1bb"}, "a␛b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := editorOf(tt.env); strings.Join(got, "|") != strings.Join(tt.words, "|") {
				t.Errorf("it is %q, want %q", got, tt.words)
			}
			if got := editorName(tt.env); harm(got) != "" || !strings.Contains(tt.named, "␛") && got != tt.named {
				t.Errorf("it is called %q, want %q", got, tt.named)
			}
		})
	}
}

func TestExternalEditor_FoundInUsersPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ed"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got, err := lookPath("ed", []string{"PATH=/nowhere:" + dir}); err != nil || got != filepath.Join(dir, "ed") {
		t.Errorf("it is %q (%v)", got, err)
	}
	for _, path := range []string{"", ".", ":", "/nowhere"} {
		if got, err := lookPath("ed", []string{"PATH=" + path}); err == nil {
			t.Errorf("with PATH=%q it is %q, which an agent may have put there", path, got)
		}
	}
}

func TestDraft_IsPrivate(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	file, err := writeDraft(state, "hello")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{file: 0o600, filepath.Dir(file): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s is %v, want %v (%v)", path, info.Mode(), want, err)
		}
	}
	if filepath.Dir(filepath.Dir(file)) != state {
		t.Errorf("it is %s, not below the state folder", file)
	}
	if text, err := readDraft(file); text != "hello" || err != nil {
		t.Errorf("it returns as %q (%v)", text, err)
	}
}

func TestExternalEditor_ReadsDraft(t *testing.T) {
	exited, failed, killed := jobcontrol.Result{}, jobcontrol.Result{Code: 3}, jobcontrol.Result{Code: -1, Signal: "SIGKILL"}
	write := func(text string) func(t *testing.T, file string) {
		return func(t *testing.T, file string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	instead := func(put func(file string) error) func(t *testing.T, file string) {
		return func(t *testing.T, file string) {
			t.Helper()
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := put(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		does    func(t *testing.T, file string)
		ended   jobcontrol.Result
		text    string // that counts
		problem string
		kept    bool
	}{
		"a text":                          {does: write("one\n\ntwo\n"), text: "one\n\ntwo"},
		"nothing":                         {does: write("\n"), text: ""},
		"line ends and a mark of Windows": {does: write("\ufeffone\r\ntwo\r\n"), text: "one\ntwo"},
		"escape sequences":                {does: write("a\x1b[2Jb\n"), text: "a[2Jb"},
		"the longest text":                {does: write(strings.Repeat("x", maxInput) + "\n"), text: strings.Repeat("x", maxInput)},
		"a text that is too long":         {does: write(strings.Repeat("x", maxInput+2)), problem: "longer than 1048577 bytes", kept: true},
		"invalid UTF-8":                   {does: write("caf\xe9\n"), problem: "it is not UTF-8", kept: true},
		"an exit status":                  {does: write("other\n"), ended: failed, problem: "ended with exit status 3; the input is as it was"},
		"killed before it wrote":          {does: write("before\n"), ended: killed, problem: "was ended by SIGKILL; the input is as it was"},
		"killed after it wrote":           {does: write("other\n"), ended: killed, problem: "what the editor wrote is kept in", kept: true},
		"no file":                         {does: instead(func(string) error { return nil }), ended: exited, problem: "has left no file"},
		"a link":                          {does: instead(func(f string) error { return os.Symlink("/etc/passwd", f) }), problem: "no file any more", kept: true},
		"a pipe":                          {does: instead(func(f string) error { return syscall.Mkfifo(f, 0o600) }), problem: "no file any more", kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := writeDraft(t.TempDir(), "before")
			if err != nil {
				t.Fatal(err)
			}
			tt.does(t, file)
			got := (&visual{text: "before"}).left(file, tt.ended, nil)
			if got.ok != (tt.problem == "") || got.text != tt.text || !strings.Contains(got.problem, tt.problem) {
				t.Errorf("it is %.100q, %v, %q; want %.100q and %q", got.text, got.ok, got.problem, tt.text, tt.problem)
			}
			if _, err := os.Lstat(filepath.Dir(file)); (err == nil) != tt.kept {
				t.Errorf("is it kept: %v, want %v", err == nil, tt.kept)
			}
		})
	}
}

func TestExternalEditor_NeedsConfirmation(t *testing.T) {
	s := newScreen(t, 80, 24, func(o *Options) { o.Env = []string{"EDITOR=vim"} }).ready()
	s.m.loan = newLoan(t.Context())
	s.write("half a text")
	if s.press("ctrl+x"); !strings.Contains(s.view(), "ctrl+e opens your editor") {
		t.Fatalf("the view is\n%s", s.view())
	}
	s.press("ctrl+e")
	if v := s.view(); !strings.Contains(v, "type kk to open this in vim, outside of the policy") || !strings.Contains(v, "❯ half a text") {
		t.Fatalf("it is not confirmed:\n%s", v)
	}
	s.send(tea.TerminalVersionMsg{})
	if s.press("k", "k"); s.m.away || s.m.edit.Text() != "half a textkk" {
		t.Fatalf("keys that arrive with a report of the terminal open it, or are lost: %q", s.m.edit.Text())
	}
	s.press("ctrl+x", "ctrl+e", "k", "x")
	if s.m.away || s.m.confirming != nil {
		t.Fatal("a wrong key opens it")
	}
	s.press("ctrl+x", "ctrl+a", "!") // another key is what it is
	if s.m.edit.Text() != "!half a textkk" {
		t.Fatalf("the input is %q", s.m.edit.Text())
	}
	s.press("ctrl+x", "ctrl+e", "k", "k")
	if cmd := s.press("k"); !s.m.away || cmd == nil {
		t.Fatal("the code does not open it")
	}
	s.asked(permission("claude-1/7"))
	s.send(visualMsg{text: "a whole\ntext", ok: true, problem: "and a word"})
	s.press("a")
	if q := s.m.question(); s.m.away || s.m.edit.Text() != "a whole\ntexta" && s.m.edit.Text() != "a whole\ntext" || q.sent || q.code != nil {
		t.Errorf("the input is %q, the question %+v", s.m.edit.Text(), q)
	}
	if !strings.Contains(s.printed(), "and a word") {
		t.Error("the problem is not shown")
	}
}
