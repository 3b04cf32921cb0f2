package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWorkspaceSettingsHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	shared := p.file(t, "../shared/s.txt", "shared\n")
	s := p.scene(t, p.config(t, fmt.Sprintf("workspace: {extra_roots: [{path: %q, read_only: true}], stale_writes: refuse}\n", filepath.Dir(shared))))
	if got := content(s.reads("s1", shared)); got != "shared\n" {
		t.Errorf("of the extra root the agent read %q", got)
	}
	s.agent.Send("fs/write_text_file", params("path", shared, "content", "x")).Refused(-32603)

	file := p.file(t, "a.txt", "first\n")
	if got := content(s.read("a.txt")); got != "first\n" {
		t.Errorf("the agent read %q", got)
	}
	s.write("a.txt", "second\n").Result(nil) // nobody else wrote
	s.write("a.txt", "third\n").Result(nil)  // nor since
	p.file(t, "a.txt", "a person's\n")
	if m := s.write("a.txt", "fourth\n").Answer(); m.Error == nil {
		t.Error("a change that the agent has not seen was overwritten")
	}
	content(s.read("a.txt"))
	s.write("a.txt", "fourth\n").Result(nil)
	if got, err := os.ReadFile(file); err != nil || string(got) != "fourth\n" {
		t.Errorf("a.txt holds %q (%v)", got, err)
	}
	s.finish()
}

func TestWhatIsNoTextFileIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil)
	if err := syscall.Mkfifo(p.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", p.path("out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", p.path("loop")); err != nil {
		t.Fatal(err)
	}
	p.file(t, "binary", "a\x00b")
	p.file(t, "latin", "\xe4\xf6")
	p.file(t, "huge", strings.Repeat("0123456789abcde\n", 11<<16))
	for name, want := range map[string]string{
		"fifo": "", "": "", "out": "Path escapes workspace: ", "loop": "", "binary": "not a text file", "latin": "not a text file",
		"huge": "10485760",
	} {
		e := s.read(name).Answer().Error
		if e == nil || !strings.Contains(e.Message, want) {
			t.Errorf("the read of %q was answered with %v, want an error with %q", name, e, want)
		}
		if e != nil && strings.Contains(strings.ToLower(e.Message), "not found") {
			t.Errorf("the read of %q says that it is missing: %v", name, e)
		}
	}
	var part struct{ Content string }
	s.agent.Request("fs/read_text_file", params("path", p.path("huge"), "line", 700_000, "limit", 2), &part)
	if part.Content != "0123456789abcde\n0123456789abcde\n" {
		t.Errorf("of the huge file %q was read", part.Content)
	}
	s.finish()
}

func TestACommandRunsInTheEditorsEnvironmentWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, nil, "MY_API_KEY=hush", "GITHUB_TOKEN=hush", "PLAIN=shown")
	var ran struct{ Output string }
	s.agent.Request("terminal/run", params("command", "env; pwd; tty; stty size; cat", "env", []any{map[string]any{"name": "MINE", "value": "given"}}), &ran)
	expectContains(t, "the environment", ran.Output, "PLAIN=shown\n", "MINE=given\n", "TERM=xterm-256color\n", "GIT_PAGER=cat\n", "HOME="+p.home+"\n", "\n"+p.work+"\n", "not a tty")
	for _, secret := range []string{"hush", "PLUGIN_", "ACPHOST_PLUGIN"} {
		if strings.Contains(ran.Output, secret) {
			t.Errorf("the command sees %q:\n%s", secret, ran.Output)
		}
	}
	s.finish()
}

func TestOfTooMuchOutputTheNewestIsKeptAtACharactersBoundary(t *testing.T) {
	t.Parallel()
	s := newPlace(t).scene(t, nil)
	var ran struct {
		Output    string
		Truncated bool
		ExitCode  int
	}
	s.agent.Request("terminal/run", params("command", "for i in $(seq 1 5000); do echo ääää $i; done; printf ende", "outputByteLimit", 1001), &ran)
	if !ran.Truncated || len(ran.Output) > 1001 || len(ran.Output) < 990 || !strings.HasSuffix(ran.Output, "ääää 5000\nende") || strings.Contains(ran.Output, "\uFFFD") {
		t.Errorf("of the output %d bytes were kept (truncated: %v): %q", len(ran.Output), ran.Truncated, ran.Output)
	}
	s.finish()
}
