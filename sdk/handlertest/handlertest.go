// Package handlertest runs the conformance cases against a handler in the test's own process, as subtests. It is
// usually the first test of a new handler.
//
//	func TestConformance(t *testing.T) {
//		handlertest.Run(t, conformance.KindFS, myHandler())
//	}
package handlertest

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
)

// messageLimit leaves room for the largest answer, in bytes.
const messageLimit = 128 << 20

// Run serves h in this process and runs every case for its kind (conformance.KindFS, …) as a subtest. Cases that do not
// apply are skipped subtests. options configure the suite before the first case runs.
func Run(t *testing.T, kind string, h handler.Handler, options ...func(*conformance.Suite)) {
	t.Helper()
	cases := conformance.Cases(kind)
	if len(cases) == 0 {
		t.Fatalf("there are no cases for handlers of kind %q, only for %q", kind, conformance.Kinds())
	}
	suite := conformance.Suite{Conn: Serve(t, h), Kind: kind}
	for _, option := range options {
		option(&suite)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			switch err := suite.RunCase(t.Context(), c); {
			case errors.Is(err, conformance.ErrSkipped):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// Serve serves h in this process until the test ends, and returns a connection to it.
func Serve(t testing.TB, h handler.Handler) *grpc.ClientConn {
	t.Helper()
	server, err := handler.NewServer(h)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:"+h.Name,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit), grpc.MaxCallSendMsgSize(messageLimit)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("close the connection: %v", err)
		}
		server.Stop(context.Background())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}
