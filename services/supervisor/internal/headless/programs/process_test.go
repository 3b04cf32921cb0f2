package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	folded "github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// bot is an agent that is a process. It answers all prompts but "wait", and crashes on "crash".
func bot() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Prompt []struct{ Text string } }
		}
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = everything
		case "session/new":
			result = fmt.Sprintf(`{"sessionId":"of-%d"}`, os.Getpid())
		case "session/prompt":
			switch m.Params.Prompt[0].Text {
			case "wait":
				continue
			case "crash":
				fmt.Fprintln(os.Stderr, "this is the end")
				os.Exit(7)
			}
			result = `{"stopReason":"end_turn"}`
		case "session/cancel":
			continue
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result)
	}
}

// process is a Process whose agent is a real process.
type process struct {
	*agent.Process
	sessions *folded.Table
	link     *link.Link
	cancel   context.CancelFunc
	ended    chan struct{}
	reason   link.Reason
	cause    error
}

func (r *rig) startProcess(s Spec) (Process, error) {
	p, err := agent.Start(agent.Spec{
		Name: s.Identity.Name, Command: s.Command, Env: s.Env, Dir: s.Dir, Guard: []string{"/proc/self/exe", "guard"}, StopGrace: time.Second,
	})
	if err != nil {
		return nil, err
	}
	j := &process{Process: p, sessions: folded.New(folded.Options{}), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel = cancel
	l := r.link(s, processEnd{p}, j.sessions)
	j.link = l
	go func() {
		defer close(j.ended)
		j.reason, j.cause = l.Run(ctx)
		cancel()
		if err := p.Stop(context.Background()); err != nil {
			r.t.Error(err)
		}
		_ = p.Stdout().Close()
	}()
	return j, nil
}

func (p *process) Dropped() string { return p.link.Dropped() }

func (p *process) RefusedAtStart() string { return p.link.RefusedAtStart() }

func (p *process) Reported() acp.Initialized { return p.link.Reported() }

type processEnd struct{ *agent.Process }

func (p processEnd) Stdin() io.WriteCloser { return p.Process.Stdin() }
func (p processEnd) Stdout() io.Reader     { return p.Process.Stdout() }

func (p processEnd) Ended(ctx context.Context) (string, []byte) {
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	return p.Exit().String(), []byte(`{"acphost":{"kind":"crashed"}}`)
}

func (p *process) Forget(string) {}

func (p *process) Ended() <-chan struct{}            { return p.ended }
func (p *process) Sessions() []*supervisorv1.Session { return p.sessions.Snapshot() }
func (p *process) Reason() (link.Reason, error)      { <-p.ended; return p.reason, p.cause }

func (p *process) Stop(context.Context) error {
	p.cancel()
	<-p.ended
	return nil
}

func newProcessRig(t *testing.T) *rig {
	r := newRig(t, nil, func(o *Options) { o.Env = os.Environ() })
	r.real = true
	return r
}

func TestProcess_KilledDuringTurnIsRestarted(t *testing.T) {
	r := newProcessRig(t)
	resp, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{os.Args[0], "bot"}, Name: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	s := r.open("bot")
	first := int(resp.GetAgent().GetPid())
	var last *supervisorv1.TurnEnded
	if err := r.Prompt(t.Context(), promptOf(s.GetSessionId(), "wait"), func(e *supervisorv1.Event) error {
		if e.GetTurnStarted() != nil {
			return syscall.Kill(first, syscall.SIGKILL)
		}
		last = e.GetTurnEnded()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if last.GetError().GetKind() != crashedKind {
		t.Errorf("the turn ended with %v", last)
	}
	ag := r.until("bot", running, 1)
	if ag.GetPid() == 0 || int(ag.GetPid()) == first || len(ag.GetSessionIds()) != 1 {
		t.Errorf("it runs again: %v", ag)
	}
	events, err := r.prompt(s.GetSessionId(), "hi")
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, events, "started", "ended end_turn")
	if events, err = r.prompt(s.GetSessionId(), "crash"); err != nil {
		t.Fatal(err)
	}
	wantWords(t, events, "started", "failed CRASHED")
	ag = r.until("bot", running, 2)
	second := int(ag.GetPid())
	ag, err = r.StopAgent(t.Context(), "bot")
	if err != nil || ag.GetState() != stopped || ag.GetPid() != 0 {
		t.Errorf("stopped: %v, %v", ag, err)
	}
	for _, pid := range []int{first, second} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v, want none left", pid, err)
		}
	}
}

func TestProcess_NonAgentsFailToStart(t *testing.T) {
	r := newProcessRig(t)
	for name, tt := range map[string]struct {
		command  []string
		kind     supervisorv1.ErrorKind
		contains string
	}{
		"missing": {[]string{"acphost-test-is-not-there"}, notFoundKind, "acphost-test-is-not-there"},
		"a file":  {[]string{"/dev/null"}, spawnKind, "/dev/null"},
		"ends":    {[]string{"sh", "-c", "echo no licence >&2; exit 5"}, crashedKind, "no licence"},
		"wrapper": {[]string{"sh", "-c", "acphost-test-is-not-there"}, notFoundKind, "sh"},
	} {
		_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: tt.command, Name: "x"})
		t.Run(name, func(t *testing.T) { wantFault(t, err, fault.OfAgent, tt.kind, tt.contains) })
	}
}
