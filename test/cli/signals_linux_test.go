package cli_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestCommands_EndOnSignalWithFrozenPeer sends a signal to commands that wait for a stopped supervisor.
func TestCommands_EndOnSignalWithFrozenPeer(t *testing.T) {
	// Not in parallel: while its supervisor is frozen, commands of other tests cannot find out that it is not their
	// supervisor.
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	prompt := wire.Command(t, e2e.Program("acphost"), "sessions", "prompt", id, "/wait", "--json")
	prompt.Dir, prompt.Env = p.Work, p.Env()
	out, err := prompt.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := prompt.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for waits := false; !waits; waits = strings.Contains(lines.Text(), "waiting") {
		if !lines.Scan() {
			t.Fatal("sessions prompt ended before the agent waited")
		}
	}
	testkit.Freeze(t, s.PID())
	ends := func(signal syscall.Signal, process interface{ Signal(syscall.Signal) error }, wait func() error) {
		t.Helper()
		done := make(chan struct{})
		go func() { defer close(done); _ = wait() }()
		begun := time.Now()
		if err := process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		case <-testkit.After():
			t.Fatalf("the command did not end after %v", signal)
		}
		if took, most := time.Since(begun), testkit.Scale(2*time.Second); took > most {
			t.Errorf("the command ended %v after %v, want at most %v", took, signal, most)
		}
	}
	ends(syscall.SIGTERM, pidSignal(prompt.Process.Pid), prompt.Wait)
	for _, args := range [][]string{
		{"sessions", "watch", id}, {"sessions", "prompt", id, "hello"}, {"sessions", "cancel", id}, {"approvals", "list"},
		{"ps"}, {"health"}, {"agents", "running"}, {"files"}, {"files", "--watch"}, {"handler", "list"}, {"terminals", "list"}, {"top"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(strings.Join(args[:min(2, len(args))], " ")+" "+signal.String(), func(t *testing.T) {
				cmd := wire.Command(t, e2e.Program("acphost"), args...)
				cmd.Dir, cmd.Env = p.Work, p.Env()
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				testkit.Eventually(t, "the command has connected", func() bool { return hasSocket(cmd.Process.Pid) })
				ends(signal, pidSignal(cmd.Process.Pid), cmd.Wait)
				if got, want := cmd.ProcessState.ExitCode(), 128+int(signal); got != want {
					t.Errorf("the exit status is %d, want %d", got, want)
				}
			})
		}
	}
	t.Run("chat --attach", func(t *testing.T) {
		x := p.Terminal(t, []string{e2e.Program("acphost"), "chat", "--attach", id})
		var pids []int
		testkit.Eventually(t, "the chat has connected", func() bool {
			pids = named(t, p, "acphost", "chat")
			return len(pids) == 1 && hasSocket(pids[0])
		})
		begun := time.Now()
		if err := syscall.Kill(pids[0], syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if got := x.Exits(); got != 143 {
			t.Errorf("the exit status is %d, want 143", got)
		}
		if took, most := time.Since(begun), testkit.Scale(2*time.Second); took > most {
			t.Errorf("the command ended %v after SIGTERM, want at most %v", took, most)
		}
	})
	if err := syscall.Kill(s.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// The turn continues without the caller that prompted. TERM would abort it if the agent is slow, and make the
	// status 1.
	if _, err := s.Sessions.CancelPrompt(s.Ctx, &supervisorv1.CancelPromptRequest{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the turn has ended", func() bool { return !s.InTurn() })
	s.Finish()
}

// TestCommands_ReportSignal sends a signal to commands that wait for their standard input.
func TestCommands_ReportSignal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"policy", "check", "-"}, {"prompt", "-", "--", e2e.Program("demoagent")}} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
			t.Run(args[0]+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				p := e2e.NewPlace(t)
				cmd := wire.Command(t, e2e.Program("acphost"), args...)
				cmd.Dir, cmd.Env = p.Work, p.Env()
				read, write, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer write.Close()
				cmd.Stdin = read
				var printed bytes.Buffer
				cmd.Stdout, cmd.Stderr = &printed, &printed
				err = cmd.Start()
				_ = read.Close()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := write.WriteString("words"); err != nil {
					t.Fatal(err)
				}
				testkit.Eventually(t, "the command has read what there is", func() bool {
					unread, err := unix.IoctlGetInt(int(write.Fd()), unix.TIOCINQ)
					return err == nil && unread == 0
				})
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if got, want := cmd.ProcessState.ExitCode(), 128+int(signal); got != want {
					t.Errorf("the exit status is %d, want %d", got, want)
				}
				if strings.Contains(printed.String(), "goroutine") {
					t.Errorf("the command dumps its goroutines:\n%s", printed.String())
				}
			})
		}
	}
}

// TestFollowers_ReportSignal sends a signal to commands that print events until they are ended.
func TestFollowers_ReportSignal(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Policy(t, "version: 1\nrules: [{id: all, effect: allow, on: [tool.execute, terminal.create]}]\n", ""))
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	p.File(t, "notes.md", "words\n")
	s.Prompt(id, "repeat hello @notes.md").Stopped("end_turn")
	p.Acphost(t, 0, "sessions", "prompt", id, "/run echo begun; sleep 1000", "--detach")
	type terminal struct {
		ID string `json:"terminal_id"`
	}
	var terminals []terminal
	testkit.Eventually(t, "a command runs", func() bool {
		var err error
		terminals, err = testkit.JSONLines[terminal]([]byte(p.Acphost(t, 0, "terminals", "list", "--json")))
		return err == nil && len(terminals) == 1
	})
	for _, args := range [][]string{
		{"audit", "tail", "-f"}, {"audit", "tail", "-f", "--json"}, {"sessions", "watch", id}, {"sessions", "show", id, "--follow"},
		{"files", "--watch", "--json"}, {"terminals", "tail", terminals[0].ID},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(strings.Join(slices.DeleteFunc(slices.Clone(args), func(word string) bool { return len(word) > 20 }), " ")+" "+signal.String(), func(t *testing.T) {
				cmd := wire.Command(t, e2e.Program("acphost"), args...)
				cmd.Dir, cmd.Env = p.Work, p.Env()
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := out.Read(make([]byte, 1)); err != nil { // it has connected, and goes on
					t.Fatalf("%v has printed nothing: %v", args, err)
				}
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, out)
				_ = cmd.Wait()
				if got, want := cmd.ProcessState.ExitCode(), 128+int(signal); got != want {
					t.Errorf("the exit status is %d, want %d", got, want)
				}
			})
		}
	}
	s.Finish()
}

// TestScreens_ReportSignal sends a signal to commands that have a terminal.
func TestScreens_ReportSignal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, runs string }{
		"top":     {"exec " + e2e.Program("acphost") + " top", ""},
		"a pager": {"stty rows 4; exec " + e2e.Program("acphost") + " agents list", "sleep"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(name+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				p := e2e.NewPlace(t)
				x := p.Terminal(t, []string{"sh", "-c", c.script}, "ACPHOST_PAGER=sleep 1000")
				if c.runs == "" {
					x.Shows("q leaves")
				} else {
					testkit.Eventually(t, "the pager runs", func() bool { return len(named(t, p, c.runs)) == 1 })
				}
				for _, pid := range named(t, p, "acphost") {
					if err := syscall.Kill(pid, signal); err != nil {
						t.Fatal(err)
					}
				}
				if got, want := x.Exits(), 128+int(signal); got != want {
					t.Errorf("the exit status is %d, want %d", got, want)
				}
			})
		}
	}
}

// hasSocket reports whether a process has a socket open.
func hasSocket(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(files, func(file string) bool {
		target, err := os.Readlink(file)
		return err == nil && strings.HasPrefix(target, "socket:")
	})
}

type pidSignal int

func (p pidSignal) Signal(signal syscall.Signal) error { return syscall.Kill(int(p), signal) }

// TestServe_EndsTurnsWithLargeMessages has an agent send messages around the size limit, and more than a slow reader
// may have pending.
func TestServe_EndsTurnsWithLargeMessages(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	for _, c := range []struct {
		mib   string
		whole bool
	}{{"8", true}, {"33", false}} {
		watching := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: id})
		turn := s.Prompt(id, "/big "+c.mib)
		turn.Stopped("end_turn")
		if whole := len(turn.Said()) >= 8<<20; whole != c.whole {
			t.Errorf("big %s: the caller got %d bytes, whole: %t, want %t", c.mib, len(turn.Said()), whole, c.whole)
		}
		if gaps := e2e.Kinds(turn.Seen)["gap"]; (gaps == 0) != c.whole {
			t.Errorf("big %s: the caller got %d gaps", c.mib, gaps)
		}
		watching.Until("the turn's end", func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil })
		if status, _, errs := p.Cli(t, "sessions", "prompt", id, "/big "+c.mib, "--json"); status != 0 {
			t.Errorf("sessions prompt big %s: exit status %d: %s", c.mib, status, errs)
		}
	}
	s.Finish()
}

// stubborn is the command line of an agent that ignores signals and the end of its input, with a process that has left
// its session. It speaks through the demo agent; without, it never answers.
func stubborn(agent ...string) []string {
	return append([]string{"sh", "-c", `trap "" TERM INT HUP; (setsid sleep 1000 &); "$@"; while :; do sleep 1000; done`, "sh"}, agent...)
}

// TestCommands_EndOnSignal sends a signal to commands that have an agent and handlers, in every state of these.
func TestCommands_EndOnSignal(t *testing.T) {
	t.Parallel()
	demoagent := []string{e2e.Program("demoagent")}
	handlers := []string{"fsd", "termd", "permd"}
	for _, c := range []struct {
		name   string
		agent  []string
		words  string
		says   string // the turn is active when the agent has sent it; "": when a process of the program runs
		runs   string
		freeze []string
	}{
		{"turn goes on", demoagent, "hang", "hanging", "", nil},
		{"agent is frozen", demoagent, "hang", "hanging", "", []string{"demoagent"}},
		{"handlers are frozen", demoagent, "hang", "hanging", "", handlers},
		{"all is frozen", demoagent, "hang", "hanging", "", append(handlers, "demoagent")},
		{"agent ignores signals", stubborn(demoagent...), "hang", "hanging", "", nil},
		{"command ignores signals", demoagent, `/run trap "" TERM; echo begun; while :; do sleep 1000; done`, "", "sleep", nil},
		{"agent does not start", stubborn("true"), "", "", "sleep", nil},
		{"agent and handlers do not start", stubborn("true"), "", "", "sleep", handlers},
	} {
		for _, command := range []string{"prompt", "run", "serve", "serve with a client"} {
			for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
				starts := c.words == ""
				if command == "serve with a client" && starts || command == "serve" && !starts || signal == syscall.SIGINT && c.freeze == nil {
					continue
				}
				t.Run(command+"/"+c.name+"/"+signal.String(), func(t *testing.T) {
					t.Parallel()
					p := e2e.NewPlace(t)
					var process *wire.Process
					switch command {
					case "prompt":
						process = wire.Start(t, wire.Options{Name: "caller", Dir: p.Work, Env: p.Env(), Command: append([]string{e2e.Program("acphost"), "prompt", "--json", cmp.Or(c.words, "hang"), "--"}, c.agent...)})
					case "run":
						h := p.Start(t, nil, c.agent)
						process = h.Process
						call := h.Initialize(`{}`)
						if !starts {
							call.Result(nil)
							var opened struct{ SessionID string }
							h.Request("session/new", map[string]any{"cwd": p.Work, "mcpServers": []any{}}, &opened)
							h.Send("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": c.words}}})
						}
					case "serve":
						process = wire.Start(t, wire.Options{Name: "keeper", Dir: p.Work, Env: p.Env(), Command: append([]string{e2e.Program("acphost"), "serve", "--"}, c.agent...)})
					default:
						s := p.Serve(t, nil)
						process = s.Process
						request := p.Demo()
						request.Command = c.agent
						turn := s.Prompt(s.Open(s.Start(request).GetId()).GetSessionId(), c.words)
						turn.Until("the agent's words", func(e *supervisorv1.Event) bool { return strings.Contains(e.String(), c.says) })
					}
					switch {
					case c.runs != "":
						testkit.Eventually(t, c.runs+" runs", func() bool { return len(running(t, process.PID(), c.runs)) > 0 })
					case command != "serve with a client":
						process.ExpectWhere("the agent's words", func(m wire.Message) bool { return strings.Contains(string(m.Raw), c.says) })
					}
					family := familyOf(t, process.PID())
					for _, name := range c.freeze {
						for _, pid := range running(t, process.PID(), name) {
							testkit.Freeze(t, pid)
						}
					}
					begun := time.Now()
					e2e.Send(t, process, signal)
					process.ExpectExit()
					if took, most := time.Since(begun), testkit.Scale(1300*time.Millisecond); took > most {
						t.Errorf("the command ended %v after %v, want at most %v", took, signal, most)
					}
					if left := alive(t, p, family); len(left) > 0 {
						t.Errorf("processes are left when the command has ended:\n%s", wire.Describe(left))
					}
				})
			}
		}
	}
}

// running are the processes below one that run a program of this name.
func running(t *testing.T, parent int, name string) (pids []int) {
	t.Helper()
	for _, pid := range familyOf(t, parent) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		words := strings.Split(string(line), "\x00")
		if filepath.Base(words[0]) == filepath.Base(name) && (len(words) < 2 || !strings.HasPrefix(words[1], "guard")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive are those of some processes, and of the processes of a place, that have not ended. It leaves out termd's
// guards, which end by themselves when they see that nothing is left.
func alive(t *testing.T, p *e2e.Place, pids []int) (left []int) {
	t.Helper()
	marked, err := proc.WithEnviron("HOME=" + p.Home)
	if err != nil {
		t.Fatal(err)
	}
	all, err := proc.Descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(marked, pids...) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if it has ended
		if slices.Contains(all, pid) && len(line) > 0 && !bytes.Contains(line, []byte("guard-of-terminals")) && !slices.Contains(left, pid) {
			left = append(left, pid)
		}
	}
	return left
}

// TestChatAndDemo_EndOnSignal is TestCommands_EndOnSignal for chat, which needs a terminal, and for demo, which runs
// another command.
func TestChatAndDemo_EndOnSignal(t *testing.T) {
	t.Parallel()
	ended := func(t *testing.T, p *e2e.Place, pid int) {
		t.Helper()
		begun := time.Now()
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the command has ended", func() bool {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty, or missing, if it has ended
			return len(line) == 0
		})
		if took, most := time.Since(begun), testkit.Scale(1300*time.Millisecond); took > most {
			t.Errorf("the command ended %v after SIGTERM, want at most %v", took, most)
		}
		for _, name := range []string{"sleep", "demoagent", "fsd"} {
			if left := named(t, p, name); len(left) > 0 {
				t.Errorf("processes are left when the command has ended:\n%s", wire.Describe(left))
			}
		}
	}
	t.Run("chat", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		p.Terminal(t, append([]string{e2e.Program("acphost"), "chat", "--"}, stubborn(e2e.Program("demoagent"))...))
		var pids []int
		testkit.Eventually(t, "the agent runs", func() bool {
			pids = named(t, p, "acphost", "chat")
			return len(pids) == 1 && len(named(t, p, "demoagent")) > 0 && len(named(t, p, "sleep")) > 0
		})
		ended(t, p, pids[0])
	})
	t.Run("demo", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		demo := wire.Start(t, wire.Options{Name: "caller", Command: []string{e2e.Program("acphost"), "demo"}, Dir: p.Work, Env: p.Env()})
		testkit.Eventually(t, "a handler runs", func() bool { return len(running(t, demo.PID(), "fsd")) > 0 })
		for _, pid := range running(t, demo.PID(), "fsd") {
			testkit.Freeze(t, pid)
		}
		ended(t, p, demo.PID())
	})
	t.Run("demo with frozen children", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		demo := wire.Start(t, wire.Options{Name: "caller", Command: []string{e2e.Program("acphost"), "demo"}, Dir: p.Work, Env: p.Env()})
		testkit.Eventually(t, "a handler runs", func() bool { return len(running(t, demo.PID(), "fsd")) > 0 })
		for _, name := range []string{"acphost", "fsd"} { // the supervisor first, so that it starts nothing more
			for _, pid := range running(t, demo.PID(), name) {
				testkit.Freeze(t, pid)
			}
		}
		ended(t, p, demo.PID())
	})
}

// named are the processes of a place that run a program of this name, with these first words.
func named(t *testing.T, p *e2e.Place, name string, words ...string) (pids []int) {
	t.Helper()
	all, err := proc.WithEnviron("HOME=" + p.Home)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		argv := strings.Split(string(line), "\x00")
		if filepath.Base(argv[0]) == name && slices.Equal(argv[1:min(len(argv), 1+len(words))], words) {
			pids = append(pids, pid)
		}
	}
	return pids
}
