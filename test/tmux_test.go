package e2e_test

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

// terminal is a command in a terminal of its own, as a person sees it: a pane of tmux.
type terminal struct {
	t      testing.TB
	home   string
	status string // a file that takes the command's exit status
	socket string
	env    []string
	end    func() // closes the terminal
}

// resize changes the size of the terminal.
func (x *terminal) resize(width, height int) {
	x.t.Helper()
	if out, err := x.tmux("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height)); err != nil {
		x.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

// terminal runs a command in a terminal of 100 columns and 40 rows.
func (p *place) terminal(t testing.TB, command []string, env ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("tmux is not installed, and what a person sees cannot be looked at: %v", err)
		}
		t.Skipf("what a person sees on a terminal is looked at through tmux, which is not installed: %v", err)
	}
	file := filepath.Join(p.home, "tmp", strconv.FormatInt(time.Now().UnixNano(), 36))
	x := &terminal{t: t, home: p.home, status: file + ".status", socket: file + ".sock", env: p.env(append(env, "SHELL=/bin/sh")...)}
	// In the foreground, so that it is a child that is waited for.
	server := exec.Command("tmux", "-D", "-u", "-f", "/dev/null", "-S", x.socket)
	server.Env = x.env
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	x.end = sync.OnceFunc(func() {
		if t.Failed() {
			t.Logf("the terminal:\n%s", x.all())
		}
		_, _ = x.tmux("kill-server")
		defer time.AfterFunc(testkit.Timeout(), func() { _ = server.Process.Kill() }).Stop()
		_ = server.Wait()
	})
	t.Cleanup(x.end)
	if !testkit.Poll(func() bool { _, err := x.tmux("show-options", "-g"); return err == nil }) {
		t.Fatal("tmux does not start")
	}
	// One call, so that the pane has its settings before its command says anything.
	args := []string{"set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "status", "off", ";", "set-option", "-g", "history-limit", "5000", ";",
		"new-session", "-d", "-x", "100", "-y", "40", "-c", p.work, "--"}
	// A shell keeps the status: tmux now and then knows that a command has ended, and never how. The shell is sent what
	// a person's Ctrl-C sends, too.
	args = append(args, "sh", "-c", `trap : INT; status=$1; shift; "$@"; echo $? > "$status"`, "sh", x.status)
	if out, err := x.tmux(append(args, command...)...); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	return x
}

func (x *terminal) tmux(args ...string) (string, error) {
	cmd := wire.Command(x.t, "tmux", append([]string{"-N", "-u", "-S", x.socket}, args...)...)
	cmd.Env = x.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// screen is what is to be seen.
func (x *terminal) screen() string {
	out, _ := x.tmux("capture-pane", "-p")
	return out
}

// all is what is to be seen, and what has scrolled away.
func (x *terminal) all() string {
	out, _ := x.tmux("capture-pane", "-p", "-S", "-")
	return out
}

// shows waits until all of these words are on the screen together, and returns it.
func (x *terminal) shows(words ...string) string {
	x.t.Helper()
	var now string
	if !testkit.Poll(func() bool {
		now = x.screen()
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

// keys presses keys, as tmux names them: "a", "Enter", "C-c".
func (x *terminal) keys(keys ...string) {
	x.t.Helper()
	if out, err := x.tmux(append([]string{"send-keys"}, keys...)...); err != nil {
		x.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

var codeAsked = regexp.MustCompile(`Type ([a-z]+) for `)

// allows presses the key of an option that allows something, and types the code that is asked for then.
func (x *terminal) allows(key string) {
	x.t.Helper()
	x.keys(key)
	x.types(codeAsked.FindStringSubmatch(x.shows("Type ", " or another key to go back"))[1])
}

// types types a text.
func (x *terminal) types(text string) {
	x.t.Helper()
	if out, err := x.tmux("send-keys", "-l", text); err != nil {
		x.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

// exits waits until the command has ended and returns its exit status.
func (x *terminal) exits() int {
	x.t.Helper()
	var status int
	if !testkit.Poll(func() bool {
		data, err := os.ReadFile(x.status)
		if err == nil {
			status, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil
	}) {
		out, _ := x.tmux("list-panes", "-a", "-F", "#{pane_pid} dead #{pane_dead}")
		marked, _ := proc.WithEnviron("HOME=" + x.home)
		x.t.Fatalf("the command does not end: %s%s\n%s", out, wire.Describe(marked), x.screen())
	}
	return status
}

// expectNobodyBut waits until of those who belong here only the terminal is left.
func (p *place) expectNobodyBut(t testing.TB, name string) {
	t.Helper()
	var left []int
	if !testkit.Poll(func() bool {
		marked, err := proc.WithEnviron("HOME=" + p.home)
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
