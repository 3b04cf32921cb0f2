package admin

import (
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/peer"
)

func TestAccess_AllowsOnlyReadsWithoutRole(t *testing.T) {
	gate := &access{classes: map[string]class{
		"/x/Read": {need: certs.Viewer}, "/x/Stop": {need: certs.Operator},
	}, logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		method string
		info   credentials.AuthInfo
		want   codes.Code
	}{
		{"/x/Read", nil, codes.OK},
		{"/x/Stop", identity{process: peer.Peer{Known: true, UID: 1, PID: 1}}, codes.PermissionDenied},
		{"/x/Stop", identity{}, codes.PermissionDenied},
		{"/x/Stop", nil, codes.PermissionDenied},
		{"/x/Unheard", nil, codes.PermissionDenied},
		{"/x/Stop", identity{self: true}, codes.OK},
	} {
		ctx := grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{AuthInfo: c.info})
		if got := status.Code(gate.check(ctx, c.method, nil)); got != c.want {
			t.Errorf("%s as %+v: %v, want %v", c.method, c.info, got, c.want)
		}
	}
}
