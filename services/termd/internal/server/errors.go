package server

import (
	"context"
	"errors"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/terminal"
)

// statusOf maps every error that the domain returns.
func statusOf(err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, command.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, command.ErrProtected):
		code = codes.PermissionDenied
	case errors.Is(err, terminal.ErrTooMany):
		code = codes.ResourceExhausted
	case errors.Is(err, terminal.ErrEnded), errors.Is(err, command.ErrReplaced):
		code = codes.FailedPrecondition
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the call took too long")
	}
	return status.Error(code, err.Error())
}

// statusOfID maps the errors of a call that names a terminal.
func statusOfID(err error, id string) error {
	if errors.Is(err, terminal.ErrUnknown) {
		return status.Error(codes.NotFound, "Resource not found: "+id)
	}
	return statusOf(err)
}

// scopeOf returns the scope of a call.
func scopeOf(c *acpv1.CallContext) (string, error) {
	if c.GetScope() == "" {
		return "", status.Error(codes.InvalidArgument, "context is required, and its scope: it selects the terminals")
	}
	return c.GetScope(), nil
}
