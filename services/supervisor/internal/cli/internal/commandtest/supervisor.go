package commandtest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
)

// LongAgo is the start time of everything in a Supervisor.
var LongAgo = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)

// Supervisor is a fake supervisor with one agent, two questions and two terminals.
type Supervisor struct {
	State
	PID       int64
	Mode      string
	Questions []*supervisorv1.Approval // nil: the default two

	mu       sync.Mutex
	Started  *supervisorv1.StartAgentRequest     // guarded by mu
	Stopped  []string                            // guarded by mu
	Answered *supervisorv1.AnswerApprovalRequest // guarded by mu
}

func (p *Supervisor) GetStatus(ctx context.Context, req *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	s, err := p.State.GetStatus(ctx, req)
	s.Pid, s.Mode = p.PID, p.Mode
	return s, err
}

func (p *Supervisor) ListTerminals(context.Context, *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error) {
	return &supervisorv1.ListTerminalsResponse{Terminals: []*supervisorv1.Terminal{
		{TerminalId: "acphost-1f", SessionId: "s1", Argv: []string{"go", "test", "./...\x1b[2J"}, Running: true, OutputBytes: 2048, StartTime: timestamppb.New(LongAgo)},
		{TerminalId: "acphost-2e", Argv: []string{"false"}, ExitCode: proto.Uint32(1), StartTime: timestamppb.New(LongAgo.Add(time.Second))},
	}}, nil
}

func (p *Supervisor) WatchOutput(_ context.Context, id string, send func(*supervisorv1.WatchOutputResponse) error) error {
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

func (p *Supervisor) agent() *supervisorv1.Agent {
	return &supervisorv1.Agent{
		Id: "gemini-1", Name: "gemini", Command: []string{"/opt/gemini", "--acp"}, State: supervisorv1.AgentState_AGENT_STATE_RUNNING, Pid: 99,
		StartTime: timestamppb.New(LongAgo), Restarts: 2, SessionIds: []string{"s1", "s2"},
		Info: &supervisorv1.AgentInfo{Title: "Gemini\x1b CLI", Version: "1.2"},
	}
}

func (p *Supervisor) StartAgent(_ context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Started = req
	if req.GetPreset() == "broken" {
		code := int32(3)
		return nil, fault.Agent(&supervisorv1.AgentError{
			Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "start broken: it ended with exit code 3", ExitCode: &code,
			StderrTail: []string{"no key\x1b[2J", "bye"},
		})
	}
	if name := req.GetPreset(); name == "./agent" {
		return nil, fmt.Errorf("start agent: %w", &preset.UnknownError{Name: name, Known: []string{"gemini"}})
	}
	return &supervisorv1.StartAgentResponse{Agent: p.agent(), Reused: req.GetName() == "again"}, nil
}

func (p *Supervisor) StopAgent(_ context.Context, req *supervisorv1.StopAgentRequest) (*supervisorv1.StopAgentResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Stopped = append(p.Stopped, req.GetAgentId())
	agent := p.agent()
	agent.Pid = 0
	return &supervisorv1.StopAgentResponse{Agent: agent}, nil
}

func (p *Supervisor) RestartAgent(context.Context, *supervisorv1.RestartAgentRequest) (*supervisorv1.RestartAgentResponse, error) {
	return &supervisorv1.RestartAgentResponse{Agent: p.agent()}, nil
}

func (p *Supervisor) ListAgents(context.Context, *supervisorv1.ListAgentsRequest) (*supervisorv1.ListAgentsResponse, error) {
	return &supervisorv1.ListAgentsResponse{Agents: []*supervisorv1.Agent{p.agent()}}, nil
}

func (p *Supervisor) GetAgent(context.Context, *supervisorv1.GetAgentRequest) (*supervisorv1.GetAgentResponse, error) {
	return &supervisorv1.GetAgentResponse{Agent: p.agent()}, nil
}

func (p *Supervisor) Authenticate(context.Context, *supervisorv1.AuthenticateRequest, func(*supervisorv1.AuthenticateResponse) error) error {
	return nil
}

func (p *Supervisor) Logout(context.Context, *supervisorv1.LogoutRequest) (*supervisorv1.LogoutResponse, error) {
	return &supervisorv1.LogoutResponse{}, nil
}

func (p *Supervisor) ListApprovals(session string) []*supervisorv1.Approval {
	if p.Questions != nil {
		return p.Questions
	}
	all := []*supervisorv1.Approval{
		{
			Id: "gemini-1/7", AgentId: "gemini-1", SessionId: "s1", Time: timestamppb.New(LongAgo), ExpireTime: timestamppb.New(LongAgo.Add(time.Minute)),
			Permission: &supervisorv1.PermissionQuestion{
				Title: "Run: git push\x1b]0;x\x07\nnow", Kind: "execute", RawInput: `{"command": "git push"}`, Reason: `rule "push"`,
				Locations: []*supervisorv1.Location{{Path: "/work/x"}},
				Options: []*supervisorv1.PermissionOption{
					{OptionId: "yes", Kind: "allow_once", Name: "Allow"}, {OptionId: "no", Kind: "reject_once", Name: "Do not"},
				},
			},
		},
		{
			Id: "gemini-1/8", AgentId: "gemini-1", Time: timestamppb.New(LongAgo.Add(time.Second)),
			Elicitation: &supervisorv1.Elicitation{
				Mode: "form", Message: "Which branch?",
				RequestedSchema: `{"type": "object", "properties": {"branch": {"type": "string", "enum": ["main", "next"], "title": "Branch"}, "force": {"type": "boolean"}}, "required": ["branch"]}`,
			},
		},
		{
			Id: "gemini-1/9", AgentId: "gemini-1", Time: timestamppb.New(LongAgo.Add(2 * time.Second)),
			Elicitation: &supervisorv1.Elicitation{Mode: "url", Message: "Log in", Url: "https://example.org/login"},
		},
	}
	if session == "s1" {
		return all[:1]
	}
	return all
}

func (p *Supervisor) WatchApprovals(context.Context, *supervisorv1.WatchApprovalsRequest, func(*supervisorv1.WatchApprovalsResponse) error) error {
	return nil
}

// ID implements admin.Approvals.
func (p *Supervisor) ID(string) string { return "" }

// AnswerApproval implements admin.Approvals.
func (p *Supervisor) AnswerApproval(_ context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Questions != nil && !slices.ContainsFunc(p.Questions, func(q *supervisorv1.Approval) bool { return q.GetId() == req.GetId() }) {
		return nil, fault.New(fault.NotFound, "no question %q waits", req.GetId())
	}
	p.Answered = req
	if req.GetOptionId() == "late" {
		err := fault.New(fault.Precondition, "the question %s does not wait any more", req.GetId())
		err.Answer = &supervisorv1.ApprovalAnswer{Id: req.GetId(), Outcome: "denied", AnsweredBy: "front"}
		return nil, err
	}
	return &supervisorv1.ApprovalAnswer{Id: req.GetId(), Outcome: "allowed", OptionId: req.GetOptionId(), AnsweredBy: req.GetAnsweredBy()}, nil
}

// Play serves the admin sockets of fake supervisors, and returns an environment that finds them.
func Play(t *testing.T, all ...*Supervisor) map[string]string {
	t.Helper()
	dir := testkit.ShortDir(t)
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

// PlayTLS serves a fake supervisor over TCP, and returns its address and the folder of keys.
func PlayTLS(t *testing.T, p *Supervisor) (address, keys string) {
	t.Helper()
	keys = filepath.Join(t.TempDir(), "keys")
	if err := certs.Init(keys, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	server, err := admin.Start(admin.Options{State: p, Agents: p, Approvals: p, NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(filepath.Join(keys, certs.ServerDir))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Address(), keys
}
