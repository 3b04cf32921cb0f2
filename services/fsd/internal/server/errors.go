package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/fsd/internal/files"
)

// codeOf maps error kinds to gRPC codes.
var codeOf = map[files.Kind]codes.Code{
	files.Invalid:   codes.InvalidArgument,
	files.Escapes:   codes.InvalidArgument,
	files.NotText:   codes.InvalidArgument,
	files.Missing:   codes.NotFound,
	files.TooLarge:  codes.OutOfRange,
	files.Denied:    codes.PermissionDenied,
	files.Protected: codes.PermissionDenied,
	files.Changed:   codes.FailedPrecondition,
	files.NoSpace:   codes.ResourceExhausted,
	files.Failed:    codes.Internal,
}

var errNoContext = status.New(codes.InvalidArgument, "context is required: it names the roots that the call is held to")

// statusOf converts every error that package files returns.
func statusOf(err error) *status.Status {
	var known *files.Error
	switch {
	case errors.As(err, &known):
		return status.New(codeOf[known.Kind], known.Error())
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "the call took too long")
	}
	return status.New(codes.Internal, err.Error())
}
