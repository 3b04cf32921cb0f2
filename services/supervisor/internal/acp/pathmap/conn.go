package pathmap

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
)

// Conn is the connection of a handler with mapped paths. Only Conn converts the paths in calls and answers. Its callers
// use the client's paths.
type Conn struct {
	conn grpc.ClientConnInterface
	maps *Maps
}

// Wrap returns a connection that maps paths. It returns the connection itself if there are no maps.
func Wrap(conn grpc.ClientConnInterface, maps *Maps) grpc.ClientConnInterface {
	if maps == nil {
		return conn
	}
	return &Conn{conn, maps}
}

// CheckRequest returns an error if a request names a path that does not exist in the sidecar, or a command that names a
// mapped path. No decision is needed about such a call, because Invoke rejects it.
func (c *Conn) CheckRequest(f *transcode.Frame) error {
	_, err := f.WithPaths(c.maps)
	return requestError(err)
}

// Invoke implements grpc.ClientConnInterface. If a path in the request or response has no counterpart, the call fails
// with InvalidArgument or FailedPrecondition.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if request, ok := args.(*transcode.Frame); ok {
		return c.invokeFrame(ctx, method, request, reply, opts)
	}
	there, err := c.request(args)
	if err != nil {
		return err
	}
	if err := c.conn.Invoke(ctx, method, there, reply, opts...); err != nil {
		return c.hereError(err)
	}
	return c.response(reply)
}

func (c *Conn) invokeFrame(ctx context.Context, method string, request *transcode.Frame, reply any, opts []grpc.CallOption) error {
	there, err := request.WithPaths(c.maps)
	if err != nil {
		return requestError(err)
	}
	answer, ok := reply.(*transcode.Frame)
	if !ok {
		return status.Errorf(codes.Internal, "a frame is answered by a frame, not by a %T", reply)
	}
	if err := c.conn.Invoke(ctx, method, there, answer, opts...); err != nil {
		return c.hereError(err)
	}
	return responseError(request.ReplyPaths(c.maps, answer))
}

// OtherPaths marks the connection as one with paths that differ from those of the client.
func (c *Conn) OtherPaths() {}

// NewStream implements grpc.ClientConnInterface.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, c.hereError(err)
	}
	return &stream{s, c}, nil
}

// stream is a stream with mapped paths.
type stream struct {
	grpc.ClientStream
	conn *Conn
}

func (s *stream) SendMsg(m any) error {
	there, err := s.conn.request(m)
	if err != nil {
		return err
	}
	return s.ClientStream.SendMsg(there)
}

func (s *stream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return s.conn.hereError(err)
	}
	return s.conn.response(m)
}

// request returns a copy of a message with the handler's paths.
func (c *Conn) request(args any) (any, error) {
	m, where, err := c.pathsIn(args)
	if err != nil || where == nil {
		return args, err
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	if wire, err = where.Request(c.maps, wire); err != nil {
		return nil, requestError(err)
	}
	there := m.ProtoReflect().New().Interface()
	return there, proto.Unmarshal(wire, there)
}

// response replaces the handler's paths in a message by the client's.
func (c *Conn) response(reply any) error {
	m, where, err := c.pathsIn(reply)
	if err != nil || where == nil {
		return err
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if wire, err = where.Response(c.maps, wire); err != nil {
		proto.Reset(m) // it still has the handler's paths
		return responseError(err)
	}
	return proto.Unmarshal(wire, m)
}

// pathsIn returns the positions of paths in a message, or nil.
func (c *Conn) pathsIn(message any) (proto.Message, *transcode.Paths, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, nil, status.Errorf(codes.Internal, "the paths of a %T are not known", message)
	}
	md := m.ProtoReflect().Descriptor()
	if where, ok := c.maps.messages.Load(md); ok {
		return m, where.(*transcode.Paths), nil
	}
	where, err := transcode.PathsOf(md)
	if err != nil {
		return nil, nil, err
	}
	c.maps.messages.Store(md, where)
	return m, where, nil
}

// requestError returns the error for a request with a path that has no counterpart.
func requestError(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// responseError returns the error for a response with a path that has no counterpart.
func responseError(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// hereError returns a handler's error with the client's paths in its texts.
func (c *Conn) hereError(err error) error {
	var own interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &own) {
		return err
	}
	s := proto.CloneOf(own.GRPCStatus().Proto())
	changed := c.here(&s.Message)
	for _, any := range s.GetDetails() {
		var detail acpv1.ErrorDetail
		if any.MessageIs(&detail) && any.UnmarshalTo(&detail) == nil && c.here(&detail.Data) {
			changed = any.MarshalFrom(&detail) == nil || changed
		}
	}
	if !changed {
		return err
	}
	return status.FromProto(s).Err()
}

// here replaces the handler's paths in a text, and reports whether it has changed.
func (c *Conn) here(text *string) bool {
	was := *text
	*text = c.maps.ClientText(was)
	return *text != was
}
