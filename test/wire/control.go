package wire

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Status is the status of the supervisor with that admin socket.
func Status(t testing.TB, socket string) *supervisorv1.GetStatusResponse {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	defer cancel()
	status, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(ctx, &supervisorv1.GetStatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("ask the supervisor at %s for its status: %v", socket, err)
	}
	return status
}

// Control is the address of the control socket of the supervisor with that admin socket, in gRPC's form.
func Control(t testing.TB, socket string) string {
	t.Helper()
	status := Status(t, socket)
	if status.GetControlSocket() == "" {
		t.Fatalf("the supervisor at %s has no control socket: %s", socket, status.GetControlOff())
	}
	return "unix:" + status.GetControlSocket()
}
