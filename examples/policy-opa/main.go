// Command policy-opa is a permission policy that forwards decisions: it sends each action as JSON to the data API of an
// Open Policy Agent server (or of another server with that API), and returns its verdict.
//
// It makes no decisions itself. A missing answer, an invalid answer, and a decision that the server's policy leaves
// undefined are errors, and an error counts as deny.
package main

import (
	"context"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"
)

func main() {
	policy := newPolicy()
	handler.Main(policy.handler())
}

// policy adapts PermissionService to a server's data API.
type policy struct {
	permissionv1.UnimplementedPermissionServiceServer
	settings handler.Settings[settings]
	client   client
}

func newPolicy() *policy {
	return &policy{settings: handler.Settings[settings]{Check: (*settings).check}, client: newClient()}
}

func (p *policy) handler() handler.Handler {
	return handler.Handler{
		Name:      "policy-opa",
		Version:   "1.0.0",
		Register:  func(r grpc.ServiceRegistrar) { permissionv1.RegisterPermissionServiceServer(r, p) },
		Configure: p.configure,
		Close:     p.client.close,
	}
}

func (p *policy) configure(ctx context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	notes, err := p.settings.Configure(ctx, req)
	if err == nil && !req.GetValidateOnly() {
		notes = append(notes, "decisions are asked of "+p.settings.Load().URL)
	}
	return notes, err
}

// Decide asks the server.
func (p *policy) Decide(ctx context.Context, req *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	return p.client.decide(ctx, p.settings.Load(), req.GetAction())
}
