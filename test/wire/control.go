package wire

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Control is the address of the control socket of the supervisor with that admin socket, as gRPC takes it.
func Control(t testing.TB, socket string) string {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	status, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(ctx, &supervisorv1.GetStatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("ask the supervisor at %s for its control socket: %v", socket, err)
	}
	if status.GetControlSocket() == "" {
		t.Fatalf("the supervisor at %s has no control socket: %s", socket, status.GetControlOff())
	}
	return "unix:" + status.GetControlSocket()
}
