package protocol_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/coder/acp-go-sdk"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// goEditor is an editor on coder/acp-go-sdk. It serves nothing, and allows what it is asked.
type goEditor struct {
	acp.Client // whatever is not below must not be asked of it

	mu    sync.Mutex
	words strings.Builder
	came  chan struct{} // gets a value, if it has room, when the agent sends a message
	asked int
}

func (e *goEditor) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	if c := n.Update.AgentMessageChunk; c != nil && c.Content.Text != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.words.WriteString(c.Content.Text.Text)
		select {
		case e.came <- struct{}{}:
		default:
		}
	}
	return nil
}

func (e *goEditor) RequestPermission(_ context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	for _, o := range r.Options {
		if o.Kind == acp.PermissionOptionKindAllowOnce {
			return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(o.OptionId)}, nil
		}
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, nil
}

// said returns the agent's message since the last call.
func (e *goEditor) said() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.words.Reset()
	return e.words.String()
}

// goSession is a session of the scripted agent with an editor on coder/acp-go-sdk.
type goSession struct {
	t      *testing.T
	conn   *acp.ClientSideConnection
	editor *goEditor
	id     acp.SessionId
}

func newGoSession(t *testing.T, p *e2e.Place) *goSession {
	t.Helper()
	cmd := exec.Command(e2e.Program("acphost"), "run", "--", e2e.Program("demoagent"))
	cmd.Dir, cmd.Env, cmd.Stderr = p.Work, p.Env(), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &goSession{t: t, editor: &goEditor{came: make(chan struct{}, 1)}}
	s.conn = acp.NewClientSideConnection(s.editor, in, out)
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-s.conn.Done():
		case <-testkit.After():
			t.Error("acphost did not close its output after its editor had gone")
			_ = cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("acphost: %v", err)
		}
	})
	initialized, err := s.conn.Initialize(wire.Context(t), acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber})
	if err != nil {
		t.Fatal(err)
	}
	if initialized.AgentInfo == nil || initialized.AgentInfo.Name != "demoagent" {
		t.Errorf("the agent calls itself %v", initialized.AgentInfo)
	}
	opened, err := s.conn.NewSession(wire.Context(t), acp.NewSessionRequest{Cwd: p.Work, McpServers: []acp.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	s.id = opened.SessionId
	return s
}

// prompt plays a turn and returns the agent's message.
func (s *goSession) prompt(text string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testkit.Timeout())
	defer cancel()
	r, err := s.conn.Prompt(ctx, acp.PromptRequest{SessionId: s.id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	if r.StopReason != acp.StopReasonEndTurn {
		s.t.Errorf("%s: the turn ended with %q", text, r.StopReason)
	}
	return s.editor.said()
}

func TestGoSDK_EditorAndAgentWorkTogether(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "what a holds\n")
	s := newGoSession(t, p)
	for _, c := range []struct{ prompt, want string }{
		{"/read " + p.Path("a.txt"), "read ok: what a holds\n"},
		{"/read " + p.Path("missing"), "read error -32002: Resource not found: " + p.Path("missing")},
		{"/read /etc/passwd", "read error -32602: Path escapes workspace: /etc/passwd"},
		{"/read relative.txt", "read error -32602: "},
		{"/write " + p.Path("deep/er/b.txt") + " written", "write ok: done"},
		{"/ask " + p.Path("a.txt"), "ask ok: allow"},
		{"/run echo hello; exit 4", "run ok: exit 4: hello\n"},
		{"/flood 200 " + p.Path("a.txt"), "flood ok: 200 reads, 2600 bytes"},
		{"/cancel sleep 1000", "cancel ok: SIGTERM"},
		{"/echo hi", "echo error -32601: "},
	} {
		if got := s.prompt(c.prompt); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.prompt, got, c.want)
		}
	}
	if got, err := os.ReadFile(p.Path("deep/er/b.txt")); err != nil || string(got) != "written" {
		t.Errorf("b.txt holds %q (%v)", got, err)
	}
	if s.editor.asked != 1 {
		t.Errorf("the editor was asked %d times, want once", s.editor.asked)
	}
	if got := s.prompt("/big 5"); len(got) != 5<<20 {
		t.Errorf("of 5 MiB %d bytes arrived", len(got))
	}
}

func TestGoSDK_CancelledTurnEnds(t *testing.T) {
	t.Parallel()
	s := newGoSession(t, e2e.NewPlace(t))
	ended := make(chan error, 1)
	go func() {
		r, err := s.conn.Prompt(wire.Context(t), acp.PromptRequest{SessionId: s.id, Prompt: []acp.ContentBlock{acp.TextBlock("/wait")}})
		if err == nil && r.StopReason != acp.StopReasonCancelled {
			err = fmt.Errorf("the turn ended with %q, want cancelled", r.StopReason)
		}
		ended <- err
	}()
	deadline := testkit.After()
	select {
	case <-s.editor.came:
	case <-deadline:
		t.Fatal("the turn did not begin")
	}
	if err := s.conn.Cancel(wire.Context(t), acp.CancelNotification{SessionId: s.id}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-deadline:
		t.Error("the cancelled turn did not end")
	}
}
