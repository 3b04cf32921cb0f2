package handlers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestWorkspace_SettingsApply(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	shared := p.File(t, "../shared/s.txt", "shared\n")
	s := p.Fixture(t, p.Config(t, fmt.Sprintf("workspace: {extra_roots: [{path: %q, read_only: true}], stale_writes: refuse}\n", filepath.Dir(shared))))
	if got := e2e.Content(s.Reads("s1", shared)); got != "shared\n" {
		t.Errorf("of the extra root the agent read %q", got)
	}
	s.Agent.Send("fs/write_text_file", e2e.Params("path", shared, "content", "x")).Refused(-32603)

	file := p.File(t, "a.txt", "first\n")
	if got := e2e.Content(s.Read("a.txt")); got != "first\n" {
		t.Errorf("the agent read %q", got)
	}
	s.WriteFile("a.txt", "second\n").Result(nil) // no other process wrote
	s.WriteFile("a.txt", "third\n").Result(nil)  // nor since
	p.File(t, "a.txt", "a person's\n")
	if m := s.WriteFile("a.txt", "fourth\n").Answer(); m.Error == nil {
		t.Error("a change that the agent has not seen was overwritten")
	}
	e2e.Content(s.Read("a.txt"))
	s.WriteFile("a.txt", "fourth\n").Result(nil)
	if got, err := os.ReadFile(file); err != nil || string(got) != "fourth\n" {
		t.Errorf("a.txt holds %q (%v)", got, err)
	}
	s.Finish()
}

func TestRead_RejectsSpecialFilesAtOnce(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	if err := syscall.Mkfifo(p.Path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", p.Path("out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", p.Path("loop")); err != nil {
		t.Fatal(err)
	}
	p.File(t, "binary", "a\x00b")
	p.File(t, "latin", "\xe4\xf6")
	p.File(t, "huge", strings.Repeat("0123456789abcde\n", 11<<16))
	for name, want := range map[string]string{
		"fifo": "", "": "", "out": "Path escapes workspace: ", "loop": "", "binary": "not a text file", "latin": "not a text file",
		"huge": "10485760",
	} {
		e := s.Read(name).Answer().Error
		if e == nil || !strings.Contains(e.Message, want) {
			t.Errorf("the read of %q was answered with %v, want an error with %q", name, e, want)
		}
		if e != nil && strings.Contains(strings.ToLower(e.Message), "not found") {
			t.Errorf("the read of %q states that it is missing: %v", name, e)
		}
	}
	var part struct{ Content string }
	s.Agent.Request("fs/read_text_file", e2e.Params("path", p.Path("huge"), "line", 700_000, "limit", 2), &part)
	if part.Content != "0123456789abcde\n0123456789abcde\n" {
		t.Errorf("of the huge file %q was read", part.Content)
	}
	s.Finish()
}

func TestCommand_InheritsEnvironmentWithoutSecrets(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil, "MY_API_KEY=hush", "GITHUB_TOKEN=hush", "PLAIN=shown")
	var ran struct{ Output string }
	s.Agent.Request("terminal/run", e2e.Params("command", "env; pwd; tty; stty size; cat", "env", []any{map[string]any{"name": "MINE", "value": "given"}}), &ran)
	e2e.ExpectContains(t, "the environment", ran.Output, "PLAIN=shown\n", "MINE=given\n", "TERM=xterm-256color\n", "GIT_PAGER=cat\n", "HOME="+p.Home+"\n", "\n"+p.Work+"\n", "not a tty")
	for _, secret := range []string{"hush", "PLUGIN_", "ACPHOST_PLUGIN"} {
		if strings.Contains(ran.Output, secret) {
			t.Errorf("the command sees %q:\n%s", secret, ran.Output)
		}
	}
	s.Finish()
}

func TestCommand_KeepsNewestOutput(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	var ran struct {
		Output    string
		Truncated bool
		ExitCode  int
	}
	s.Agent.Request("terminal/run", e2e.Params("command", "for i in $(seq 1 5000); do echo ääää $i; done; printf ende", "outputByteLimit", 1001), &ran)
	if !ran.Truncated || len(ran.Output) > 1001 || len(ran.Output) < 990 || !strings.HasSuffix(ran.Output, "ääää 5000\nende") || strings.Contains(ran.Output, "\uFFFD") {
		t.Errorf("of the output %d bytes were kept (truncated: %v): %q", len(ran.Output), ran.Truncated, ran.Output)
	}
	s.Finish()
}
