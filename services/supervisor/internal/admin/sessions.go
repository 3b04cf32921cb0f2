package admin

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// Sessions opens, prompts and closes sessions with agents. Its methods are called concurrently, with validated requests
// of authorized callers; they end early when their context ends. Errors are those of package fault.
type Sessions interface {
	// NewSession opens a session.
	NewSession(ctx context.Context, req *supervisorv1.NewSessionRequest) (*supervisorv1.NewSessionResponse, error)
	// LoadSession opens a session that the agent has stored, with its history.
	LoadSession(ctx context.Context, req *supervisorv1.LoadSessionRequest) (*supervisorv1.LoadSessionResponse, error)
	// ResumeSession opens a session that the agent has stored, without its history.
	ResumeSession(ctx context.Context, req *supervisorv1.ResumeSessionRequest) (*supervisorv1.ResumeSessionResponse, error)
	// ForkSession opens a session that starts from the state of another one.
	ForkSession(ctx context.Context, req *supervisorv1.ForkSessionRequest) (*supervisorv1.ForkSessionResponse, error)
	// ListStoredSessions asks an agent for its stored sessions.
	ListStoredSessions(ctx context.Context, req *supervisorv1.ListStoredSessionsRequest) (*supervisorv1.ListStoredSessionsResponse, error)
	// CloseSession ends a session.
	CloseSession(ctx context.Context, req *supervisorv1.CloseSessionRequest) (*supervisorv1.CloseSessionResponse, error)
	// DeleteSession asks an agent to delete a session.
	DeleteSession(ctx context.Context, req *supervisorv1.DeleteSessionRequest) (*supervisorv1.DeleteSessionResponse, error)
	// Prompt begins a turn and sends its events; the last event ends the turn. It returns an error of send unchanged.
	// The request determines whether the turn ends with ctx.
	Prompt(ctx context.Context, req *supervisorv1.PromptRequest, send func(*supervisorv1.Event) error) error
	// CancelPrompt asks an agent to end its turn.
	CancelPrompt(ctx context.Context, req *supervisorv1.CancelPromptRequest) (*supervisorv1.CancelPromptResponse, error)
	// SetMode sets a session's mode.
	SetMode(ctx context.Context, req *supervisorv1.SetModeRequest) (*supervisorv1.SetModeResponse, error)
	// SetModel sets a session's model.
	SetModel(ctx context.Context, req *supervisorv1.SetModelRequest) (*supervisorv1.SetModelResponse, error)
	// SetConfigOption sets one of a session's options.
	SetConfigOption(ctx context.Context, req *supervisorv1.SetConfigOptionRequest) (*supervisorv1.SetConfigOptionResponse, error)
}

// Events reads events. Its methods are called concurrently and return when their context ends, when a send fails (with
// its error), or after the last event. Events must not be changed once they are sent. Errors are those of package
// fault.
type Events interface {
	// WatchEvents sends the events of all agents, sessions and handlers after a cursor, then new ones as they occur.
	// One send has up to limit events; if limit is 0, all that are available. send must not keep the slice.
	WatchEvents(ctx context.Context, cursor string, limit int, send func([]event.Encoded) error) error
	// WatchSession sends the events of a session, recorded events first.
	WatchSession(ctx context.Context, req *supervisorv1.WatchSessionRequest, send func(*supervisorv1.Event) error) error
}

// sessionService serves Sessions and Events.
type sessionService struct {
	supervisorv1.UnsafeSessionServiceServer
	Sessions            // nil: sessions can only be watched; Options.refused rejects other calls
	events    Events    // nil: sessions cannot be watched
	approvals Approvals // nil: no approvals
}

func (s *sessionService) Prompt(req *supervisorv1.PromptRequest, stream grpc.ServerStreamingServer[supervisorv1.PromptResponse]) error {
	shown := withIDs(stream.Context(), s.approvals)
	return s.Sessions.Prompt(stream.Context(), req, func(e *supervisorv1.Event) error {
		return stream.Send(&supervisorv1.PromptResponse{Event: shown(e)})
	})
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
