package admin_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

func TestControlSocket_DelegationOnlyReducesRights(t *testing.T) {
	dir := testkit.ShortDir(t)
	p := newPatient()
	s := start(t, admin.Options{State: fake{}, Control: obedient{}, Agents: p, Sessions: p, Gateway: p, Events: willing{}, Files: p, Approvals: p, Decisions: p, Env: runtimeDir(dir)})
	conn, err := client.DialSocket(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for role, want := range map[string]string{"viewer": refused, "operator": allowed} {
		if got := tryOn(callingFor(conn, "alice", role)); got != want {
			t.Errorf("for a %s: %s, want %s", role, got, want)
		}
	}
	looking, err := grpc.NewClient("unix://"+s.Path(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer looking.Close()
	if got := tryOn(callingFor(looking, "alice", "viewer")); got != "reads refused, verbs refused" {
		t.Errorf("on the socket that shows: %s", got)
	}
}
