package e2e_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/sdk/proc"
)

// terminal is a command in a terminal of its own, as a person sees it: a pane of tmux.
type terminal struct {
	t      testing.TB
	socket string
	env    []string
}

// terminal runs a command in a terminal of 100 columns and 40 rows.
func (p *place) terminal(t testing.TB, command []string, env ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatalf("tmux is not installed, and what a person sees cannot be looked at: %v", err)
	}
	x := &terminal{t: t, socket: filepath.Join(p.home, "tmp", "tmux.sock"), env: p.env(append(env, "SHELL=/bin/sh")...)}
	// In the foreground, so that it is a child that is waited for.
	server := exec.Command("tmux", "-D", "-u", "-f", "/dev/null", "-S", x.socket)
	server.Env = x.env
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := x.tmux("capture-pane", "-p", "-S", "-")
			t.Logf("the terminal:\n%s", out)
		}
		_, _ = x.tmux("kill-server")
		_ = server.Wait()
	})
	if !eventually(func() bool { _, err := x.tmux("start-server"); return err == nil }) {
		t.Fatal("tmux does not start")
	}
	// One call, so that the pane has its settings before its command says anything.
	args := []string{"set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "status", "off", ";", "set-option", "-g", "history-limit", "5000", ";",
		"new-session", "-d", "-x", "100", "-y", "40", "-c", p.work, "--"}
	if out, err := x.tmux(append(args, command...)...); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	return x
}

func (x *terminal) tmux(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
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
	if !eventually(func() bool {
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
	if !eventually(func() bool {
		out, _ := x.tmux("display-message", "-p", "#{pane_dead} #{pane_dead_status}")
		dead, number, _ := strings.Cut(strings.TrimSpace(out), " ")
		var err error
		status, err = strconv.Atoi(number) // it comes a moment after the end
		return dead == "1" && err == nil
	}) {
		x.t.Fatalf("the command does not end:\n%s", x.screen())
	}
	return status
}

// expectNobodyBut waits until of those who belong here only the terminal is left.
func (p *place) expectNobodyBut(t testing.TB, name string) {
	t.Helper()
	var left []int
	if !eventually(func() bool {
		marked, err := proc.WithEnviron("HOME=" + p.home)
		if err != nil {
			t.Error(err)
			return true
		}
		left = slices.DeleteFunc(marked, func(pid int) bool { return strings.Contains(describe([]int{pid}), name) })
		return len(left) == 0
	}) {
		t.Errorf("processes are left behind:\n%s", describe(left))
	}
}
