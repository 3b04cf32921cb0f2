package chat

import (
	"context"
	"errors"
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

// feedSize is how many messages of a stream wait for the screen; the stream waits when it is full.
const feedSize = 256

// feed is a stream that is read by a goroutine, so that what came is shown at once and not message by message.
type feed[T any] struct {
	messages chan T
	err      error // after messages is closed
}

// open begins to read. What drop wants is not kept.
func open[T any](s *supervisor, recv func() (T, error), drop func(T) bool) *feed[T] {
	f := &feed[T]{messages: make(chan T, feedSize)}
	if !s.enter() {
		f.err = context.Canceled
		close(f.messages)
		return f
	}
	go func() {
		defer s.wg.Done()
		defer close(f.messages)
		for {
			m, err := recv()
			if err != nil {
				f.err = err
				return
			}
			if drop != nil && drop(m) {
				continue
			}
			select {
			case f.messages <- m:
			case <-s.ctx.Done():
				f.err = s.ctx.Err()
				return
			}
		}
	}()
	return f
}

// next waits for a message and takes those that came with it. An error comes when all were taken; io.EOF: it was the end.
func (f *feed[T]) next(ctx context.Context) ([]T, error) {
	var all []T
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case m, ok := <-f.messages:
		if !ok {
			return nil, f.err
		}
		all = append(all, m)
	}
	for len(all) < feedSize {
		select {
		case m, ok := <-f.messages:
			if !ok {
				return all, nil // the error comes with the next call
			}
			all = append(all, m)
		default:
			return all, nil
		}
	}
	return all, nil
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

func (s *supervisor) start(r *supervisorv1.StartAgentRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.agents.StartAgent(ctx, r)
		return startedMsg{agent: a.GetAgent(), err: err}
	})
}

func (s *supervisor) restart(agentID string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.agents.RestartAgent(ctx, &supervisorv1.RestartAgentRequest{AgentId: agentID})
		return startedMsg{agent: a.GetAgent(), err: err}
	})
}

// openSession opens a session: a stored one if id is not empty. The one that was open is closed then.
func (s *supervisor) openSession(a *supervisorv1.Agent, id, cwd, old string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		m := s.opened(ctx, a, id, cwd)
		if m.err == nil && old != "" && old != m.session.GetSessionId() {
			// That it cannot be closed is nothing that a person could do anything about.
			_, _ = s.sessions.CloseSession(ctx, &supervisorv1.CloseSessionRequest{AgentId: a.GetId(), SessionId: old})
		}
		return m
	})
}

func (s *supervisor) opened(ctx context.Context, a *supervisorv1.Agent, id, cwd string) openedMsg {
	can := a.GetInfo().GetCapabilities()
	switch {
	case id == "":
		r, err := s.sessions.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: a.GetId(), Cwd: cwd})
		return openedMsg{session: r.GetSession(), how: "new", err: err}
	case can.GetLoadSession():
		r, err := s.sessions.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: a.GetId(), SessionId: id, Cwd: cwd})
		return openedMsg{session: r.GetSession(), how: "load", err: err}
	case can.GetResumeSession():
		r, err := s.sessions.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: a.GetId(), SessionId: id, Cwd: cwd})
		return openedMsg{session: r.GetSession(), how: "resume", err: err}
	}
	return openedMsg{how: "load", err: errors.New("this agent can neither load nor resume a session; leave --session out")}
}

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
		return s.watchNext(ctx, open(s, stream.Recv, s.drop))
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
		return s.questionsNext(ctx, open(s, stream.Recv, nil))
	})
}

func (s *supervisor) questioned(f *feed[*supervisorv1.WatchApprovalsResponse]) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg { return s.questionsNext(ctx, f) })
}

func (s *supervisor) questionsNext(ctx context.Context, f *feed[*supervisorv1.WatchApprovalsResponse]) tea.Msg {
	all, err := f.next(ctx)
	return questionsMsg{feed: f, changes: all, err: err}
}

func (s *supervisor) answer(r *supervisorv1.AnswerApprovalRequest) tea.Cmd {
	r.AnsweredBy = answeredBy
	return s.do(func(ctx context.Context) tea.Msg {
		a, err := s.approvals.AnswerApproval(ctx, r)
		return answeredMsg{id: r.GetId(), answer: a.GetAnswer(), err: err}
	})
}

func (s *supervisor) cancelTurn(agentID, sessionID string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		_, err := s.sessions.CancelPrompt(ctx, &supervisorv1.CancelPromptRequest{AgentId: agentID, SessionId: sessionID})
		if err != nil {
			return noticeMsg{text: "cancel: " + problem(err), bad: true}
		}
		return nil
	})
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

// notes waits for a line that a person should see.
func (s *supervisor) notes(lines <-chan string) tea.Cmd {
	if lines == nil {
		return nil
	}
	return s.do(func(ctx context.Context) tea.Msg {
		select {
		case <-ctx.Done():
			return nil
		case l := <-lines:
			return noteMsg(l)
		}
	})
}

// maxStored bounds the list of sessions to choose from.
const maxStored = 200

func (s *supervisor) stored(agentID, cwd string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		m := storedMsg{}
		cursor := ""
		for len(m.sessions) < maxStored {
			r, err := s.sessions.ListStoredSessions(ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agentID, Cwd: cwd, Cursor: cursor})
			if err != nil {
				return storedMsg{err: err}
			}
			m.sessions = append(m.sessions, r.GetSessions()...)
			if cursor == r.GetNextCursor() || len(r.GetSessions()) == 0 { // an agent that says the same for ever
				return m
			}
			if cursor = r.GetNextCursor(); cursor == "" {
				return m
			}
		}
		m.sessions, m.more = m.sessions[:maxStored], true
		return m
	})
}

// session asks for the session as it is now, for what.
func (s *supervisor) session(agentID, sessionID, what string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.state.GetSession(ctx, &supervisorv1.GetSessionRequest{AgentId: agentID, SessionId: sessionID})
		return sessionMsg{session: r.GetSession(), what: what, err: err}
	})
}

func (s *supervisor) setMode(agentID, sessionID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.sessions.SetMode(ctx, &supervisorv1.SetModeRequest{AgentId: agentID, SessionId: sessionID, ModeId: id})
		return sessionMsg{session: r.GetSession(), what: "mode", err: err}
	})
}

func (s *supervisor) setModel(agentID, sessionID, id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		r, err := s.sessions.SetModel(ctx, &supervisorv1.SetModelRequest{AgentId: agentID, SessionId: sessionID, ModelId: id})
		return sessionMsg{session: r.GetSession(), what: "model", err: err}
	})
}

func (s *supervisor) setOption(r *supervisorv1.SetConfigOptionRequest) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		got, err := s.sessions.SetConfigOption(ctx, r)
		return sessionMsg{session: got.GetSession(), what: "option " + r.GetConfigId(), err: err}
	})
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
