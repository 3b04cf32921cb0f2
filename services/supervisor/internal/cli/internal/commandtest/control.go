package commandtest

import (
	"context"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// Control is a fake that records operations on handlers.
type Control struct {
	Swapped   *supervisorv1.SwapHandlerRequest
	Restarted *supervisorv1.RestartHandlerRequest
}

var handlerNow = &supervisorv1.HandlerStatus{
	Name: "permission", State: supervisorv1.HandlerState_HANDLER_STATE_READY, Description: "permd\x1b 2", Pid: 99,
	Since: timestamppb.Now(), Notes: []string{"two rules"},
}

func (c *Control) RestartHandler(_ context.Context, req *supervisorv1.RestartHandlerRequest) (*supervisorv1.RestartHandlerResponse, error) {
	c.Restarted = req
	return &supervisorv1.RestartHandlerResponse{Handler: handlerNow}, nil
}

func (c *Control) SwapHandler(_ context.Context, req *supervisorv1.SwapHandlerRequest) (*supervisorv1.SwapHandlerResponse, error) {
	c.Swapped = req
	return &supervisorv1.SwapHandlerResponse{Handler: handlerNow, Forced: 3}, nil
}

func (*Control) ReloadPolicy(context.Context, *supervisorv1.ReloadPolicyRequest) (*supervisorv1.ReloadPolicyResponse, error) {
	return &supervisorv1.ReloadPolicyResponse{Handlers: []*supervisorv1.HandlerStatus{handlerNow}}, nil
}

func (*Control) RevokeGrants(context.Context, *supervisorv1.RevokeGrantsRequest) (*supervisorv1.RevokeGrantsResponse, error) {
	return &supervisorv1.RevokeGrantsResponse{}, nil
}

// running is a fake supervisor with handlers and a pid.
type running struct {
	State
	pid int64
}

func (r running) GetStatus(ctx context.Context, req *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	s, err := r.State.GetStatus(ctx, req)
	s.Pid = r.pid
	return s, err
}

func (running) ListHandlers(context.Context, *supervisorv1.ListHandlersRequest) (*supervisorv1.ListHandlersResponse, error) {
	return &supervisorv1.ListHandlersResponse{Handlers: []*supervisorv1.HandlerStatus{handlerNow}}, nil
}

// ServeHandlers serves the admin sockets of supervisors with these process ids, in a new folder, and returns an
// environment that finds them.
func ServeHandlers(t *testing.T, c *Control, pids ...int64) map[string]string {
	t.Helper()
	dir := testkit.ShortDir(t)
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	for _, pid := range pids {
		server, err := admin.Start(admin.Options{
			State: running{pid: pid}, Control: c, Env: func(name string) string { return env[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
	}
	return env
}
