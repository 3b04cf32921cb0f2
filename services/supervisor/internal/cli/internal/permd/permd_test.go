package permd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

// asPermd makes the test binary be permd, for tests that need a process.
const asPermd = "ACPHOST_TEST_AS_PERMD"

func TestMain(m *testing.M) {
	if os.Getenv(asPermd) == "" {
		goleak.VerifyTestMain(m)
	}
	handler.Main(handler.Handler{
		Name: "permd", Version: "test",
		Register: func(r grpc.ServiceRegistrar) { permissionv1.RegisterPolicyServiceServer(r, fake{}) },
	})
}

// fake has one ready policy, which contains the id of its process.
type fake struct {
	permissionv1.UnimplementedPolicyServiceServer
}

func (fake) ListReadyPolicies(context.Context, *permissionv1.ListReadyPoliciesRequest) (*permissionv1.ListReadyPoliciesResponse, error) {
	return &permissionv1.ListReadyPoliciesResponse{Policies: []*permissionv1.ReadyPolicy{{Name: "pid", Content: []byte(fmt.Sprint(os.Getpid()))}}}, nil
}

func TestStartPermd_EndsWithStop(t *testing.T) {
	program := filepath.Join(t.TempDir(), "permd")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q\n", asPermd, testkit.Self(t))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	permd, stop, err := policytool.StartPermd(t.Context(), []string{program}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	content, err := policytool.ReadyPolicy(t.Context(), permd, "pid")
	if err != nil {
		t.Error(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(content), &pid); err != nil || pid <= 1 || syscall.Kill(pid, 0) != nil {
		t.Errorf("permd is process %q, which is not there (%v)", content, err)
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
	// The shell that became it was our child and was waited for, so its id is free again.
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is there after Stop: %v", pid, err)
	}
}

func TestStartPermd_ReportsMissingProgram(t *testing.T) {
	_, _, err := policytool.StartPermd(t.Context(), []string{filepath.Join(t.TempDir(), "permd")}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error is %v", err)
	}
}
