package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// Terminal is a command in its own terminal, as a person uses it: a pane of tmux.
type Terminal struct {
	t      testing.TB
	home   string
	status string // a file that takes the command's exit status
	socket string
	env    []string
	End    func() // closes the terminal
}

// Resize changes the size of the terminal.
func (x *Terminal) Resize(width, height int) {
	x.t.Helper()
	if out, err := x.Tmux("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height)); err != nil {
		x.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

// Terminal runs a command in a terminal of 100 columns and 40 rows.
func (p *Place) Terminal(t testing.TB, command []string, env ...string) *Terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("tmux is not installed, and what a person sees cannot be looked at: %v", err)
		}
		t.Skipf("what a person sees on a terminal is looked at through tmux, which is not installed: %v", err)
	}
	file := filepath.Join(p.Home, "tmp", strconv.FormatInt(time.Now().UnixNano(), 36))
	x := &Terminal{t: t, home: p.Home, status: file + ".status", socket: file + ".sock", env: p.Env(append(env, "SHELL=/bin/sh")...)}
	// In the foreground, so that it is a child that is waited for.
	server := exec.Command("tmux", "-D", "-u", "-f", "/dev/null", "-S", x.socket)
	server.Env = x.env
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	x.End = sync.OnceFunc(func() {
		if t.Failed() {
			t.Logf("the terminal:\n%s", x.All())
		}
		_, _ = x.Tmux("kill-server")
		defer time.AfterFunc(testkit.Timeout(), func() { _ = server.Process.Kill() }).Stop()
		_ = server.Wait()
	})
	t.Cleanup(x.End)
	if !testkit.Poll(func() bool { _, err := x.Tmux("show-options", "-g"); return err == nil }) {
		t.Fatal("tmux does not start")
	}
	// One call, so that the pane has its settings before its command prints anything.
	args := []string{"set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "status", "off", ";", "set-option", "-g", "history-limit", "5000", ";",
		"new-session", "-d", "-x", "100", "-y", "40", "-c", p.Work, "--"}
	// A shell keeps the status: tmux now and then knows that a command has ended, and never how. The shell is sent what
	// a person's Ctrl-C sends, too.
	args = append(args, "sh", "-c", `trap : INT; status=$1; shift; "$@"; echo $? > "$status"`, "sh", x.status)
	if out, err := x.Tmux(append(args, command...)...); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	return x
}

// Tmux runs a command of tmux on the terminal's server, and returns what it prints.
func (x *Terminal) Tmux(args ...string) (string, error) {
	cmd := wire.Command(x.t, "tmux", append([]string{"-N", "-u", "-S", x.socket}, args...)...)
	cmd.Env = x.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Screen is the visible text.
func (x *Terminal) Screen() string {
	out, _ := x.Tmux("capture-pane", "-p")
	return out
}

// All is the visible text, and the text that has scrolled away.
func (x *Terminal) All() string {
	out, _ := x.Tmux("capture-pane", "-p", "-S", "-")
	return out
}

// Shows waits until all of these words are on the screen together, and returns it.
func (x *Terminal) Shows(words ...string) string {
	x.t.Helper()
	var now string
	if !testkit.Poll(func() bool {
		now = x.Screen()
		for _, w := range words {
			if !strings.Contains(now, w) {
				return false
			}
		}
		return true
	}) {
		x.t.Fatalf("the screen does not show %q:\n%s", words, now)
	}
	return now
}

// Keys presses keys, as tmux names them: "a", "Enter", "C-c".
func (x *Terminal) Keys(keys ...string) {
	x.t.Helper()
	if out, err := x.Tmux(append([]string{"send-keys"}, keys...)...); err != nil {
		x.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

var codeAsked = regexp.MustCompile(`Type ([a-z]+) for `)

// Allows presses the key of an option that allows something, and types the code that is asked for then.
func (x *Terminal) Allows(key string) {
	x.t.Helper()
	x.Keys(key)
	x.Types(codeAsked.FindStringSubmatch(x.Shows("Type ", " or another key to go back"))[1])
}

// Types types a text.
func (x *Terminal) Types(text string) {
	x.t.Helper()
	if out, err := x.Tmux("send-keys", "-l", text); err != nil {
		x.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

// Exits waits until the command has ended and returns its exit status.
func (x *Terminal) Exits() int {
	x.t.Helper()
	var status int
	if !testkit.Poll(func() bool {
		data, err := os.ReadFile(x.status)
		if err == nil {
			status, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil
	}) {
		out, _ := x.Tmux("list-panes", "-a", "-F", "#{pane_pid} dead #{pane_dead}")
		marked, _ := proc.WithEnviron("HOME=" + x.home)
		x.t.Fatalf("the command does not end: %s%s\n%s", out, wire.Describe(marked), x.Screen())
	}
	return status
}

// ExpectNobodyBut waits until the terminal is the only remaining process of this place.
func (p *Place) ExpectNobodyBut(t testing.TB, name string) {
	t.Helper()
	var left []int
	if !testkit.Poll(func() bool {
		marked, err := proc.WithEnviron("HOME=" + p.Home)
		if err != nil {
			t.Error(err)
			return true
		}
		left = slices.DeleteFunc(marked, func(pid int) bool { return strings.Contains(wire.Describe([]int{pid}), name) })
		return len(left) == 0
	}) {
		t.Errorf("processes are left behind:\n%s", wire.Describe(left))
	}
}
