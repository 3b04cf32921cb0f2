package chat

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// answeredBy is who answers questions here, as others see it.
const answeredBy = "cli"

// supervisor is the other end: what the model asks of it, as commands that Bubble Tea runs. All that it started has ended
// when close returns.
type supervisor struct {
	*client.Client

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
	return &supervisor{Client: client.New(conn), ctx: ctx, stop: stop, ours: map[string]bool{}}
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
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d):
			return msg
		}
	})
}

// Messages of what the supervisor answered. Those of a stream hold what came, next, which waits for more, or err, after which
// nothing comes; io.EOF is the stream's end.
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
	// turnMsg are events of the turn that was begun here.
	turnMsg struct {
		turn   int
		events []*supervisorv1.Event
		lags   int // how often the screen was slower than the agent
		next   tea.Cmd
		err    error
	}
	// watchMsg are events of all that is going on.
	watchMsg struct {
		events []*supervisorv1.Event
		next   tea.Cmd
		err    error
	}
	// questionsMsg are questions and their ends.
	questionsMsg struct {
		changes []*supervisorv1.WatchApprovalsResponse
		next    tea.Cmd
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
		pieces   []*supervisorv1.WatchOutputResponse
		next     tea.Cmd
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
func (s *supervisor) prompt(number int, agentID, sessionID string, blocks func() ([]*supervisorv1.ContentBlock, error)) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		content, err := blocks()
		if err != nil {
			return turnMsg{turn: number, err: err}
		}
		s.mu.Lock()
		s.promptsSent++
		s.mu.Unlock()
		turn, err := s.Prompt(ctx, &supervisorv1.PromptRequest{AgentId: agentID, SessionId: sessionID, Prompt: content})
		if err != nil {
			s.notBegun(sessionID)
			return turnMsg{turn: number, err: err}
		}
		return follow(s, s.beginning(sessionID, turn.Events()), func(all []*supervisorv1.Event, next tea.Cmd, err error) tea.Msg {
			return turnMsg{turn: number, events: all, lags: turn.Lags(), next: next, err: err}
		})()
	})
}

// beginning are the events of a turn that was prompted. One that ends without a begin is taken back.
func (s *supervisor) beginning(sessionID string, events iter.Seq2[*supervisorv1.Event, error]) iter.Seq2[*supervisorv1.Event, error] {
	return func(yield func(*supervisorv1.Event, error) bool) {
		begun := false
		for e, err := range events {
			if err != nil && !begun {
				s.notBegun(sessionID)
			}
			begun = begun || e.GetTurnStarted() != nil || err != nil
			if !yield(e, err) {
				return
			}
		}
		if !begun {
			s.notBegun(sessionID)
		}
	}
}

// notBegun takes a prompt back that never was a turn. If the watch has seen a turn begin meanwhile, it was somebody else's.
func (s *supervisor) notBegun(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.promptsSent == 0 {
		delete(s.ours, sessionID)
	}
	s.promptsSent = max(s.promptsSent-1, 0)
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
		events, err := s.WatchEvents(ctx, cursor)
		if err != nil {
			return watchMsg{err: err}
		}
		return watchMsg{next: follow(s, s.beside(events), func(all []*supervisorv1.Event, next tea.Cmd, err error) tea.Msg {
			return watchMsg{events: all, next: next, err: err}
		})}
	})
}

// beside are the events that drop leaves.
func (s *supervisor) beside(events iter.Seq2[*supervisorv1.Event, error]) iter.Seq2[*supervisorv1.Event, error] {
	return func(yield func(*supervisorv1.Event, error) bool) {
		for e, err := range events {
			if (err != nil || !s.drop(e)) && !yield(e, err) {
				return
			}
		}
	}
}

// drop keeps out of the watch what the stream of a prompt of ours tells too: that one loses nothing and is as fast as the
// screen, so it is the one that is shown. The watch is read at the supervisor's pace.
func (s *supervisor) drop(ev *supervisorv1.Event) bool {
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
		changes, err := s.WatchApprovals(ctx, &supervisorv1.WatchApprovalsRequest{})
		if err != nil {
			return questionsMsg{err: err}
		}
		return questionsMsg{next: follow(s, changes, func(all []*supervisorv1.WatchApprovalsResponse, next tea.Cmd, err error) tea.Msg {
			return questionsMsg{changes: all, next: next, err: err}
		})}
	})
}

// output begins to tell what a terminal writes.
func (s *supervisor) output(id string) tea.Cmd {
	return s.do(func(ctx context.Context) tea.Msg {
		pieces, err := s.WatchOutput(ctx, id, 0)
		if err != nil {
			return nil
		}
		return follow(s, pieces, func(all []*supervisorv1.WatchOutputResponse, next tea.Cmd, err error) tea.Msg {
			return outputMsg{terminal: id, pieces: all, next: next, err: err}
		})()
	})
}

// agentError is what an error says of the agent; nil: nothing.
func agentError(err error) *supervisorv1.AgentError {
	if e := client.ErrorOf(err); e != nil {
		return e.Agent
	}
	return nil
}

// problem is an error in words.
func problem(err error) string {
	switch e := client.ErrorOf(err); {
	case e == nil:
		return err.Error()
	case e.Code == codes.Unavailable && strings.HasPrefix(e.Message, "connection error"): // gRPC's, about sockets
		return "the supervisor does not answer any more"
	case e.Code == codes.Unavailable:
		return fmt.Sprintf("the supervisor does not answer (%s)", e.Message)
	case e.Code == codes.Canceled:
		return "it was given up"
	default:
		return e.Message
	}
}
