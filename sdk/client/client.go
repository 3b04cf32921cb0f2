// Package client drives a running acphost from Go: it finds the supervisors of this user, starts agents, prompts them,
// watches what they do, and answers their questions. acphost's own commands use it.
//
// A Client is one connection with the services of acphost.supervisor.v1 as its fields. What needs more than one call has a
// method: Prompt and its Turn, WatchSession, WatchApprovals, WatchOutput, OpenSession. Every error of a call is an *Error.
//
// It knows the contracts in package supervisorv1, sockets and TLS. It must not know how a supervisor does what it is asked.
package client

import (
	"context"
	"io"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Client is a connection to a supervisor. It implements grpc.ClientConnInterface, for services that have no field here,
// such as grpc.health.v1. Safe for concurrent use.
type Client struct {
	Agents    supervisorv1.AgentServiceClient
	Sessions  supervisorv1.SessionServiceClient
	State     supervisorv1.SupervisorStateServiceClient
	Approvals supervisorv1.ApprovalServiceClient
	Control   supervisorv1.SupervisorControlServiceClient
	Gateway   supervisorv1.GatewayServiceClient

	conn grpc.ClientConnInterface
}

// New returns a Client of a connection that exists already, such as a supervisor's within this process. Close closes the
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
	return typed(c.conn.Invoke(ctx, method, args, reply, opts...))
}

// NewStream implements grpc.ClientConnInterface. Errors are of type *Error, but for the io.EOF at a stream's end.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, typed(err)
	}
	return typedStream{stream}, nil
}

// typedStream is a stream whose errors are of type *Error.
type typedStream struct{ grpc.ClientStream }

func (s typedStream) SendMsg(m any) error { return typed(s.ClientStream.SendMsg(m)) }
func (s typedStream) RecvMsg(m any) error { return typed(s.ClientStream.RecvMsg(m)) }

// typed is the error of a call as an *Error.
func typed(err error) error {
	if e := ErrorOf(err); e != nil {
		return e
	}
	return err
}
