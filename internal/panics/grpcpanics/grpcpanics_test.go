package grpcpanics

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestInterceptors_AnswerInternal(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	_, unary := Unary(log)(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/B"},
		func(context.Context, any) (any, error) { panic("injected") })
	stream := Stream(log)(nil, nil, &grpc.StreamServerInfo{FullMethod: "/a/B"}, func(any, grpc.ServerStream) error { panic("injected") })
	for name, err := range map[string]error{"unary": unary, "stream": stream} {
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: got %v, want INTERNAL", name, err)
		}
	}
}
