package certs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/certs"
)

// Clients of sidecars and clients of supervisors have different certificates: neither is accepted as the other.
func TestSidecar_AcceptsOnlyItsSupervisor(t *testing.T) {
	dir, operators := filepath.Join(t.TempDir(), "fs"), authority(t, certs.Options{})
	if err := certs.InitSidecar(dir, "fs", certs.Options{Hosts: []string{"fsd.internal"}}); err != nil {
		t.Fatal(err)
	}
	supervisor := filepath.Join(dir, certs.SupervisorDir)
	if role, err := certs.RoleOf(parse(t, certs.ClientFiles(supervisor).Cert)); role != certs.NoRole || err == nil {
		t.Errorf("the supervisor's certificate has the role %v, %v", role, err)
	}
	sidecar := serverConfig(t, certs.ServerFiles(filepath.Join(dir, certs.SidecarDir)))
	for _, host := range []string{"localhost", "127.0.0.1", "fsd.internal"} {
		if _, err := shake(t, sidecar, clientConfig(t, supervisor, host)); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
	if _, err := shake(t, sidecar, clientConfig(t, filepath.Join(operators, "operator"), "localhost")); err == nil {
		t.Error("an operator's certificate is taken for the supervisor's")
	}
	if _, err := shake(t, serverConfig(t, certs.ServerFiles(filepath.Join(operators, certs.ServerDir))), clientConfig(t, supervisor, "localhost")); err == nil {
		t.Error("the supervisor's certificate is taken for a caller's")
	}
	if err := certs.AddClient(dir, certs.Client{Name: "me", Role: certs.Viewer}, certs.Options{}); err == nil || !strings.Contains(err.Error(), "past every policy") {
		t.Errorf("a viewer of a sidecar's authority: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "me")); err == nil {
		t.Error("it was made all the same")
	}
	if err := certs.InitSidecar(dir, "fs", certs.Options{}); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("a second time: %v", err)
	}
}
