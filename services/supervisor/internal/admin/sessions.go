package admin

import (
	"context"
	"fmt"

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

// sessionService checks requests and hands them to Sessions and Events.
type sessionService struct {
	supervisorv1.UnimplementedSessionServiceServer
	sessions Sessions // nil: sessions can only be watched
	events   Events   // nil: they cannot
}

func (s *sessionService) NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error) {
	if err := s.offered(agentNamed(req), opening(req)); err != nil {
		return nil, err
	}
	session, err := s.sessions.NewSession(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.NewSessionResponse{Session: session}, nil
}

func (s *sessionService) LoadSession(ctx context.Context, req *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error) {
	if err := s.offered(agentNamed(req), sessionNamed(req), opening(req)); err != nil {
		return nil, err
	}
	session, err := s.sessions.LoadSession(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.LoadSessionResponse{Session: session}, nil
}

func (s *sessionService) ResumeSession(ctx context.Context, req *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error) {
	if err := s.offered(agentNamed(req), sessionNamed(req), opening(req)); err != nil {
		return nil, err
	}
	session, err := s.sessions.ResumeSession(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.ResumeSessionResponse{Session: session}, nil
}

func (s *sessionService) ForkSession(ctx context.Context, req *supervisorv1.ForkSessionRequest) (*supervisorv1.ForkSessionResponse, error) {
	if err := s.offered(inSession(req), optional(absolute, "cwd", req.GetCwd()), also(req)); err != nil {
		return nil, err
	}
	session, err := s.sessions.ForkSession(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.ForkSessionResponse{Session: session}, nil
}

func (s *sessionService) ListStoredSessions(ctx context.Context, req *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error) {
	if err := s.offered(agentNamed(req), optional(absolute, "cwd", req.GetCwd()), short("cursor", req.GetCursor(), maxText)); err != nil {
		return nil, err
	}
	res, err := s.sessions.ListStoredSessions(ctx, req)
	return res, asStatus(err)
}

func (s *sessionService) CloseSession(ctx context.Context, req *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error) {
	if err := s.offered(inSession(req)); err != nil {
		return nil, err
	}
	told, err := s.sessions.CloseSession(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.CloseSessionResponse{Told: told}, nil
}

func (s *sessionService) DeleteSession(ctx context.Context, req *supervisorv1.DeleteSessionRequest) (*supervisorv1.DeleteSessionResponse, error) {
	if err := s.offered(agentNamed(req), sessionNamed(req)); err != nil {
		return nil, err
	}
	if err := s.sessions.DeleteSession(ctx, req); err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.DeleteSessionResponse{}, nil
}

func (s *sessionService) Prompt(req *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	if err := s.offered(inSession(req), prompt(req.GetPrompt())); err != nil {
		return err
	}
	return asStatus(s.sessions.Prompt(stream.Context(), req, func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.PromptResponse{Event: e})
	}))
}

func (s *sessionService) CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error) {
	if err := s.offered(inSession(req)); err != nil {
		return nil, err
	}
	active, err := s.sessions.CancelPrompt(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.CancelPromptResponse{TurnActive: active}, nil
}

func (s *sessionService) SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error) {
	if err := s.offered(inSession(req), named("mode_id", req.GetModeId(), maxID)); err != nil {
		return nil, err
	}
	session, err := s.sessions.SetMode(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.SetModeResponse{Session: session}, nil
}

func (s *sessionService) SetModel(ctx context.Context, req *supervisorv1.SetModelRequest) (*supervisorv1.SetModelResponse, error) {
	if err := s.offered(inSession(req), named("model_id", req.GetModelId(), maxID)); err != nil {
		return nil, err
	}
	session, err := s.sessions.SetModel(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.SetModelResponse{Session: session}, nil
}

func (s *sessionService) SetConfigOption(ctx context.Context, req *supervisorv1.SetConfigOptionRequest) (*supervisorv1.SetConfigOptionResponse, error) {
	var to error
	switch v := req.GetTo().(type) {
	case *supervisorv1.SetConfigOptionRequest_Value:
		to = named("value", v.Value, maxID)
	case *supervisorv1.SetConfigOptionRequest_Enabled:
	default:
		to = fmt.Errorf("value, enabled: exactly one of them says what the option is set to")
	}
	if err := s.offered(inSession(req), named("config_id", req.GetConfigId(), maxID), to); err != nil {
		return nil, err
	}
	session, err := s.sessions.SetConfigOption(ctx, req)
	if err != nil {
		return nil, asStatus(err)
	}
	return &supervisorv1.SetConfigOptionResponse{Session: session}, nil
}

func (s *sessionService) WatchSession(req *supervisorv1.WatchSessionRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
	if s.events == nil {
		return status.Error(codes.Unimplemented, "sessions cannot be watched here")
	}
	if err := first(inSession(req), short("cursor", req.GetCursor(), maxID)); err != nil {
		return err
	}
	return asStatus(s.events.WatchSession(stream.Context(), req, func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.WatchSessionResponse{Event: e})
	}))
}

// offered is first, where there are sessions to hold.
func (s *sessionService) offered(problems ...error) error {
	if s.sessions == nil {
		return status.Error(codes.Unimplemented, "sessions can only be watched here")
	}
	return first(problems...)
}
