package client_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial connects to a supervisor that is played.
func dial(t *testing.T, s *supervisor) *client.Client {
	t.Helper()
	c, err := client.DialSocket(serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func begin(t *testing.T, c *client.Client, req *supervisorv1.PromptRequest) *client.Turn {
	t.Helper()
	turn, err := c.Prompt(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// heard returns the agent's message in the rest of a turn, and the end of the turn.
func heard(turn *client.Turn) (message string, end *supervisorv1.TurnEnded, err error) {
	for e, err := range turn.Events() {
		if err != nil {
			return message, nil, err
		}
		message += e.GetAgentMessage().GetContent().GetText().GetText()
	}
	end, err = turn.End()
	return message, end, err
}

func TestTurn_EventsEndWithTurn(t *testing.T) {
	agentError := &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_CRASHED, Message: "it ended"}
	for _, c := range []struct {
		name   string
		turn   func(send func(*supervisorv1.Event)) error
		reason string
		err    string
		agent  bool
	}{
		{"well", func(send func(*supervisorv1.Event)) error {
			send(agentMessage("a"))
			send(ends(&supervisorv1.TurnEnded{StopReason: "end_turn"}))
			return nil
		}, "end_turn", "", false},
		{"with an error of the agent's", func(send func(*supervisorv1.Event)) error {
			send(agentMessage("a"))
			send(ends(&supervisorv1.TurnEnded{Error: agentError}))
			return nil
		}, "", "it ended", true},
		{"without an end", func(send func(*supervisorv1.Event)) error {
			send(agentMessage("a"))
			return nil
		}, "", "the turn broke off without an end", false},
		{"with an error of the call's", func(send func(*supervisorv1.Event)) error {
			send(agentMessage("a"))
			return status.Error(codes.NotFound, "no session is open here")
		}, "", "no session is open here", false},
		{"well, whatever the result of the call", func(send func(*supervisorv1.Event)) error {
			send(agentMessage("a"))
			send(ends(&supervisorv1.TurnEnded{StopReason: "refusal"}))
			return status.Error(codes.Unavailable, "the supervisor is stopping")
		}, "refusal", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn := begin(t, dial(t, &supervisor{turn: c.turn}), &supervisorv1.PromptRequest{})
			message, end, err := heard(turn)
			if message != "a" || end.GetStopReason() != c.reason || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("got %q and ends with %v, %v; want %q, %q", message, end, err, c.reason, c.err)
			}
			failed, _ := errors.AsType[*client.Error](err)
			if (failed != nil && failed.Agent != nil) != c.agent {
				t.Errorf("the error is %+v, want one of the agent's: %v", failed, c.agent)
			}
			for range turn.Events() {
				t.Error("an event comes after the end")
			}
		})
	}
}

func TestTurn_LoopOverEventsCanContinue(t *testing.T) {
	turn := begin(t, dial(t, &supervisor{turn: func(send func(*supervisorv1.Event)) error {
		for _, text := range []string{"a", "b", "c"} {
			send(agentMessage(text))
		}
		send(ends(&supervisorv1.TurnEnded{StopReason: "end_turn"}))
		return nil
	}}), &supervisorv1.PromptRequest{})
	for range turn.Events() {
		break
	}
	if message, end, err := heard(turn); message != "bc" || end.GetStopReason() != "end_turn" || err != nil {
		t.Errorf("the rest is %q, %v, %v", message, end, err)
	}
}

func TestTurn_SlowReaderContinuesFromRecord(t *testing.T) {
	slow := func(send func(*supervisorv1.Event)) error {
		send(agentMessage("a"))
		return status.Error(codes.ResourceExhausted, "too slow")
	}
	s := &supervisor{turn: slow, record: func(cursor string, send func(*supervisorv1.Event)) error {
		switch cursor {
		case "a":
			return slow(func(*supervisorv1.Event) { send(agentMessage("b")) })
		case "b":
			send(agentMessage("c"))
			send(ends(&supervisorv1.TurnEnded{StopReason: "end_turn"}))
			send(agentMessage("of the next turn"))
			return nil
		}
		return status.Errorf(codes.OutOfRange, "cursor %q", cursor)
	}}
	c := dial(t, s)
	turn := begin(t, c, &supervisorv1.PromptRequest{})
	if message, end, err := heard(turn); message != "abc" || end.GetStopReason() != "end_turn" || err != nil || turn.Lags() != 2 {
		t.Errorf("the turn: %q, %v, %v, %d lags", message, end, err, turn.Lags())
	}
	turn = begin(t, c, &supervisorv1.PromptRequest{CancelOnDisconnect: true})
	if _, _, err := heard(turn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a turn that is cancelled with its stream: %v", err)
	}

	events, err := c.WatchSession(t.Context(), &supervisorv1.WatchSessionRequest{Cursor: "a"})
	if err != nil {
		t.Fatal(err)
	}
	message := ""
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		message += e.GetAgentMessage().GetContent().GetText().GetText()
	}
	if message != "bcof the next turn" {
		t.Errorf("the session: %q", message)
	}
}

func TestTurn_CancelBeforeBegin(t *testing.T) {
	asked := make(chan struct{})
	s := &supervisor{turn: func(send func(*supervisorv1.Event)) error {
		<-asked
		send(begins())
		send(ends(&supervisorv1.TurnEnded{StopReason: "cancelled"}))
		return nil
	}}
	turn := begin(t, dial(t, s), &supervisorv1.PromptRequest{})
	if err := turn.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(asked)
	if end, err := turn.End(); end.GetStopReason() != "cancelled" || err != nil {
		t.Errorf("it ends with %v, %v", end, err)
	}
	if !slices.Equal(s.calls, []string{"cancel", "cancel"}) {
		t.Errorf("the calls are %q, want cancel before and after the begin", s.calls)
	}
}

func TestTurn_EndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := dial(t, &supervisor{turn: func(send func(*supervisorv1.Event)) error {
		send(agentMessage("a"))
		<-ctx.Done()
		return nil
	}})
	turn, err := c.Prompt(ctx, &supervisorv1.PromptRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range turn.Events() {
		cancel()
	}
	if _, err := turn.End(); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestSession_OpenUsesCapabilitiesOfAgent(t *testing.T) {
	load, resume := &supervisorv1.AgentCapabilities{LoadSession: true}, &supervisorv1.AgentCapabilities{ResumeSession: true}
	both := &supervisorv1.AgentCapabilities{LoadSession: true, ResumeSession: true}
	for _, c := range []struct {
		stored  string
		can     *supervisorv1.AgentCapabilities
		history bool
		want    string
	}{
		{"", nil, false, "new"}, {"", both, true, "new"},
		{"s1", load, false, "load"}, {"s1", resume, true, "resume"},
		{"s1", both, true, "load"}, {"s1", both, false, "resume"},
		{"s1", nil, false, ""},
	} {
		s := &supervisor{capabilities: c.can}
		conn := dial(t, s)
		agent, err := conn.Agents.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Preset: "claude"})
		if err != nil {
			t.Fatal(err)
		}
		session, how, err := conn.OpenSession(t.Context(), agent.GetAgent(), c.stored, "/work", "", c.history)
		if how != c.want || (err == nil) != (c.want != "") || c.want != "" && session.GetSessionId() != "s1" || !slices.Equal(s.calls, strings.Fields(c.want)) {
			t.Errorf("%+v: %v, %q, %v; the calls are %q", c, session, how, err, s.calls)
		}
	}
}

func TestWatchOutput_BeginsAtOffset(t *testing.T) {
	code := uint32(3)
	output := []*supervisorv1.WatchOutputResponse{
		{Missed: 4, Data: []byte("ef")}, {Data: []byte("gh")}, {Missed: 2, Data: []byte("kl")}, {Ended: true, ExitCode: &code},
	}
	for _, c := range []struct {
		offset uint64
		data   string
		missed uint64
	}{{0, "efghkl", 6}, {3, "efghkl", 3}, {5, "fghkl", 2}, {6, "ghkl", 2}, {9, "kl", 1}, {11, "l", 0}, {12, "", 0}, {100, "", 0}} {
		pieces, err := dial(t, &supervisor{output: output}).WatchOutput(t.Context(), "t1", c.offset)
		if err != nil {
			t.Fatal(err)
		}
		data, missed, ended := "", uint64(0), false
		for piece, err := range pieces {
			if err != nil {
				t.Fatal(err)
			}
			data, missed, ended = data+string(piece.GetData()), missed+piece.GetMissed(), piece.GetEnded() && piece.GetExitCode() == 3
		}
		if data != c.data || missed != c.missed || !ended {
			t.Errorf("from %d: %q, %d missed, ended %v; want %q, %d", c.offset, data, missed, ended, c.data, c.missed)
		}
	}
}

func TestError_HasMessageOfSupervisor(t *testing.T) {
	c := dial(t, &supervisor{})
	_, err := c.Agents.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{})
	failed, ok := errors.AsType[*client.Error](err)
	if !ok || err.Error() != "start it: there is no such command" || failed.Code != codes.NotFound || failed.Agent.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND || status.Code(err) != codes.NotFound {
		t.Errorf("an agent's: %#v", err)
	}
	_, err = c.Answer(t.Context(), "claude-1/7", "me", client.Choose("late"))
	if failed, ok = errors.AsType[*client.Error](err); !ok || client.HowEnded(failed.Answer) != "it was denied by front" {
		t.Errorf("a question's: %#v", err)
	}
	if _, err = c.Control.ReloadPolicy(t.Context(), &supervisorv1.ReloadPolicyRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("one that is not served: %v", err)
	}
	gone := dial(t, &supervisor{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gone.State.GetStatus(ctx, &supervisorv1.GetStatusRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("one that was given up: %v", err)
	}
	if _, err := client.DialTLS("no-port", t.TempDir()); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("an address without a port: %v", err)
	}
	if _, err := client.DialTLS("127.0.0.1:1", t.TempDir()); err == nil || !strings.Contains(err.Error(), "certs init") {
		t.Errorf("a folder without keys: %v", err)
	}
}

func TestFind_IgnoresFoldersOfOthers(t *testing.T) {
	s := &supervisor{}
	socket := serve(t, s)
	dir := filepath.Dir(socket)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "1-dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	found := client.Find(t.Context(), []string{dir, filepath.Join(dir, "missing")}, socket)
	if len(found) != 1 || found[0].Err != nil || found[0].PID != 4711 || found[0].Socket != socket {
		t.Fatalf("found %+v", found)
	}
	if _, err := os.Lstat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of a dead supervisor: %v", err)
	}
	c, err := found[0].Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.State.GetStatus(t.Context(), &supervisorv1.GetStatusRequest{}); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if found := client.Find(t.Context(), []string{dir}, socket); len(found) != 0 {
		t.Errorf("in a folder that is open to others: %+v", found)
	}
}

func TestWatchEvents_UnpacksBatches(t *testing.T) {
	at := func(cursor string) *supervisorv1.Event { return &supervisorv1.Event{Cursor: cursor} }
	for name, responses := range map[string][]*supervisorv1.WatchEventsResponse{
		"batches":    {{Events: []*supervisorv1.Event{at("1"), at("2")}}, {Events: []*supervisorv1.Event{at("3")}}},
		"no batches": {{Event: at("1")}, {Event: at("2")}, {Event: at("3")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, &supervisor{events: func(r *supervisorv1.WatchEventsRequest) []*supervisorv1.WatchEventsResponse {
				if r.GetCursor() != "0" || r.GetMaxBatch() == 0 {
					t.Errorf("asked %v, want batches behind 0", r)
				}
				return responses
			}})
			events, err := c.WatchEvents(t.Context(), "0")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for e, err := range events {
				if err != nil {
					got = append(got, status.Code(err).String())
					continue
				}
				got = append(got, e.GetCursor())
			}
			if !slices.Equal(got, []string{"1", "2", "3", "ResourceExhausted"}) {
				t.Errorf("got %q", got)
			}
		})
	}
}
