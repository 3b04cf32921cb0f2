package agent_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

func TestExit_StatusOfAgent(t *testing.T) {
	for script, want := range map[string]struct {
		reason agent.Reason
		status int
		signal string
	}{
		"exit 0":              {agent.Exited, 0, ""},
		"exit 3":              {agent.Exited, 3, ""},
		"exit 255":            {agent.Exited, 255, ""},
		"exit 127":            {agent.NotFound, 127, ""},
		"no-such-command-xyz": {agent.NotFound, 127, ""},
		"kill -KILL $$":       {agent.Signalled, 137, "SIGKILL"},
		"kill -SEGV $$":       {agent.Signalled, 139, "SIGSEGV"},
	} {
		t.Run(script, func(t *testing.T) {
			got := wait(t, start(t, script))
			if got.Reason != want.reason || got.Status() != want.status || got.Signal != want.signal {
				t.Errorf("exit = %+v (status %d), want %+v", got, got.Status(), want)
			}
		})
	}
}

func TestExit_ErrorQuotesLastOutput(t *testing.T) {
	got := wait(t, start(t, "echo one >&2; echo 'cannot connect' >&2; exit 3"))
	if want := `agent "test" exited with status 3; its last error output: cannot connect`; got.Error() != want {
		t.Errorf("error = %q, want %q", got.Error(), want)
	}
	if want := []string{"one", "cannot connect"}; !slices.Equal(got.Tail, want) {
		t.Errorf("tail = %q, want %q", got.Tail, want)
	}
	got = wait(t, start(t, "echo 'acphost: refused: write /h/.cache/x' >&2; echo '}' >&2; exit 1"))
	if want := `agent "test" exited with status 1; its error output has: acphost: refused: write /h/.cache/x; its last error output: }`; got.Error() != want {
		t.Errorf("error = %q, want %q", got.Error(), want)
	}
}

func TestStart_ReportsReason(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	broken := filepath.Join(dir, "broken")
	for name, text := range map[string]string{plain: "text", broken: "#!/no/such/interpreter\n"} {
		mode := os.FileMode(0o600)
		if name == broken {
			mode = 0o700
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		spec   agent.Spec
		reason agent.Reason
		status int
		words  string
	}{
		"a command that is nowhere in PATH":   {agent.Spec{Command: []string{"no-such-agent"}}, agent.NotFound, 127, "command not found"},
		"a path that leads nowhere":           {agent.Spec{Command: []string{"/no/such/agent"}}, agent.NotFound, 127, "command not found"},
		"a path through a file":               {agent.Spec{Command: []string{plain + "/agent"}}, agent.NotFound, 127, "command not found"},
		"a file that is not executable":       {agent.Spec{Command: []string{plain}}, agent.StartFailed, 126, "not executable; chmod +x " + plain},
		"a folder":                            {agent.Spec{Command: []string{dir}}, agent.StartFailed, 126, "folder"},
		"a script without its interpreter":    {agent.Spec{Command: []string{broken}}, agent.NotFound, 127, "interpreter"},
		"a working directory that is missing": {agent.Spec{Command: []string{"true"}, Dir: dir + "/none"}, agent.StartFailed, 126, "working directory"},
		"a working directory that is a file":  {agent.Spec{Command: []string{"true"}, Dir: plain}, agent.StartFailed, 126, "working directory"},
		"no command":                          {agent.Spec{}, agent.StartFailed, 126, "no command"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fails(t, tc.spec)
			if got.Reason != tc.reason || got.Status() != tc.status || !strings.Contains(got.Error(), tc.words) {
				t.Errorf("exit = %+v (%v, status %d), want %s, %d, with %q", got, got, got.Status(), tc.reason, tc.status, tc.words)
			}
		})
	}
}

func TestStart_FindsCommandInClientPath(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "my-agent")
	if err := os.WriteFile(script, []byte("echo \"$0 $1\""), 0o700); err != nil { // no first line: execvp takes a shell
		t.Fatal(err)
	}
	for name, change := range map[string]func(*agent.Spec){
		"in the PATH of its own environment":     func(s *agent.Spec) { s.Command[0] = "my-agent"; s.Env = []string{"PATH=/none:" + dir} },
		"in a relative PATH":                     func(s *agent.Spec) { s.Command[0] = "my-agent"; s.Env = []string{"PATH=."}; s.Dir = dir },
		"relative to its own working directory":  func(s *agent.Spec) { s.Command[0] = "./my-agent"; s.Dir = dir },
		"by absolute path with no PATH anywhere": func(s *agent.Spec) { s.Command[0] = script; s.Env = []string{} },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "", func(s *agent.Spec) { s.Command = []string{"", "arg"}; change(s) })
			if got := say(t, p); got != script+" arg" {
				t.Errorf("it ran as %q, want %q", got, script+" arg")
			}
		})
	}
}

func TestStart_EnvironmentIsClientsAndMark(t *testing.T) {
	p := start(t, "env; pwd", func(s *agent.Spec) { s.Env = []string{"A=1", "PATH=/bin:/usr/bin", "B=x y"}; s.Dir = "/usr" })
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	var marks, others []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		switch name, _, _ := strings.Cut(line, "="); {
		case strings.HasPrefix(name, "ACPHOST_AGENT_"):
			marks = append(marks, line)
		case name == "PWD" || name == "_" || name == "SHLVL": // the shell's own
		default:
			others = append(others, line)
		}
	}
	slices.Sort(others)
	if want := []string{"/usr", "A=1", "B=x y", "PATH=/bin:/usr/bin"}; !slices.Equal(others, want) {
		t.Errorf("environment and folder = %q, want %q", others, want)
	}
	if len(marks) != 1 {
		t.Errorf("marks = %q, want one", marks)
	}
}

func TestAgent_NoticesEndOfStdin(t *testing.T) {
	p := start(t, `cat; echo "end of input"`)
	if _, err := io.WriteString(p.Stdin(), "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got := say(t, p); got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if got := say(t, p); got != "end of input" {
		t.Errorf("got %q, want that it saw the end", got)
	}
	if got := wait(t, p); got.Status() != 0 || got.Stopped {
		t.Errorf("exit = %+v, want 0, of its own accord", got)
	}
}

func TestAgent_ClosedStdoutIsNoticed(t *testing.T) {
	p := start(t, `exec >&-; sleep 1000`)
	if err := p.Stdout().SetReadDeadline(time.Now().Add(testkit.Timeout())); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(p.Stdout()); err != nil || len(out) != 0 {
		t.Errorf("read %q, %v, want the end of the stream", out, err)
	}
	select {
	case <-p.Done():
		t.Error("the agent ended")
	default:
	}
}

func TestAgent_ClosedStdinFailsWrites(t *testing.T) {
	p := start(t, `exec <&-; echo closed; sleep 1000`)
	say(t, p)
	if _, err := io.WriteString(p.Stdin(), "x\n"); err == nil {
		t.Error("no error: somebody else holds the agent's stdin")
	}
}

func TestStderr_PassesBurstAndKeepsTail(t *testing.T) {
	var got buffer
	p := start(t, `awk 'BEGIN { for (i = 0; i < 16384; i++) printf "%063d\n", i > "/dev/stderr" }'; exit 4`, func(s *agent.Spec) { s.Stderr = &got })
	exit := wait(t, p)
	if n := len(got.Bytes()); n != 1<<20 {
		t.Errorf("passed on %d bytes, want %d", n, 1<<20)
	}
	if len(exit.Tail) != 20 || strings.TrimLeft(exit.Tail[19], "0") != "16383" {
		t.Errorf("tail = %d lines, want 20 that end with 16383", len(exit.Tail))
	}
}

// blocked is a reader of stderr that never reads.
type blocked struct{ release chan struct{} }

func (b blocked) Write(p []byte) (int, error) { <-b.release; return len(p), nil }

func TestStderr_StuckReaderDelaysNothing(t *testing.T) {
	b := blocked{make(chan struct{})}
	defer close(b.release)
	p := start(t, `head -c 2000000 /dev/zero | tr '\0' x >&2 & echo started; echo last words >&2; sleep 1000`, func(s *agent.Spec) { s.Stderr = b })
	say(t, p)
	if exit := stop(t, p); exit.Signal != "SIGTERM" {
		t.Errorf("exit = %+v, want SIGTERM", exit)
	}
}

func TestStop_ClosesStdinFirst(t *testing.T) {
	p := start(t, `trap 'exit 9' TERM; cat >/dev/null; exit 5`, func(s *agent.Spec) { s.StopGrace = time.Minute })
	if exit := stop(t, p); exit.Code != 5 || !exit.Stopped {
		t.Errorf("exit = %+v, want 5 at the end of stdin", exit)
	}
}

func TestStop_SendsSIGTERMAfterStdin(t *testing.T) {
	p := start(t, `trap 'exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done`)
	say(t, p)
	if exit := stop(t, p); exit.Code != 9 {
		t.Errorf("exit = %+v, want 9, from its handler of SIGTERM", exit)
	}
}

func TestStop_KillsAgentThatIgnoresSignals(t *testing.T) {
	p := start(t, `trap '' TERM HUP INT; echo ready; while :; do sleep 1000; done`)
	say(t, p)
	if exit := stop(t, p); exit.Signal != "SIGKILL" {
		t.Errorf("exit = %+v, want SIGKILL", exit)
	}
}

func TestStop_EndsStoppedAgent(t *testing.T) {
	p := start(t, `echo ready; kill -STOP $$; sleep 1000`)
	say(t, p)
	stop(t, p)
}

func TestStop_CancelledContextKillsAtOnce(t *testing.T) {
	p := start(t, `trap '' TERM; echo ready; while :; do sleep 1000; done`, func(s *agent.Spec) { s.StopGrace = time.Hour })
	say(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != "SIGKILL" {
		t.Errorf("exit = %+v, want SIGKILL", exit)
	}
}

func TestStop_IsSafeForConcurrentUse(t *testing.T) {
	p := start(t, `cat`)
	errs := make(chan error)
	for range 4 {
		go func() { errs <- p.Stop(t.Context()) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAgent_PassesLargeMessages(t *testing.T) {
	p := start(t, `cat`)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() { _, _ = p.Stdin().Write(want); _ = p.Stdin().Close() }()
	got, err := io.ReadAll(p.Stdout())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v, want the %d that were sent", len(got), err, len(want))
	}
}
