// Package client controls a running acphost from Go: it finds the supervisors of this user, starts agents, prompts
// them, watches their events, and answers their questions. The acphost commands use it.
//
// A Client is one connection; its fields are the services of acphost.supervisor.v1. Operations that need more than one
// call have a method: Prompt and its Turn, WatchSession, WatchApprovals, WatchOutput, OpenSession. Every error of a
// call is an *Error.
//
// The package knows the contracts in package supervisorv1, sockets and TLS. It must not know how a supervisor
// implements a call.
package client

import (
	"context"
	"io"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Client is a connection to a supervisor. It implements grpc.ClientConnInterface, for services without a field here,
// such as grpc.health.v1. It is safe for concurrent use.
type Client struct {
	Agents    supervisorv1.AgentServiceClient
	Sessions  supervisorv1.SessionServiceClient
	State     supervisorv1.SupervisorStateServiceClient
	Approvals supervisorv1.ApprovalServiceClient
	Control   supervisorv1.SupervisorControlServiceClient
	Gateway   supervisorv1.GatewayServiceClient

	conn grpc.ClientConnInterface
}

// New returns a Client for an existing connection, such as one to a supervisor within this process. Close closes the
// connection if it is an io.Closer.
func New(conn grpc.ClientConnInterface) *Client {
	c := &Client{conn: conn}
	c.Agents = supervisorv1.NewAgentServiceClient(c)
	c.Sessions = supervisorv1.NewSessionServiceClient(c)
	c.State = supervisorv1.NewSupervisorStateServiceClient(c)
	c.Approvals = supervisorv1.NewApprovalServiceClient(c)
	c.Control = supervisorv1.NewSupervisorControlServiceClient(c)
	c.Gateway = supervisorv1.NewGatewayServiceClient(c)
	return c
}

// Close ends the connection and all calls on it.
func (c *Client) Close() error {
	if closer, ok := c.conn.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Invoke implements grpc.ClientConnInterface. Errors are of type *Error.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return asError(c.conn.Invoke(ctx, method, args, reply, opts...))
}

// NewStream implements grpc.ClientConnInterface. Errors are of type *Error, except for the io.EOF at a stream's end.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, asError(err)
	}
	return typedStream{stream}, nil
}

// typedStream is a stream whose errors are of type *Error.
type typedStream struct{ grpc.ClientStream }

func (s typedStream) SendMsg(m any) error { return asError(s.ClientStream.SendMsg(m)) }
func (s typedStream) RecvMsg(m any) error { return asError(s.ClientStream.RecvMsg(m)) }

// asError returns the error of a call as an *Error.
func asError(err error) error {
	if e := ErrorOf(err); e != nil {
		return e
	}
	return err
}
