package admin

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Sessions holds sessions with agents. Its methods are called concurrently, with requests that keep to the contract, and
// for callers that may; they end early when their context does. Errors are those of package fault.
type Sessions interface {
	// NewSession opens a session.
	NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.Session, error)
	// LoadSession opens a session that the agent has stored, with its history.
	LoadSession(ctx context.Context, req *supervisorv1.LoadSessionRequest) (*supervisorv1.Session, error)
	// ResumeSession opens a session that the agent has stored, without its history.
	ResumeSession(ctx context.Context, req *supervisorv1.ResumeSessionRequest) (*supervisorv1.Session, error)
	// ForkSession opens a session that begins where another one is.
	ForkSession(ctx context.Context, req *supervisorv1.ForkSessionRequest) (*supervisorv1.Session, error)
	// ListStoredSessions asks an agent which sessions it has.
	ListStoredSessions(ctx context.Context, req *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error)
	// CloseSession ends a session. told: the agent knows.
	CloseSession(ctx context.Context, req *supervisorv1.CloseSessionRequest) (told bool, err error)
	// DeleteSession has an agent forget a session.
	DeleteSession(ctx context.Context, req *supervisorv1.DeleteSessionRequest) error
	// Prompt begins a turn and sends its events; the last is the turn's end. An error of send is returned as it is. What
	// the end of ctx means for the turn is the request's to say.
	Prompt(ctx context.Context, req *supervisorv1.PromptRequest, send func(*supervisorv1.Event) error) error
	// CancelPrompt has an agent end its turn. active: there was one.
	CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (active bool, err error)
	// SetMode puts a session in a mode.
	SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.Session, error)
	// SetModel chooses a session's model.
	SetModel(ctx context.Context, req *supervisorv1.SetModelRequest) (*supervisorv1.Session, error)
	// SetConfigOption sets one of a session's options.
	SetConfigOption(ctx context.Context, req *supervisorv1.SetConfigOptionRequest) (*supervisorv1.Session, error)
}

// Events tells what happens. Its methods are called concurrently and return when their context ends, when a send fails
// (with its error), or when there is no more to tell. Events are nobody's to change once they are sent. Errors are those
// of package fault.
type Events interface {
	// WatchEvents sends the events of all agents, sessions and handlers that came after a cursor, then those that come.
	WatchEvents(ctx context.Context, cursor string, send func(*supervisorv1.Event) error) error
	// WatchSession sends the events of a session, those of the record first.
	WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error) error
}

// sessionService hands requests to Sessions and Events.
type sessionService struct {
	supervisorv1.UnimplementedSessionServiceServer
	sessions  Sessions  // nil: sessions can only be watched
	events    Events    // nil: they cannot
	approvals Approvals // nil: there are none
}

func (s *sessionService) NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	session, err := s.sessions.NewSession(ctx, req)
	return &supervisorv1.NewSessionResponse{Session: session}, err
}

func (s *sessionService) LoadSession(ctx context.Context, req *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	session, err := s.sessions.LoadSession(ctx, req)
	return &supervisorv1.LoadSessionResponse{Session: session}, err
}

func (s *sessionService) ResumeSession(ctx context.Context, req *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error) {
	session, err := s.sessions.ResumeSession(ctx, req)
	return &supervisorv1.ResumeSessionResponse{Session: session}, err
}

func (s *sessionService) ForkSession(ctx context.Context, req *supervisorv1.ForkSessionRequest) (*supervisorv1.ForkSessionResponse, error) {
	session, err := s.sessions.ForkSession(ctx, req)
	return &supervisorv1.ForkSessionResponse{Session: session}, err
}

func (s *sessionService) ListStoredSessions(ctx context.Context, req *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error) {
	return s.sessions.ListStoredSessions(ctx, req)
}

func (s *sessionService) CloseSession(ctx context.Context, req *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error) {
	told, err := s.sessions.CloseSession(ctx, req)
	return &supervisorv1.CloseSessionResponse{Told: told}, err
}

func (s *sessionService) DeleteSession(ctx context.Context, req *supervisorv1.DeleteSessionRequest) (*supervisorv1.DeleteSessionResponse, error) {
	return &supervisorv1.DeleteSessionResponse{}, s.sessions.DeleteSession(ctx, req)
}

func (s *sessionService) Prompt(req *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	shown := withIDs(stream.Context(), s.approvals)
	return s.sessions.Prompt(stream.Context(), req, func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.PromptResponse{Event: shown(e)})
	})
}

func (s *sessionService) CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	active, err := s.sessions.CancelPrompt(ctx, req)
	return &supervisorv1.CancelPromptResponse{TurnActive: active}, err
}

func (s *sessionService) SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	session, err := s.sessions.SetMode(ctx, req)
	return &supervisorv1.SetModeResponse{Session: session}, err
}

func (s *sessionService) SetModel(ctx context.Context, req *supervisorv1.SetModelRequest) (*supervisorv1.SetModelResponse, error) {
	session, err := s.sessions.SetModel(ctx, req)
	return &supervisorv1.SetModelResponse{Session: session}, err
}

func (s *sessionService) SetConfigOption(ctx context.Context, req *supervisorv1.SetConfigOptionRequest) (*supervisorv1.SetConfigOptionResponse, error) {
	session, err := s.sessions.SetConfigOption(ctx, req)
	return &supervisorv1.SetConfigOptionResponse{Session: session}, err
}

func (s *sessionService) WatchSession(req *supervisorv1.WatchSessionRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "sessions cannot be watched here")
	}
	shown := withIDs(stream.Context(), s.approvals)
	return s.events.WatchSession(stream.Context(), req, func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.WatchSessionResponse{Event: shown(e)})
	})
}
