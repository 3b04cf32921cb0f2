package chat

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// answeredBy is who answers questions here, as others see it.
const answeredBy = "cli"

// supervisor is the other end: what the model asks of it, as commands that Bubble Tea runs. All that it started has ended
// when close returns.
type supervisor struct {
	agents    supervisorv1.AgentServiceClient
	sessions  supervisorv1.SessionServiceClient
	state     supervisorv1.SupervisorStateServiceClient
	approvals supervisorv1.ApprovalServiceClient

	ctx  context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup

	// What the watch leaves out; see drop.
	promptsSent int             // turns of ours whose begin the watch has not seen
	ours        map[string]bool // sessions with a turn of ours, as far as the watch is
}

func newSupervisor(ctx context.Context, conn grpc.ClientConnInterface) *supervisor {
	ctx, stop := context.WithCancel(ctx)
	return &supervisor{
		agents:    supervisorv1.NewAgentServiceClient(conn),
		sessions:  supervisorv1.NewSessionServiceClient(conn),
		state:     supervisorv1.NewSupervisorStateServiceClient(conn),
		approvals: supervisorv1.NewApprovalServiceClient(conn),
		ctx:       ctx, stop: stop, ours: map[string]bool{},
	}
}

// close ends all that is under way, and waits.
func (s *supervisor) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

// do is a command. Bubble Tea does not wait for commands when it ends; close does.
func (s *supervisor) do(f func(context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if !s.enter() {
			return nil
		}
		defer s.wg.Done()
		return f(s.ctx)
	}
}

func (s *supervisor) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// after is a message that comes later.
func (s *supervisor) after(d time.Duration, msg tea.Msg) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			return msg
		}
	})
}

// Messages of what the supervisor answered.
type (
	startedMsg struct {
		agent *supervisorv1.Agent
		err   error
	}
	openedMsg struct {
		session *supervisorv1.Session
		how     string // "new", "load", "resume"
		err     error
	}
	// turnMsg are events of the turn that was begun here; err ends them.
	turnMsg struct {
		turn   int
		feed   *feed[*supervisorv1.PromptResponse]
		events []*supervisorv1.Event
		err    error
	}
	// watchMsg are events of all that is going on.
	watchMsg struct {
		feed   *feed[*supervisorv1.WatchEventsResponse]
		events []*supervisorv1.Event
		err    error
	}
	// questionsMsg are questions and their ends.
	questionsMsg struct {
		feed    *feed[*supervisorv1.WatchApprovalsResponse]
		changes []*supervisorv1.WatchApprovalsResponse
		err     error
	}
	answeredMsg struct {
		id     string
		answer *supervisorv1.ApprovalAnswer
		err    error
	}
	storedMsg struct {
		sessions []*supervisorv1.StoredSession
		more     bool
		err      error
	}
	outputMsg struct {
		terminal string
		feed     *feed[*supervisorv1.WatchOutputResponse]
		pieces   []*supervisorv1.WatchOutputResponse
		err      error
	}
	// sessionMsg is a session as it is now, and what was asked for it.
	sessionMsg struct {
		session *supervisorv1.Session
		what    string
		err     error
	}
)

// prompt begins a turn. Its number comes back with each of its messages.
func (s *supervisor) prompt(turn int, agentID, sessionID string, blocks func() ([]*supervisorv1.ContentBlock, error)) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		content, err := blocks()
		if err != nil {
			return turnMsg{turn: turn, err: err}
		}
		s.mu.Lock()
		s.promptsSent++
		s.mu.Unlock()
		stream, err := s.sessions.Prompt(ctx, &supervisorv1.PromptRequest{
			AgentId: agentID, SessionId: sessionID, Prompt: content,
		})
		if err != nil {
			s.notBegun()
			return turnMsg{turn: turn, err: err}
		}
		begun := false
		f := open(s, func() (*supervisorv1.PromptResponse, error) {
			r, err := stream.Recv()
			if err != nil && !begun {
				s.notBegun()
			}
			begun = begun || r.GetEvent().GetTurnStarted() != nil
			return r, err
		}, nil)
		return s.turnNext(ctx, turn, f)
	})
}

// notBegun takes a prompt back that never was a turn.
func (s *supervisor) notBegun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promptsSent = max(s.promptsSent-1, 0)
}

func (s *supervisor) turn(turn int, f *feed[*supervisorv1.PromptResponse]) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg { return s.turnNext(ctx, turn, f) })
}

func (s *supervisor) turnNext(ctx context.Context, turn int, f *feed[*supervisorv1.PromptResponse]) tea.Msg {
	all, err := f.next(ctx)
	m := turnMsg{turn: turn, feed: f, err: err}
	for _, r := range all {
		m.events = append(m.events, r.GetEvent())
	}
	return m
}

// follow goes on with a turn whose stream broke while the turn did not.
func (s *supervisor) follow(turn int, agentID, sessionID, cursor string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		stream, err := s.sessions.WatchSession(ctx, &supervisorv1.WatchSessionRequest{AgentId: agentID, SessionId: sessionID, Cursor: cursor})
		if err != nil {
			return turnMsg{turn: turn, err: err}
		}
		ended := false
		f := open(s, func() (*supervisorv1.PromptResponse, error) {
			if ended {
				return nil, io.EOF
			}
			r, err := stream.Recv()
			ended = r.GetEvent().GetTurnEnded() != nil
			return &supervisorv1.PromptResponse{Event: r.GetEvent()}, err
		}, nil)
		return s.turnNext(ctx, turn, f)
	})
}

// watch begins to tell what goes on beside our own turns, behind a cursor if it has one. Without one it may be in the
// midst of a turn of ours: that of the session at.
func (s *supervisor) watch(cursor, at string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		if cursor == "" {
			s.mu.Lock()
			clear(s.ours)
			if s.promptsSent = 0; at != "" {
				s.ours[at] = true
			}
			s.mu.Unlock()
		}
		stream, err := s.state.WatchEvents(ctx, &supervisorv1.WatchEventsRequest{Cursor: cursor})
		if err != nil {
			return watchMsg{err: err}
		}
		return watchMsg{feed: open(s, stream.Recv, s.drop)}
	})
}

func (s *supervisor) watched(f *feed[*supervisorv1.WatchEventsResponse]) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg { return s.watchNext(ctx, f) })
}

func (s *supervisor) watchNext(ctx context.Context, f *feed[*supervisorv1.WatchEventsResponse]) tea.Msg {
	all, err := f.next(ctx)
	m := watchMsg{feed: f, err: err}
	for _, r := range all {
		m.events = append(m.events, r.GetEvent())
	}
	return m
}

// drop keeps out of the watch what the stream of a prompt of ours tells too: that one loses nothing and is as fast as the
// screen, so it is the one that is shown. The watch is read at the supervisor's pace.
func (s *supervisor) drop(r *supervisorv1.WatchEventsResponse) bool {
	ev := r.GetEvent()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.GetEvent().(type) {
	case *supervisorv1.Event_TurnStarted:
		if s.promptsSent > 0 {
			s.promptsSent--
			s.ours[ev.GetSessionId()] = true
			return true
		}
	case *supervisorv1.Event_TurnEnded:
		if s.ours[ev.GetSessionId()] {
			delete(s.ours, ev.GetSessionId())
			return true
		}
	case *supervisorv1.Event_Agent, *supervisorv1.Event_Handler, *supervisorv1.Event_SessionOpened, *supervisorv1.Event_SessionClosed:
		return false
	}
	return s.ours[ev.GetSessionId()]
}

// questions begins to tell questions. While it is told them, somebody is there to answer.
func (s *supervisor) questions() tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		stream, err := s.approvals.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
		if err != nil {
			return questionsMsg{err: err}
		}
		return questionsMsg{feed: open(s, stream.Recv, nil)}
	})
}

func (s *supervisor) questioned(f *feed[*supervisorv1.WatchApprovalsResponse]) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg { return s.questionsNext(ctx, f) })
}

func (s *supervisor) questionsNext(ctx context.Context, f *feed[*supervisorv1.WatchApprovalsResponse]) tea.Msg {
	all, err := f.next(ctx)
	return questionsMsg{feed: f, changes: all, err: err}
}

// output begins to tell what a terminal writes.
func (s *supervisor) output(id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		stream, err := s.state.WatchOutput(ctx, &supervisorv1.WatchOutputRequest{TerminalId: id})
		if err != nil {
			return nil
		}
		return s.outputNext(ctx, id, open(s, stream.Recv, nil))
	})
}

func (s *supervisor) outputs(id string, f *feed[*supervisorv1.WatchOutputResponse]) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg { return s.outputNext(ctx, id, f) })
}

func (s *supervisor) outputNext(ctx context.Context, id string, f *feed[*supervisorv1.WatchOutputResponse]) tea.Msg {
	all, err := f.next(ctx)
	return outputMsg{terminal: id, feed: f, pieces: all, err: err}
}

// agentError is what an error says of the agent; nil: nothing.
func agentError(err error) *supervisorv1.AgentError {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*supervisorv1.AgentError); ok {
			return e
		}
	}
	return nil
}

// problem is an error in words.
func problem(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Sprintf("the supervisor does not answer (%s)", s.Message())
	case codes.Canceled:
		return "it was given up"
	}
	return s.Message()
}
