package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

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
