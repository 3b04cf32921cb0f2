package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

// longAgo is when all that a played supervisor has began.
var longAgo = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)

// played is a supervisor with one agent, two questions and two terminals.
type played struct {
	shown
	pid  int64
	mode string

	mu       sync.Mutex
	started  *supervisorv1.StartAgentRequest     // guarded by mu
	stopped  []string                            // guarded by mu
	answered *supervisorv1.AnswerApprovalRequest // guarded by mu
}

func (p *played) Status() *supervisorv1.GetStatusResponse {
	s := p.shown.Status()
	s.Pid, s.Mode = p.pid, p.mode
	return s
}

func (p *played) Terminals(context.Context) ([]*supervisorv1.Terminal, error) {
	return []*supervisorv1.Terminal{
		{TerminalId: "acphost-1f", SessionId: "s1", Argv: []string{"go", "test", "./...\x1b[2J"}, Running: true, OutputBytes: 2048, StartTime: timestamppb.New(longAgo)},
		{TerminalId: "acphost-2e", Argv: []string{"false"}, ExitCode: proto.Uint32(1), StartTime: timestamppb.New(longAgo.Add(time.Second))},
	}, nil
}

func (p *played) WatchOutput(_ context.Context, id string, send func(*supervisorv1.WatchOutputResponse) error) error {
	if id != "acphost-1f" {
		return fault.New(fault.NotFound, "no terminal %q is here", id)
	}
	for _, piece := range []*supervisorv1.WatchOutputResponse{
		{Data: []byte("10%\r20%\r\n\x1b[31mred\x1b[0"), Missed: 12},
		{Data: []byte("m \x1b]52;c;aGk=\x07end")},
		{Ended: true, Signal: "SIGKILL"},
	} {
		if err := send(piece); err != nil {
			return err
		}
	}
	return nil
}

func (p *played) agent() *supervisorv1.Agent {
	return &supervisorv1.Agent{
		Id: "gemini-1", Name: "gemini", Command: []string{"/opt/gemini", "--acp"}, State: supervisorv1.AgentState_AGENT_STATE_RUNNING, Pid: 99,
		StartTime: timestamppb.New(longAgo), Restarts: 2, SessionIds: []string{"s1", "s2"},
		Info: &supervisorv1.AgentInfo{Title: "Gemini\x1b CLI", Version: "1.2"},
	}
}

func (p *played) StartAgent(_ context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = req
	if req.GetPreset() == "broken" {
		code := int32(3)
		return nil, fault.Agent(&supervisorv1.AgentError{
			Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "start broken: it ended with exit code 3", ExitCode: &code,
			StderrTail: []string{"no key\x1b[2J", "bye"},
		})
	}
	return &supervisorv1.StartAgentResponse{Agent: p.agent(), Reused: req.GetName() == "again"}, nil
}

func (p *played) StopAgent(_ context.Context, id string) (*supervisorv1.Agent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = append(p.stopped, id)
	agent := p.agent()
	agent.Pid = 0
	return agent, nil
}

func (p *played) RestartAgent(ctx context.Context, id string) (*supervisorv1.Agent, error) {
	return p.agent(), nil
}

func (p *played) ListAgents() []*supervisorv1.Agent { return []*supervisorv1.Agent{p.agent()} }

func (p *played) GetAgent(string) (*supervisorv1.Agent, error) { return p.agent(), nil }

func (p *played) Authenticate(context.Context, *supervisorv1.AuthenticateRequest, func(*supervisorv1.AuthenticateResponse) error) error {
	return nil
}

func (p *played) Logout(context.Context, string) error { return nil }

func (p *played) ListApprovals(session string) []*supervisorv1.Approval {
	all := []*supervisorv1.Approval{
		{
			Id: "gemini-1/7", AgentId: "gemini-1", SessionId: "s1", Time: timestamppb.New(longAgo), ExpireTime: timestamppb.New(longAgo.Add(time.Minute)),
			Permission: &supervisorv1.PermissionQuestion{
				Title: "Run: git push\x1b]0;x\x07\nnow", Kind: "execute", RawInput: `{"command": "git push"}`, Reason: `rule "push"`,
				Locations: []*supervisorv1.Location{{Path: "/work/x"}},
				Options: []*supervisorv1.PermissionOption{
					{OptionId: "yes", Kind: "allow_once", Name: "Allow"}, {OptionId: "no", Kind: "reject_once", Name: "Do not"},
				},
			},
		},
		{
			Id: "gemini-1/8", AgentId: "gemini-1", Time: timestamppb.New(longAgo.Add(time.Second)),
			Elicitation: &supervisorv1.Elicitation{
				Mode: "form", Message: "Which branch?",
				RequestedSchema: `{"type": "object", "properties": {"branch": {"type": "string", "enum": ["main", "next"], "title": "Branch"}, "force": {"type": "boolean"}}, "required": ["branch"]}`,
			},
		},
		{
			Id: "gemini-1/9", AgentId: "gemini-1", Time: timestamppb.New(longAgo.Add(2 * time.Second)),
			Elicitation: &supervisorv1.Elicitation{Mode: "url", Message: "Log in", Url: "https://example.org/login"},
		},
	}
	if session == "s1" {
		return all[:1]
	}
	return all
}

func (p *played) WatchApprovals(context.Context, *supervisorv1.WatchApprovalsRequest, func(*supervisorv1.WatchApprovalsResponse) error) error {
	return nil
}

func (p *played) AnswerApproval(_ context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = req
	if req.GetOptionId() == "late" {
		err := fault.New(fault.Precondition, "the question %s does not wait any more", req.GetId())
		err.Answer = &supervisorv1.ApprovalAnswer{Id: req.GetId(), Outcome: "denied", AnsweredBy: "front"}
		return nil, err
	}
	return &supervisorv1.ApprovalAnswer{Id: req.GetId(), Outcome: "allowed", OptionId: req.GetOptionId(), AnsweredBy: req.GetAnsweredBy()}, nil
}

// play serves admin sockets of such supervisors and returns the environment that finds them.
func play(t *testing.T, all ...*played) map[string]string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	for _, p := range all {
		o := admin.Options{State: p, Agents: p, Approvals: p, Env: func(name string) string { return env[name] }}
		server, err := admin.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
	}
	return env
}

// playTLS serves one over TCP and returns its address and the folder of keys.
func playTLS(t *testing.T, p *played) (address, keys string) {
	t.Helper()
	keys = filepath.Join(t.TempDir(), "keys")
	if err := certs.Init(keys, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	server, err := admin.Start(admin.Options{State: p, Agents: p, Approvals: p, NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(keys)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Address(), keys
}
