package admin

import (
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

func TestReadingIsOpenAndEverythingElseIsNot(t *testing.T) {
	gate := access{logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		method string
		info   credentials.AuthInfo
		want   codes.Code
	}{
		{"/acphost.supervisor.v1.SupervisorStateService/GetStatus", nil, codes.OK},
		{"/grpc.health.v1.Health/Check", nil, codes.OK},
		{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nil, codes.OK},
		{"/acphost.supervisor.v1.SupervisorStateServiceX/Stop", peerInfo{caller: caller{Known: true, UID: 1, PID: 1}}, codes.PermissionDenied},
		{"/acphost.supervisor.v1.SupervisorControlService/Stop", peerInfo{caller: caller{Known: true, UID: 1, PID: 1}}, codes.PermissionDenied},
		{"/acphost.supervisor.v1.SupervisorControlService/Stop", peerInfo{}, codes.PermissionDenied},
		{"/acphost.supervisor.v1.SupervisorControlService/Stop", nil, codes.PermissionDenied},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: c.info})
		if got := status.Code(gate.check(ctx, c.method)); got != c.want {
			t.Errorf("%s as %+v: %v, want %v", c.method, c.info, got, c.want)
		}
	}
}
