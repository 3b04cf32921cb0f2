//go:build linux || darwin

package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/tui/chat"
)

func TestChat_UsageErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		call   commandtest.Call
		status int
		stderr string
	}{
		{"without an agent", []string{"chat"}, commandtest.Call{Terminal: true}, command.StatusUsage, "which agent?"},
		{"with a command that has no dashes before it", []string{"chat", "gemini", "--acp"}, commandtest.Call{Terminal: true}, command.StatusUsage, "unknown flag"},
		{"with a word before the dashes", []string{"chat", "gemini", "--", "x"}, commandtest.Call{Terminal: true}, command.StatusUsage, `put "--" before`},
		{"with a folder that is not there", []string{"chat", "--cwd", "/none", "--", "x"}, commandtest.Call{Terminal: true, Env: map[string]string{"TERM": "xterm"}}, command.StatusUsage, "--cwd"},
		{"without a terminal", []string{"chat", "--", "x"}, commandtest.Call{Env: map[string]string{"TERM": "xterm"}}, command.StatusFailed, `"acphost prompt"`},
		{"to join no session", []string{"chat", "--attach", ""}, commandtest.Call{Terminal: true}, command.StatusUsage, "which session?"},
		{"to join with a command", []string{"chat", "--attach", "s", "--", "x"}, commandtest.Call{Terminal: true}, command.StatusUsage, "takes no command"},
		{"to join with a flag of agents", []string{"chat", "--attach", "s", "--mode", "plan"}, commandtest.Call{Terminal: true}, command.StatusUsage, "takes no --mode"},
		{"to join with no history there is", []string{"chat", "--attach", "s", "--history", "some"}, commandtest.Call{Terminal: true}, command.StatusUsage, "full, pending or none"},
		{"to join at no gateway", []string{"chat", "--attach", "s", "--connect", "wss://host/other"}, commandtest.Call{Terminal: true}, command.StatusUsage, "such as wss://acp.example.org/acp"},
		{"to join without TLS", []string{"chat", "--attach", "s", "--connect", "ws://host/acp"}, commandtest.Call{Terminal: true}, command.StatusUsage, "write wss://"},
		{"to join here and there", []string{"chat", "--attach", "s", "--connect", "wss://host/acp", "--pid", "1"}, commandtest.Call{Terminal: true}, command.StatusUsage, "one of them"},
		{"with a token without use", []string{"chat", "--attach", "s", "--token-file", "x"}, commandtest.Call{Terminal: true}, command.StatusUsage, "is for --connect"},
		{"at a gateway without a session", []string{"chat", "--connect", "wss://host/acp", "--", "x"}, commandtest.Call{Terminal: true}, command.StatusUsage, "are for --attach"},
		{"with a history of nothing", []string{"chat", "--history", "none", "--", "x"}, commandtest.Call{Terminal: true}, command.StatusUsage, "are for --attach"},
		{"to join without a terminal", []string{"chat", "--attach", "s"}, commandtest.Call{Env: map[string]string{"TERM": "xterm"}}, command.StatusFailed, "needs a terminal"},
		{"to join where nothing runs", []string{"chat", "--attach", "s"}, commandtest.Call{Terminal: true, Env: map[string]string{"TERM": "xterm"}}, command.StatusFailed, "no acphost runs that has a session s"},
		{"on a terminal that cannot move its cursor", []string{"chat", "--", "x"}, commandtest.Call{Terminal: true, Env: map[string]string{"TERM": "dumb"}}, command.StatusFailed, `"acphost prompt"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := tt.call.Run(t, newCommand, tt.args...)
			if status != tt.status || !strings.Contains(stderr, tt.stderr) || stdout != "" {
				t.Errorf("status %d, want %d; stdout %q, stderr %q, want %q", status, tt.status, stdout, stderr, tt.stderr)
			}
		})
	}
}

// newCommand returns the command without a supervisor to start.
func newCommand(call *command.Call) *cobra.Command { return New(call, nil, nil) }

// chatConsole is a chat in a pseudo-terminal.
type chatConsole struct {
	t            *testing.T
	ours, theirs *os.File
	before       *term.State
	call         *command.Call
	ended        chan error
	stderr       string

	mu     sync.Mutex
	output strings.Builder
	more   chan struct{}
}

func openChat(t *testing.T, f *commandtest.Hosted) *chatConsole {
	t.Helper()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(ours, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// So that a read ends when the file is closed: setting the size has made it one that waits.
	if e := raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	c := &chatConsole{t: t, ours: ours, theirs: theirs, ended: make(chan error, 1), more: make(chan struct{}, 1)}
	if c.before, err = term.GetState(theirs.Fd()); err != nil {
		t.Fatal(err)
	}
	c.stderr = filepath.Join(t.TempDir(), "stderr")
	stderr, err := os.Create(c.stderr)
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	env := func(name string) string {
		return map[string]string{"TERM": "xterm-256color", "XDG_STATE_HOME": state}[name]
	}
	c.call = &command.Call{Stdin: theirs, Stdout: theirs, Stderr: stderr, Env: env, Terminal: output.IsTerminal}
	logs, err := newLogRelay(c.call)
	if err != nil {
		t.Fatal(err)
	}
	demo := &flags{SessionFlags: hosting.SessionFlags{Agent: "demo"}}
	var running sync.WaitGroup
	running.Go(c.read)
	running.Go(func() {
		r := &supervisorv1.StartAgentRequest{Preset: "demo", Cwd: t.TempDir()}
		c.ended <- runWith(context.Background(), c.call, nil, demo, r, "", "", logs, time.Minute, func(context.Context, context.Context) (hosting.Supervisor, error) { return f, nil })
	})
	t.Cleanup(func() {
		_ = theirs.Close()
		_ = ours.Close()
		running.Wait()
		logs.close()
		_ = stderr.Close()
	})
	return c
}

func (c *chatConsole) read() {
	buf := make([]byte, 4096)
	for {
		n, err := c.ours.Read(buf)
		c.mu.Lock()
		c.output.Write(buf[:n])
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (c *chatConsole) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ansi.Strip(c.output.String())
}

func (c *chatConsole) see(want string) {
	c.t.Helper()
	for deadline := testkit.After(); !strings.Contains(c.text(), want); {
		select {
		case <-c.more:
		case <-deadline:
			c.t.Fatalf("%q is not on the screen:\n%s", want, c.text())
		}
	}
}

func (c *chatConsole) write(text string) {
	c.t.Helper()
	if _, err := c.ours.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the end, checks that the terminal is as it was, and returns the exit status and standard error.
func (c *chatConsole) end() (status int, stderr string) {
	c.t.Helper()
	select {
	case err := <-c.ended:
		if err != nil {
			c.t.Error(err)
		}
	case <-testkit.After():
		c.t.Fatalf("the chat does not end; the screen:\n%s", c.text())
	}
	after, err := term.GetState(c.theirs.Fd())
	if err != nil || *after != *c.before {
		c.t.Errorf("the terminal is %+v, %v, was %+v", after, err, c.before)
	}
	printed, err := os.ReadFile(c.stderr)
	if err != nil {
		c.t.Error(err)
	}
	return c.call.Status, string(printed)
}

func TestChat_PrintsResumeCommand(t *testing.T) {
	f := commandtest.NewHosted(t)
	f.Can.LoadSession = true
	c := openChat(t, f)
	c.see("new session")
	c.write("hello\r")
	c.see("> hello")
	c.see("/help")
	c.write("\x04")
	status, stderr := c.end()
	if want := "go on with it: acphost chat --agent demo --session s1\n"; status != 0 || stderr != want {
		t.Errorf("status %d, stderr %q, want %q", status, stderr, want)
	}
	if !f.Closed() {
		t.Error("the supervisor was not closed")
	}
}

func TestChat_SignalEndsTurnAndSupervisor(t *testing.T) {
	f := commandtest.NewHosted(t)
	over := make(chan error, 1)
	f.Turn = func(ctx context.Context, _ func(*supervisorv1.Event)) error {
		<-ctx.Done()
		over <- ctx.Err()
		return ctx.Err()
	}
	c := openChat(t, f)
	c.see("new session")
	c.write("go\r")
	c.see("working")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil { // it is caught while the chat is there
		t.Fatal(err)
	}
	if status, stderr := c.end(); status != 128+int(syscall.SIGTERM) || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the turn ended with %v", err)
	}
}

func TestChat_ExitStatusOfStartErrors(t *testing.T) {
	for kind, want := range map[supervisorv1.ErrorKind]int{
		supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED:     command.StatusLogin,
		supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND: 127,
		supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED:      126,
		supervisorv1.ErrorKind_ERROR_KIND_CRASHED:           command.StatusFailed,
	} {
		if got := chatStatus(&chat.AgentError{Kind: kind}); got != want {
			t.Errorf("%v: got %d, want %d", kind, got, want)
		}
	}
}

func TestResumeCommand_OmitsUnsafeSessionID(t *testing.T) {
	f := &hosting.SessionFlags{Agent: "demo"}
	for id, want := range map[string]string{
		"s-1":           "acphost chat --agent demo --session s-1",
		"x; rm -rf ~":   "",
		"$(id)":         "",
		"\x1b[31m":      "",
		"-s":            "",
		"":              "",
		"a b":           "",
		"päth":          "",
		"2026/01:ab@=+": "acphost chat --agent demo --session 2026/01:ab@=+",
	} {
		r := chat.Result{Session: id, Reopens: id != "", Used: true}
		if got := reopen(f, nil, r); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}

func TestChat_SIGQUITRestoresTerminal(t *testing.T) {
	f := commandtest.NewHosted(t)
	c := openChat(t, f)
	c.see("new session")
	if err := syscall.Kill(os.Getpid(), syscall.SIGQUIT); err != nil { // it is caught while the chat is there
		t.Fatal(err)
	}
	if status, stderr := c.end(); status != 128+int(syscall.SIGQUIT) || stderr != "" || !f.Closed() {
		t.Errorf("status %d, stderr %q, the supervisor is closed: %t", status, stderr, f.Closed())
	}
}

func TestResumeCommand_KeepsMeta(t *testing.T) {
	for meta, want := range map[string]string{
		"@dir/options.json":   "acphost chat --meta @dir/options.json --agent demo --session s",
		`{"a": [1, "$(id)"]}`: `acphost chat --meta '{"a": [1, "$(id)"]}' --agent demo --session s`,
		`{"a": "it's"}`:       "",
		"{\"a\":\n1}":         "",
		`{"a": "ü"}`:          "",
		`{"a": "` + strings.Repeat("a", 200) + `"}`: "",
	} {
		got := reopen(&hosting.SessionFlags{Agent: "demo", Meta: meta}, nil, chat.Result{Session: "s", Reopens: true, Used: true})
		if got != want {
			t.Errorf("%q: got %q, want %q", meta, got, want)
		}
	}
}
