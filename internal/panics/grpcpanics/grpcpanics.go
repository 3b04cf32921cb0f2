// Package grpcpanics recovers from panics of gRPC method implementations: the call fails with INTERNAL and a message,
// the stack is logged at ERROR, and the server continues.
package grpcpanics

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
)

// Options returns the unary and the stream interceptor as options of a server. They must be first, so that they also
// cover the other interceptors. A nil logger is slog's default logger.
func Options(log *slog.Logger) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(Unary(log)), grpc.ChainStreamInterceptor(Stream(log))}
}

// Unary returns an interceptor that answers a unary call with INTERNAL if it panics.
func Unary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
		defer panics.Recover(log, "answering "+info.FullMethod, func(p error) { res, err = nil, asStatus(p) })
		return next(ctx, req)
	}
}

// Stream returns an interceptor that ends a stream with INTERNAL if its method panics.
func Stream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer panics.Recover(log, "answering "+info.FullMethod, func(p error) { err = asStatus(p) })
		return next(srv, ss)
	}
}

func asStatus(err error) error { return status.Error(codes.Internal, err.Error()) }

// Codec returns a codec that returns an error when c panics. gRPC encodes and decodes outside of interceptors.
func Codec(log *slog.Logger, c encoding.CodecV2) encoding.CodecV2 { return codec{c, log} }

type codec struct {
	encoding.CodecV2
	log *slog.Logger
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (out mem.BufferSlice, err error) {
	defer panics.Recover(c.log, "encoding a message", func(p error) { out, err = nil, p })
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	defer panics.Recover(c.log, "decoding a message", func(p error) { err = p })
	return c.CodecV2.Unmarshal(data, v)
}
