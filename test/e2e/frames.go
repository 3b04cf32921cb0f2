package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// FrameClient is a client of an agent at the far end of a stream of frames.
type FrameClient struct {
	*wire.Peer
	Agent *supervisorv1.Agent
	Cut   context.CancelFunc
	Ended chan error // holds one: how the call ended
}

// Edge is a supervisor with agents for gateways, served over TCP.
type Edge struct {
	*Server
	Keys, address string
}

// NewEdge serves the agents that a part of a configuration names.
func NewEdge(t *testing.T, p *Place, agents string, flags ...string) *Edge {
	t.Helper()
	e := &Edge{Keys: filepath.Join(p.Home, "keys"), address: testkit.FreePort(t)}
	p.MakeKeys(t, e.Keys)
	if status, out, errs := p.Cli(t, "certs", "gateway", e.Keys); status != 0 {
		t.Fatalf("acphost certs gateway: %s%s", out, errs)
	}
	flags = append(flags, p.Config(t, "serve: {gateway_agents: "+agents+"}\n")...)
	e.Server = p.Serve(t, append(flags, "--listen", e.address, "--tls-dir", p.Deploy(t, e.Keys)))
	return e
}

// Gateway is the service as the owner of a folder of keys calls it.
func (e *Edge) Gateway(role string) supervisorv1.GatewayServiceClient {
	e.T.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(e.Keys, role, "client.crt"), filepath.Join(e.Keys, role, "client.key"))
	if err != nil {
		e.T.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(Must(e.T.(*testing.T), filepath.Join(e.Keys, "ca.crt")))
	conn, err := grpc.NewClient(e.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13,
	})))
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { _ = conn.Close() })
	return supervisorv1.NewGatewayServiceClient(conn)
}

// OpenAgent opens an agent; the error is that of the call, if it comes before the agent does.
func (e *Edge) OpenAgent(service supervisorv1.GatewayServiceClient, name string) (*FrameClient, error) {
	ctx, cancel := context.WithCancel(e.Ctx)
	e.T.Cleanup(cancel)
	stream, err := service.OpenAgent(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	// A stream that was refused before the message has left answers io.EOF here; its status comes from Recv.
	if err := stream.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{Agent: name}}}); err != nil && !errors.Is(err, io.EOF) {
		e.T.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	c := &FrameClient{Agent: first.GetOpened().GetAgent(), Cut: cancel, Ended: make(chan error, 1)}
	r, w := io.Pipe()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				_ = w.Close()
				c.Ended <- err
				return
			}
			for _, f := range m.GetFrames().GetFrames() {
				_, _ = fmt.Fprintf(w, "%s\n", f)
			}
		}
	}()
	c.Peer = wire.NewPeer(e.T, "client", &frameSender{stream: stream}, bufio.NewReader(r))
	return c, nil
}

// frameSender sends each line as a frame.
type frameSender struct {
	stream grpc.BidiStreamingClient[supervisorv1.OpenAgentRequest, supervisorv1.OpenAgentResponse]
}

func (s *frameSender) Write(b []byte) (int, error) {
	var frames [][]byte
	for line := range strings.Lines(string(b)) {
		frames = append(frames, []byte(strings.TrimSuffix(line, "\n")))
	}
	return len(b), s.stream.Send(&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Frames{Frames: &supervisorv1.Frames{Frames: frames}}})
}

func (s *frameSender) Close() error { return s.stream.CloseSend() }

// Acquainted is initialize and session/new.
func (c *FrameClient) Acquainted(t *testing.T, cwd string) (session string) {
	t.Helper()
	c.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`)).Result(nil)
	var opened struct{ SessionID string }
	c.Send("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}}).Result(&opened)
	return opened.SessionID
}
