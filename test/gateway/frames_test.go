package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestFrames_CarryWholeTurns(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	e := e2e.NewEdge(t, p, fmt.Sprintf("[{command: [%q], env: {DEMOAGENT_STATE: %q}, cwd: %q}]", e2e.Program("demoagent"), filepath.Join(p.Home, "kept"), p.Work))
	c, err := openAgent(e, e.Gateway("gateway"), "")
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	session := c.Acquainted(t, p.Work)
	// The questions of its agent are sent to the client, and to the watchers of this supervisor.
	var asked atomic.Int32
	c.Handle("session/request_permission", func(m wire.Message) (any, error) {
		asked.Add(1)
		if all, err := e.Approvals.ListApprovals(e.Ctx, &supervisorv1.ListApprovalsRequest{}); err != nil || len(all.GetApprovals()) != 1 {
			t.Errorf("the open questions are %v (%v), want one", all, err)
		}
		var params struct {
			Options []struct{ OptionID, Kind string }
		}
		m.Decode(t, &params)
		return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": params.Options[0].OptionID}}, nil
	})
	c.Handle("session/update", func(wire.Message) (any, error) { return nil, nil })
	var ended struct{ StopReason string }
	c.Send("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": "ask"}}}).Result(&ended)
	if ended.StopReason != "end_turn" || asked.Load() == 0 {
		t.Errorf("the turn ended with %q after %d questions", ended.StopReason, asked.Load())
	}
	agents, err := e.Agents.ListAgents(e.Ctx, &supervisorv1.ListAgentsRequest{})
	if err != nil || len(agents.GetAgents()) != 1 || agents.GetAgents()[0].GetId() != c.Agent.GetId() {
		t.Errorf("the agents are %v (%v)", agents, err)
	}
	pids, err := proc.Descendants(e.PID())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-c.Ended; !errors.Is(err, io.EOF) {
		t.Errorf("after its client has left, the stream ended with %v, want OK", e2e.Explain(err))
	}
	if !testkit.Poll(func() bool {
		all, err := e.Agents.ListAgents(e.Ctx, &supervisorv1.ListAgentsRequest{})
		return err == nil && len(all.GetAgents()) == 0
	}) {
		t.Error("the agent is there still")
	}
	e.Finish()
	e.ExpectNobody(t, pids)
}

func TestFrames_StreamEndsWithReason(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	st := p.Stage(t, "family")
	e := e2e.NewEdge(t, p, fmt.Sprintf("[{name: puppet, command: [%q, %q, %q, %q]}, {preset: nobody-knows-it}]", st.Command[0], st.Command[1], st.Command[2], st.Command[3]))
	service := e.Gateway("gateway")
	if !testkit.Poll(func() bool { // the handlers run
		all, err := e.State.ListHandlers(e.Ctx, &supervisorv1.ListHandlersRequest{})
		return err == nil && !slices.ContainsFunc(all.GetHandlers(), func(h *supervisorv1.HandlerStatus) bool { return h.GetPid() == 0 })
	}) {
		t.Fatal("the handlers do not run")
	}
	family := func() []int {
		pids, err := proc.Descendants(e.PID())
		if err != nil {
			t.Error(err)
		}
		return slices.Sorted(slices.Values(pids))
	}
	before := family()
	open := func() (*frameClient, *e2e.ScriptedAgent) {
		t.Helper()
		c, err := openAgent(e, service, "puppet")
		if err != nil {
			t.Fatal(e2e.Explain(err))
		}
		return c, st.Play(t)
	}
	gone := func(how string) {
		t.Helper()
		if !testkit.Poll(func() bool {
			all, err := e.Agents.ListAgents(e.Ctx, &supervisorv1.ListAgentsRequest{})
			return err == nil && len(all.GetAgents()) == 0
		}) {
			t.Errorf("%s: the agent is there still", how)
		}
		if !testkit.Poll(func() bool { return slices.Equal(family(), before) }) {
			t.Errorf("%s: processes are left:\n%s", how, wire.Describe(family()))
		}
	}
	ends := func(how string, c *frameClient, want codes.Code, words string) {
		t.Helper()
		if err := <-c.Ended; status.Code(err) != want || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: the stream ended with %v, want %v: %s", how, e2e.Explain(err), want, words)
		}
	}

	c, _ := open()
	c.Cut()
	ends("cut", c, codes.Canceled, "")
	gone("cut")

	c, a := open()
	_ = a.Conn.Close()
	ends("the agent ends", c, codes.Aborted, "puppet-2")
	gone("the agent ends")

	c, _ = open()
	if _, err := e.Agents.StopAgent(e.Ctx, &supervisorv1.StopAgentRequest{AgentId: c.Agent.GetId()}); err != nil {
		t.Error(e2e.Explain(err))
	}
	ends("stopped", c, codes.Aborted, "was stopped")
	gone("stopped")

	c, _ = open()
	c.Write("{}\n\n{}")
	ends("an invalid frame", c, codes.InvalidArgument, "frames[")
	gone("an invalid frame")

	for role, want := range map[string]codes.Code{"viewer": codes.PermissionDenied, "approver": codes.PermissionDenied} {
		if _, err := openAgent(e, e.Gateway(role), "puppet"); status.Code(err) != want {
			t.Errorf("a %s got %v", role, e2e.Explain(err))
		}
	}
	if _, err := openAgent(e, service, "/bin/sh"); status.Code(err) != codes.NotFound {
		t.Errorf("an agent that the configuration does not have: %v", e2e.Explain(err))
	}
	if _, err := openAgent(e, service, "nobody-knows-it"); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown preset: %v", e2e.Explain(err))
	}

	c, a = open()
	finished := make(chan struct{})
	go func() { defer close(finished); ends("the supervisor stops", c, codes.Unavailable, "stopping") }()
	e.Finish()
	<-finished
	e.ExpectNobody(t, []int{a.Pid})
}

// TestFrames_SlowClientBlocksOnlyItsAgent: a client that does not read blocks the output of its own agent only.
func TestFrames_SlowClientBlocksOnlyItsAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	st := p.Stage(t)
	e := e2e.NewEdge(t, p, fmt.Sprintf("[{name: puppet, command: [%q, %q, %q]}]", st.Command[0], st.Command[1], st.Command[2]))
	service := e.Gateway("gateway")
	stream, err := service.OpenAgent(e.Ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{}}}); err != nil {
		t.Fatal(err)
	}
	slow := st.Play(t)
	line := `{"jsonrpc":"2.0","method":"_flood","params":{"text":"` + strings.Repeat("x", 64<<10) + `"}}`
	const total = 64 << 20
	var written atomic.Int64
	go func() {
		for written.Load() < total {
			if _, err := slow.Conn.Write([]byte(line + "\n")); err != nil {
				return
			}
			written.Add(int64(len(line)))
		}
	}()
	last := int64(-1)
	if !testkit.Poll(func() bool { // it comes to a halt
		now := written.Load()
		halted := now > 0 && now == last
		last = now
		return halted
	}) || last > total/2 {
		t.Errorf("the agent wrote %d unread bytes", last)
	}
	c, err := openAgent(e, service, "puppet")
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	other := st.Play(t)
	other.Write(`{"jsonrpc":"2.0","method":"_a","params":{}}`)
	c.Expect("_a")
	// A client that resumes reading receives everything, in order.
	first, err := stream.Recv()
	if err != nil || first.GetOpened() == nil {
		t.Fatalf("the first message is %v (%v)", first, err)
	}
	for got := 0; got < total/len(line); {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.GetFrames().GetFrames() {
			if string(f) != line {
				t.Fatalf("frame %d is %.80q…", got, f)
			}
			got++
		}
	}
	e.Finish()
}

// frameClient is a client of an agent at the far end of a stream of frames.
type frameClient struct {
	*wire.Peer
	Agent *supervisorv1.Agent
	Cut   context.CancelFunc
	Ended chan error // holds one: how the call ended
}

// openAgent opens an agent; the error is that of the call, if it ends before the agent is opened.
func openAgent(e *e2e.Edge, service supervisorv1.GatewayServiceClient, name string) (*frameClient, error) {
	ctx, cancel := context.WithCancel(e.Ctx)
	e.T.Cleanup(cancel)
	stream, err := service.OpenAgent(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	// A stream that was rejected before the message was sent returns io.EOF here; Recv returns its status.
	if err := stream.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{Agent: name}}}); err != nil && !errors.Is(err, io.EOF) {
		e.T.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	c := &frameClient{Agent: first.GetOpened().GetAgent(), Cut: cancel, Ended: make(chan error, 1)}
	r, w := io.Pipe()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				_ = w.Close()
				c.Ended <- err
				return
			}
			for _, f := range m.GetFrames().GetFrames() {
				_, _ = fmt.Fprintf(w, "%s\n", f)
			}
		}
	}()
	c.Peer = wire.NewPeer(e.T, "client", &frameSender{stream: stream}, bufio.NewReader(r))
	return c, nil
}

// frameSender sends each line as a frame.
type frameSender struct {
	stream grpc.BidiStreamingClient[supervisorv1.OpenAgentRequest, supervisorv1.OpenAgentResponse]
}

func (s *frameSender) Write(b []byte) (int, error) {
	var frames [][]byte
	for line := range strings.Lines(string(b)) {
		frames = append(frames, []byte(strings.TrimSuffix(line, "\n")))
	}
	return len(b), s.stream.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Frames{Frames: &supervisorv1.Frames{Frames: frames}}})
}

func (s *frameSender) Close() error { return s.stream.CloseSend() }

// Acquainted is initialize and session/new.
func (c *frameClient) Acquainted(t *testing.T, cwd string) (session string) {
	t.Helper()
	c.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`)).Result(nil)
	var opened struct{ SessionID string }
	c.Send("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}).Result(&opened)
	return opened.SessionID
}
