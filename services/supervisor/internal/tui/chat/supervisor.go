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

// answeredBy is the name of this client in answers.
const answeredBy = "cli"

// supervisor calls the supervisor for the model, as commands that Bubble Tea runs. All its goroutines have ended when
// close returns.
type supervisor struct {
	*client.Client

	ctx  context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup

	// State for drop, which filters the watch stream.
	promptsSent int             // turns of this chat whose begin the watch stream has not delivered
	ours        map[string]bool // sessions with a turn of this chat, at the position of the watch stream
}

func newSupervisor(ctx context.Context, conn grpc.ClientConnInterface) *supervisor {
	ctx, stop := context.WithCancel(ctx)
	return &supervisor{Client: client.New(conn), ctx: ctx, stop: stop, ours: map[string]bool{}}
}

// close cancels all calls, and waits for their goroutines.
func (s *supervisor) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

// do returns a command. Bubble Tea does not wait for commands when it ends; close does.
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

// after returns a command that sends a message later.
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

// Messages with answers of the supervisor. Messages of a stream contain its data, next, which waits for more, or err,
// which is the last; io.EOF means the end of the stream.
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
	// turnMsg contains events of a turn that this chat began.
	turnMsg struct {
		turn   int
		events []*supervisorv1.Event
		lags   int // how often the screen was slower than the agent
		next   tea.Cmd
		err    error
	}
	// watchMsg contains events of the watch stream.
	watchMsg struct {
		events []*supervisorv1.Event
		next   tea.Cmd
		err    error
	}
	// questionsMsg contains questions and their ends.
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
	// sessionMsg is the state of a session, and the purpose of the call.
	sessionMsg struct {
		session *supervisorv1.Session
		what    string
		err     error
	}
)

// prompt begins a turn. Each of its messages contains its number.
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

// beginning yields the events of a turn. If the turn ends without a begin, it calls notBegun.
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

// notBegun removes a prompt that did not begin a turn. If the watch stream has delivered a begin meanwhile, it was
// another client's.
func (s *supervisor) notBegun(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.promptsSent == 0 {
		delete(s.ours, sessionID)
	}
	s.promptsSent = max(s.promptsSent-1, 0)
}

// watch subscribes to events of other turns, after a cursor if it is not empty. Without a cursor, a turn of this chat
// in the session at may be in progress.
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

// beside yields the events that drop keeps.
func (s *supervisor) beside(events iter.Seq2[*supervisorv1.Event, error]) iter.Seq2[*supervisorv1.Event, error] {
	return func(yield func(*supervisorv1.Event, error) bool) {
		for e, err := range events {
			if (err != nil || !s.drop(e)) && !yield(e, err) {
				return
			}
		}
	}
}

// drop reports whether the stream of a prompt of this chat delivers an event, too. That stream is complete and waits
// for the screen, so its events are shown. The watch stream is read at the supervisor's speed.
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

// questions subscribes to questions. While the subscription is open, the supervisor knows that a user can answer.
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

// output subscribes to a terminal's output.
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

// agentError returns the AgentError in an error, or nil.
func agentError(err error) *supervisorv1.AgentError {
	if e := client.ErrorOf(err); e != nil {
		return e.Agent
	}
	return nil
}

// problem formats an error.
func problem(err error) string {
	switch e := client.ErrorOf(err); {
	case e == nil:
		return err.Error()
	// an error of gRPC about sockets
	case e.Code == codes.Unavailable && strings.HasPrefix(e.Message, "connection error"):
		return "the supervisor does not answer any more"
	case e.Code == codes.Unavailable:
		return fmt.Sprintf("the supervisor does not answer (%s)", e.Message)
	case e.Code == codes.Canceled:
		return "it was given up"
	default:
		return e.Message
	}
}
