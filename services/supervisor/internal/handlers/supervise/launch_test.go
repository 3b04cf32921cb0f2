package supervise

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/launch"
)

// This test binary is a handler as well, where go-plugin's cookie is in its environment.
func TestMain(m *testing.M) {
	if os.Getenv(launch.CookieKey) != "" {
		handler.Main(handler.Handler{
			Name: "test-fs", Version: "1",
			Register:  func(s grpc.ServiceRegistrar) { fsv1.RegisterFileSystemServiceServer(s, played{}) },
			Configure: playConfigure,
		})
	}
	goleak.VerifyTestMain(m)
}

// realHandler supervises this test binary, from its own copy.
func realHandler(t *testing.T) (h *Handler, program string) {
	t.Helper()
	program = copyOfSelf(t)
	h = New(Options{Name: "fs", Spec: real(program)})
	keep(t, h)
	return h, program
}

func TestProcess_RestartsAfterKill(t *testing.T) {
	h, _ := realHandler(t)
	before := h.Status()
	if before.GetDescription() != "test-fs 1" || !before.GetMutualTls() || len(h.Digest()) != 64 {
		t.Errorf("status = %v", before)
	}
	h.Hold(strings.Repeat("0", 32))
	conn, err := h.Conn()
	if err != nil {
		t.Fatal(err)
	}
	inst := conn.(Instance)
	if err := syscall.Kill(int(before.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-inst.Done()
	if err := h.Ready(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if now := h.Status(); now.GetPid() == before.GetPid() || now.GetRestarts() != 1 {
		t.Errorf("status = %v, want another process", now)
	}
}

func TestProcess_ReplacedProgramIsNotStarted(t *testing.T) {
	for when, c := range map[string]struct {
		measure func(h *Handler)
		want    string
	}{
		"after it was measured":  {func(h *Handler) { h.Digest() }, "is another program now"},
		"before it was measured": {func(*Handler) {}, "changed right after its start"},
	} {
		t.Run(when, func(t *testing.T) {
			h, program := realHandler(t)
			c.measure(h)
			conn, err := h.Conn()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(int(h.Status().GetPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-conn.(Instance).Done()
			if err := h.Ready(deadline(t)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "swap") {
				t.Errorf("error = %v, want %q, and that it is a swap", err, c.want)
			}
		})
	}
}

func TestStart_MissingProgramFails(t *testing.T) {
	h := New(Options{Name: "fs", Spec: launch.Spec{Name: "fs", Command: []string{"/no/such/program"}}})
	h.Start(t.Context())
	err := h.Ready(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "handler fs has failed: ") || strings.Count(err.Error(), "handler fs") != 1 {
		t.Errorf("error = %v, want the handler's name once, and why", err)
	}
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	t.Cleanup(cancel)
	return ctx
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}
