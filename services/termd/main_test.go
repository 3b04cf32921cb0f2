package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
	"github.com/acphost/acphost/sdk/launch"

	"github.com/acphost/acphost/services/termd/internal/guard"
	"github.com/acphost/acphost/services/termd/internal/server"
)

// TestMain lets the test's own binary be termd, and its guard.
func TestMain(m *testing.M) {
	if os.Getenv(launch.CookieKey) != "" || len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--listen") {
		main()
	}
	if guard.Main(os.Args) {
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestConformanceInProcess(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	terminals := server.New(log, false)
	t.Cleanup(terminals.Close) // runs after the server has stopped
	handlertest.Run(t, conformance.KindTerminal, handler.Handler{
		Name: "termd", Version: "test", Services: []string{server.ServiceName}, Logger: log,
		Register: terminals.Register, Configure: terminals.Configure, Release: terminals.ReleaseScope,
	})
}

func TestConformanceAsAChild(t *testing.T) {
	conform(t, child(t))
}

func TestConformanceAsASidecar(t *testing.T) {
	dir, err := os.MkdirTemp("", "termd") // a test's own folder has too long a name for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	sidecar := exec.Command(self(t), "--listen=unix://"+socket, fmt.Sprintf("--allow-uid=%d", os.Getuid()))
	sidecar.Stderr = os.Stderr
	must(t, sidecar.Start())
	t.Cleanup(func() {
		if err := errors.Join(sidecar.Process.Signal(os.Interrupt), sidecar.Wait()); err != nil {
			t.Errorf("the sidecar: %v", err)
		}
	})
	until(t, "the sidecar listens", func() bool { _, err := os.Stat(socket); return err == nil })
	conform(t, start(t, launch.Spec{Name: "termd", Address: "unix://" + socket}))
}

func conform(t *testing.T, instance *launch.Instance) {
	t.Helper()
	suite := conformance.Suite{Conn: instance, Kind: conformance.KindTerminal, Sidecar: instance.Sidecar()}
	for _, c := range conformance.Cases(conformance.KindTerminal) {
		if err := suite.RunCase(t.Context(), c); err != nil && !errors.Is(err, conformance.ErrSkipped) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// child starts termd as a supervisor does.
func child(t *testing.T) *launch.Instance {
	t.Helper()
	return start(t, launch.Spec{Name: "termd", Command: []string{self(t)}})
}

func start(t *testing.T, spec launch.Spec) *launch.Instance {
	t.Helper()
	instance, err := launch.Start(t.Context(), spec)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := instance.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return instance
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

// until polls what only another process can make true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in 30 s: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
