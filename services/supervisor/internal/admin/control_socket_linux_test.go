package admin_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// at connects to an address as any gRPC client does, without asking where verbs are taken.
func at(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// controlOf asks a supervisor for its control socket.
func controlOf(t *testing.T, socket string) *supervisorv1.GetStatusResponse {
	t.Helper()
	st, err := supervisorv1.NewSupervisorStateServiceClient(at(t, "unix://"+socket)).GetStatus(t.Context(), &supervisorv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestAdminSocket_RefusesControlMethods(t *testing.T) {
	socket := serve(t)
	if got := tryOn(at(t, "unix://"+socket)); got != refused {
		t.Errorf("a person on the socket with a path: %s", got)
	}
	control := controlOf(t, socket).GetControlSocket()
	for _, address := range []string{"unix:" + control, "unix-abstract:" + strings.TrimPrefix(control, "@")} {
		if got := tryOn(at(t, address)); got != allowed {
			t.Errorf("a person at %s: %s", address, got)
		}
	}
	_, err := supervisorv1.NewSupervisorControlServiceClient(at(t, "unix://"+socket)).ReloadPolicy(t.Context(), &supervisorv1.ReloadPolicyRequest{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), control) {
		t.Errorf("the refusal is %v; want it to name %s", err, control)
	}
}

// behind runs this test binary in a role in a sandbox. Its ancestor is the test, a person's process: its ancestors do
// not identify it as an agent.
func behind(t *testing.T, c proc.Confinement, args ...string) string {
	t.Helper()
	var out []byte
	var err error
	cmd := command(t, args...)
	_ = proc.Confine(c, func(proc.Restrictions) error { out, err = cmd.Output(); return nil })
	if err != nil {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	return strings.TrimSpace(string(out))
}

func TestControlSocket_LandlockAloneStopsAgent(t *testing.T) {
	if err := proc.ConfineSupported(); err != nil {
		t.Skip(err)
	}
	socket := serve(t)
	control := controlOf(t, socket).GetControlSocket()
	if got := behind(t, proc.Confinement{NoSeccomp: true}, "connect", control); got != unix.EPERM.Error() {
		t.Errorf("in a Landlock domain, connecting to the control socket: %s", got)
	}
	if got := behind(t, proc.Confinement{NoSeccomp: true}, "call", socket); got != refused {
		t.Errorf("in a Landlock domain alone: %s", got)
	}
	if got := behind(t, proc.Confinement{NoLandlock: true}, "connect", control); got != "ok" {
		t.Errorf("outside of a Landlock domain, connecting to the control socket: %s", got)
	}
	if got := behind(t, proc.Confinement{NoLandlock: true}, "call", socket); got != refused {
		t.Errorf("behind a seccomp filter alone: %s", got)
	}
	if got := behind(t, proc.Confinement{NoLandlock: true, NoSeccomp: true}, "call", socket); got != allowed {
		t.Errorf("behind no wall: %s", got)
	}
}

func TestControlSocket_ReportsWhyItIsOff(t *testing.T) {
	dir := testkit.ShortDir(t)
	const why = "since this test closed it"
	s := start(t, admin.Options{Socket: filepath.Join(dir, "a.sock"), Control: obedient{}, ControlOff: why})
	st := controlOf(t, s.Path())
	if st.GetControlSocket() != "" || st.GetControlOff() != why {
		t.Errorf("status is %q and %q", st.GetControlSocket(), st.GetControlOff())
	}
	conn, err := client.Supervisor{Socket: s.Path()}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = supervisorv1.NewSupervisorControlServiceClient(conn).ReloadPolicy(t.Context(), &supervisorv1.ReloadPolicyRequest{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), why) {
		t.Errorf("the refusal is %v; want the reason", err)
	}
}
