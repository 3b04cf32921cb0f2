// Command broken is a careless file handler and policy: without roots, limits, and checks of paths and commands. A
// conformance suite must fail it.
package main

import (
	"context"
	"os"
	"strings"
	"sync"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/handler"
	"google.golang.org/grpc"
)

func main() {
	handler.Main(handler.Handler{
		Name:    "broken",
		Version: "0",
		Register: func(r grpc.ServiceRegistrar) {
			fsv1.RegisterFileSystemServiceServer(r, files{})
			permissionv1.RegisterPermissionServiceServer(r, &policy{})
		},
	})
}

type files struct {
	fsv1.UnimplementedFileSystemServiceServer
}

func (files) ReadTextFile(_ context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	content, err := os.ReadFile(r.GetPath())
	return &fsv1.ReadTextFileResponse{Content: string(content)}, err
}

func (files) WriteTextFile(_ context.Context, r *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	return &fsv1.WriteTextFileResponse{}, os.WriteFile(r.GetPath(), []byte(r.GetContent()), 0o600)
}

// policy believes titles, remembers what it was asked, and has no word for what it denies.
type policy struct {
	permissionv1.UnimplementedPermissionServiceServer
	mu    sync.Mutex
	asked map[string]bool
}

func (p *policy) Decide(_ context.Context, r *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := r.GetAction().GetKind()
	switch {
	case p.asked[kind] || strings.HasPrefix(r.GetAction().GetCommand().GetText(), "git"):
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW, Grantable: true}, nil
	case r.GetAction().GetTitle() == "":
		return &permissionv1.DecideResponse{}, nil
	case kind == "tool.delete":
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY}, nil
	}
	if p.asked == nil {
		p.asked = map[string]bool{}
	}
	p.asked[kind] = true
	return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK, Unattended: permissionv1.Verdict_VERDICT_ASK}, nil
}
