// Package upstream opens agents at a supervisor. It knows the contract of GatewayService, and converts its errors to
// texts for clients. It must not know which client requests an agent.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// Supervisor opens agents at a supervisor.
type Supervisor struct{ client *client.Client }

// New returns a Supervisor for a connection, which the caller closes.
func New(c *client.Client) *Supervisor { return &Supervisor{client: c} }

// Open implements attach.OpenAgent.
func (s *Supervisor) Open(ctx context.Context, name string) (relay.Agent, error) {
	life, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	opened, id, err := open(life, s.client, name)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return &agent{stream: opened, id: id, cancel: cancel}, nil
}

// Ready returns an error unless the supervisor's health service reports that it serves.
func (s *Supervisor) Ready(ctx context.Context) error {
	res, err := healthv1.NewHealthClient(s.client).Check(ctx, &healthv1.HealthCheckRequest{})
	if err == nil && res.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("the supervisor is %s", res.GetStatus())
	}
	return err
}

type stream = interface {
	Send(*supervisorv1.OpenAgentRequest) error
	Recv() (*supervisorv1.OpenAgentResponse, error)
	CloseSend() error
}

func open(life context.Context, c *client.Client, name string) (_ stream, id string, _ error) {
	s, err := c.Gateway.OpenAgent(life)
	if err != nil {
		return nil, "", err
	}
	// After io.EOF from Send, Recv returns the reason.
	_ = s.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{Agent: name}}})
	first, err := s.Recv()
	if errors.Is(err, io.EOF) || err == nil && first.GetOpened() == nil {
		return nil, "", errors.New("the supervisor did not report the opened agent")
	}
	return s, first.GetOpened().GetAgent().GetId(), err
}

// agent is a relay.Agent.
type agent struct {
	stream stream
	id     string
	cancel context.CancelFunc
	once   sync.Once
}

// ID returns the agent's id at the supervisor.
func (a *agent) ID() string { return a.id }

func (a *agent) Send(frame []byte) error {
	err := a.stream.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Frames{Frames: &supervisorv1.Frames{Frames: [][]byte{frame}}}})
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return err
}

var errEnded = errors.New("the agent has ended")

func (a *agent) Recv() ([][]byte, error) {
	for {
		m, err := a.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errEnded
		case err != nil:
			return nil, err
		case len(m.GetFrames().GetFrames()) > 0:
			return m.GetFrames().GetFrames(), nil
		}
	}
}

func (a *agent) Close() { a.once.Do(a.cancel) }
