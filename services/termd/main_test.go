package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
	"github.com/acphost/acphost/sdk/launch"

	"github.com/acphost/acphost/services/termd/internal/server"
)

// TestMain plays termd. It is also termd's guard, as every program with that package is.
func TestMain(m *testing.M) {
	if os.Getenv(launch.CookieKey) != "" || len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--listen") {
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestConformance_InProcess(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	terminals := server.New(log, false)
	t.Cleanup(terminals.Close) // runs after the server has stopped
	handlertest.Run(t, conformance.KindTerminal, handler.Handler{
		Name: "termd", Version: "test", Logger: log,
		Register: terminals.Register, Configure: terminals.Configure, Release: terminals.ReleaseScope,
	}, func(s *conformance.Suite) { s.Settings = impatient })
}

// impatient are settings by which what ignores TERM is killed soon, so that the cases need not wait 2 s for it.
var impatient = &structpb.Struct{Fields: map[string]*structpb.Value{"kill_grace_ms": structpb.NewNumberValue(200)}}

func TestConformance_Child(t *testing.T) {
	conform(t, child(t))
}

func TestConformance_Sidecar(t *testing.T) {
	dir := testkit.ShortDir(t)
	socket := filepath.Join(dir, "s")
	key := filepath.Join(dir, "secret")
	must(t, os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600))
	settings := filepath.Join(dir, "settings.yaml")
	must(t, os.WriteFile(settings, []byte("kill_grace_ms: 200\n"), 0o600))
	sidecar := exec.Command(testkit.Self(t), "--listen=unix://"+socket, "--secret-file="+key, "--settings="+settings)
	sidecar.Stderr = os.Stderr
	must(t, sidecar.Start())
	t.Cleanup(func() {
		if err := errors.Join(sidecar.Process.Signal(os.Interrupt), sidecar.Wait()); err != nil {
			t.Errorf("the sidecar: %v", err)
		}
	})
	testkit.Eventually(t, "the sidecar listens", func() bool { return testkit.Listens(socket) })
	conform(t, start(t, launch.Spec{Name: "termd", Address: "unix://" + socket, SecretFile: key}))
}

func conform(t *testing.T, instance *launch.Instance) {
	t.Helper()
	suite := conformance.Suite{
		Conn: instance, Kind: conformance.KindTerminal, Sidecar: instance.Sidecar(), Settings: impatient,
	}
	for _, c := range conformance.Cases(conformance.KindTerminal) {
		if err := suite.RunCase(t.Context(), c); err != nil && !errors.Is(err, conformance.ErrSkipped) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// child starts termd as a supervisor does.
func child(t *testing.T) *launch.Instance {
	t.Helper()
	return start(t, launch.Spec{Name: "termd", Command: []string{testkit.Self(t)}})
}

func start(t *testing.T, spec launch.Spec) *launch.Instance {
	t.Helper()
	instance, err := launch.Start(t.Context(), spec)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		if err := instance.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return instance
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
