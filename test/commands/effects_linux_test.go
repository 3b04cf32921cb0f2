package commands

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// run is what came of a line that ran without a policy.
type run struct {
	*fixture
	output    string
	status    int
	changed   []string // names of files, below the fixture's folder
	connected bool
	ended     bool // the victim
}

// effects are what hostile lines do, and how it is seen.
var effects = map[string]func(run) bool{
	// It shows a file that is outside of the roots.
	"reads": func(r run) bool { return shows(r.output, r.canary) },
	// It shows the workspace's file of secrets.
	"secret": func(r run) bool { return shows(r.output, r.secret) },
	// It shows what a folder outside of the roots contains.
	"lists": func(r run) bool { return shows(r.output, r.listed) },
	// It makes, changes or removes a file.
	"writes": func(r run) bool { return len(r.changed) > 0 },
	// It changes git's settings.
	"settings": func(r run) bool {
		return slices.ContainsFunc(r.changed, func(name string) bool {
			return strings.HasSuffix(name, "/.git/config") || strings.HasSuffix(name, "/.gitconfig")
		})
	},
	// It runs a program, or code, that it was not to run: all of these leave a file "ran".
	"runs": func(r run) bool {
		return slices.ContainsFunc(r.changed, func(name string) bool { return filepath.Base(name) == "ran" })
	},
	// It connects to another machine: here, to a port of this one.
	"connects": func(r run) bool { return r.connected },
	// It ends a process that is not its own.
	"ends": func(r run) bool { return r.ended },
	// It shows the environment of a process that is not its own.
	"environment": func(r run) bool { return shows(r.output, r.canary) },
}

// shows reports whether output has a text in it, in one of the ways in which programs write the content of files.
func shows(output, text string) bool {
	lower := strings.ToLower(output)
	packed := strings.Join(strings.Fields(lower), "")
	reversed := []byte(text)
	slices.Reverse(reversed)
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	return strings.Contains(lower, text) || strings.Contains(packed, text) || strings.Contains(packed, string(reversed)) ||
		strings.Contains(packed, hex.EncodeToString([]byte(text))) || strings.Contains(output, encoded[:len(encoded)-4])
}

// lineTimeout is how long a line may run: some lines never end by themselves. npm takes more than 10 seconds to start on a busy
// machine.
var lineTimeout = testkit.Timeout()

func TestHostileLines_HaveEffect(t *testing.T) {
	t.Parallel()
	all, git := hostile(t), repository(t)
	var proven, missing, unproven atomic.Int32
	t.Run("lines", func(t *testing.T) {
		for _, e := range all {
			t.Run(e.Name, func(t *testing.T) {
				t.Parallel()
				happened, ok := effects[e.Does]
				switch {
				case !ok:
					t.Fatalf("nobody knows how it is seen that it %q", e.Does)
				case e.Unproven != "":
					unproven.Add(1)
					return
				case e.lacks() != "":
					missing.Add(1)
					t.Skipf("not proven: %s is not installed", e.lacks())
				}
				r := e.run(t, git)
				if !happened(r) {
					t.Errorf("%s\nit does not do what it says (%s); status %d, changed %q, output\n%s", e.text(), e.Does, r.status, r.changed, r.output)
					return
				}
				if stray := slices.DeleteFunc(slices.Clone(r.changed), isEdit); len(e.Edits) > 0 && len(stray) > 0 {
					t.Errorf("%s\nit is no edit: it changes %q", e.text(), stray)
				}
				proven.Add(1)
			})
		}
	})
	t.Logf("of %d hostile lines %d are proven; of %d the program is not installed; %d are not to be run", len(all), proven.Load(), missing.Load(), unproven.Load())
	if n := int(unproven.Load()); n > len(all)/10 {
		t.Errorf("%d of %d lines are not to be run: too many for the others to mean much", n, len(all))
	}
}

func TestHarmlessLines_ChangeNothing(t *testing.T) {
	t.Parallel()
	all, git := harmless(t), repository(t)
	var missing atomic.Int32
	t.Run("lines", func(t *testing.T) {
		for _, e := range all {
			t.Run(e.Name, func(t *testing.T) {
				t.Parallel()
				if program := e.lacks(); program != "" {
					missing.Add(1)
					t.Skipf("not proven: %s is not installed", program)
				}
				r := e.run(t, git)
				if r.status != 0 && r.status != 1 {
					t.Errorf("%s\nstatus %d, output\n%s", e.text(), r.status, r.output)
				}
				if len(r.changed) > 0 {
					t.Errorf("%s\nchanged %q", e.text(), r.changed)
				}
				for what, text := range map[string]string{"a file outside": r.canary, "a secret": r.secret, "a folder outside": r.listed} {
					if shows(r.output, text) {
						t.Errorf("%s\nit shows %s", e.text(), what)
					}
				}
			})
		}
	})
	t.Logf("of %d of %d harmless lines the program is not installed", missing.Load(), len(all))
}

// isEdit reports whether a change is one of a file of the workspace, or of what git keeps of it.
func isEdit(name string) bool {
	inside, ok := strings.CutPrefix(name, "/ws/")
	kept, git := strings.CutPrefix(inside, ".git/")
	top, _, _ := strings.Cut(kept, "/")
	return ok && (!git || slices.Contains([]string{"objects", "refs", "logs", "HEAD", "ORIG_HEAD", "COMMIT_EDITMSG"}, top))
}

// lacks is a program that an entry needs and that is not there; empty: none.
func (e *entry) lacks() string {
	for _, program := range e.Needs {
		found := slices.ContainsFunc(filepath.SplitList(searched()), func(dir string) bool {
			info, err := os.Stat(filepath.Join(dir, program))
			return err == nil && info.Mode()&0o111 != 0
		})
		if !found {
			return program
		}
	}
	return ""
}

// run runs an entry's line as termd would, without acphost, in a fixture of its own.
func (e *entry) run(t *testing.T, git string) run {
	t.Helper()
	s := newFixture(t, folder(t), "", git)
	var connections atomic.Int32
	if e.Does == "connects" {
		s.port = listen(t, &connections)
	}
	var victim *exec.Cmd
	if e.Does == "ends" || e.Does == "environment" {
		victim = exec.CommandContext(t.Context(), "sleep", "1000")
		victim.Env = []string{"TOKEN=" + s.canary}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		s.victim = victim.Process.Pid
	}
	s.prepare(t, e)
	watched := slices.Contains([]string{"", "writes", "settings", "runs"}, e.Does)
	var before map[string]string
	if watched {
		before = s.digest(t)
	}

	argv := s.expandAll(e.Argv)
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-c", s.expand(e.Line)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), lineTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.cwd(e), s.environ(s.expandAll(e.Env)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A file, so that what was printed is there however busy the machine is.
	printed, err := os.Create(filepath.Join(s.base, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	cmd.Stdout, cmd.Stderr = printed, printed
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Second); syscall.Kill(-cmd.Process.Pid, 0) == nil && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond) // what it left behind may do what it says
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	output, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatal(err)
	}
	r := run{fixture: s, output: string(output), status: cmd.ProcessState.ExitCode()}
	r.connected = e.Does == "connects" && testkit.Poll(func() bool { return connections.Load() > 0 }) // accepted after the command ended, perhaps
	if watched {
		r.changed = changed(before, s.digest(t))
	}
	if ctx.Err() != nil {
		r.output += fmt.Sprintf("\n(it ran for %s)", lineTimeout)
	}
	if victim != nil {
		r.ended = e.Does == "ends" && testkit.Poll(func() bool { return !alive(victim.Process.Pid) })
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}
	return r
}

// alive reports whether a child runs: it has not ended, and is not stopped.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	return bytes.HasPrefix(state, []byte("S")) || bytes.HasPrefix(state, []byte("R"))
}

// listen counts connections to a port until the test ends.
func listen(t testing.TB, connections *atomic.Int32) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.0 404 Not Found\r\n\r\n")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}
